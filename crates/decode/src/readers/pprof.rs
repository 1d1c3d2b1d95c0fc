//! pprof profiles (`profile.proto`, optionally packed by gzip): heap profiles, as written by Go's
//! `runtime/pprof` and `net/http/pprof`, and CPU profiles, which many tools write.
//!
//! A profile has neither times nor threads, only sums by stack. Sums of a heap profile are estimates. The
//! sampling method gives the number of sampled objects. Each stack therefore becomes that many sampled
//! allocations, with the corresponding error.

mod cpu;
mod heap;
mod message;
mod stacks;
mod values;

use holdup_events::recording::{Backend, SourceState};
use holdup_events::{Event, Timestamp};
use prost::Message;

use super::{Facts, Info, ReadError, Reader, Wanted};
use heap::Heap;
use message::Profile;
use stacks::Places;
use values::Columns;

/// The format.
pub struct Format;

/// Thread id for the profile, which has only one thread.
const TID: u32 = 1;
const THREAD: &str = "all threads";
/// More rows than this are thinned, each stack keeping its share.
const ROWS_MAX: u64 = 1 << 20;
/// More CPU time is a broken file's, not a program's (ns: 30 days).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;
/// Possible first bytes of a profile: keys of messages (fields 1 to 6 and 11) and of numbers.
const FIRST_FIELDS: &[u8] = &[0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x32, 0x48, 0x50, 0x5a, 0x60];
impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "pprof", summary: "pprof's profile of a heap (Go) or of the CPU (profile.proto)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // The format has no magic number. The string table must be valid, with an empty first string, which
        // few other files satisfy.
        let head = bytes.first().is_some_and(|key| FIRST_FIELDS.contains(key));
        head && Profile::decode(bytes).is_ok_and(|profile| {
            let texts = &profile.string_table;
            let kind = profile.sample_type.first().and_then(|of| texts.get(usize::try_from(of.kind).ok()?));
            texts.first().is_some_and(Vec::is_empty) && kind.is_some_and(|kind| !kind.is_empty())
        })
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let profile = Profile::decode(bytes)
            .map_err(|_| ReadError::Broken { what: "it is no whole profile.proto", offset: 0 })?;
        let places = Places::new(&profile);
        let columns = Columns::new(&profile, &places);
        let cpu = columns.cpu();
        // Some profilers write allocations together with CPU time.
        let rows = match (columns.heap().filter(|heap| heap.is_whole() || cpu.is_none()), cpu) {
            (Some(heap), _) => Heap::new(heap, &profile, &places).emit(&profile, sink),
            (None, Some(column)) => cpu::emit(&profile, &places, column, sink)?,
            (None, None) => return Err(unsupported(&profile, &places)),
        };
        if rows.rows == 0 {
            return Err(ReadError::Empty);
        }
        Ok(facts(rows, places))
    }
}

/// Summary of the emitted events.
struct EmittedRows {
    source: &'static str,
    limits: String,
    rows: u64,
    /// Rows that there would have been.
    wanted: u64,
    /// CPU time of a sample (ns), 0 if there are no samples.
    period_ns: u64,
    /// First and last moment.
    span: (Timestamp, Timestamp),
}

fn unsupported(profile: &Profile, places: &Places) -> ReadError {
    let kinds = profile.sample_type.iter().map(|of| places.text(of.kind));
    ReadError::Unsupported {
        what: format!("a profile of {}", kinds.collect::<Vec<_>>().join(", ")),
        remedy: "holdup reads those of a heap (alloc_space, inuse_space) and of the CPU (cpu, or samples without a wall clock)",
    }
}

fn facts(rows: EmittedRows, places: Places) -> Facts {
    let missing = match rows.rows < rows.wanted {
        true => format!("{} are thinned down to {}", rows.wanted, rows.rows),
        false => String::new(),
    };
    Facts {
        backend: Backend::Proc,
        limits: rows.limits,
        span: rows.span,
        sample_period_ns: rows.period_ns,
        sources: vec![SourceState {
            name: rows.source.to_owned(),
            active: true,
            missing,
            events: rows.rows,
            lost: 0,
        }],
        names: Some(places.names),
        ..Facts::default()
    }
}

#[cfg(test)]
#[path = "pprof/tests.rs"]
mod tests;
