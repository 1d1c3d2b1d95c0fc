//! pprof's profiles (`profile.proto`, packed by gzip or not): of a heap, as Go's `runtime/pprof` and `net/http/pprof` write
//! them, and of the CPU, which many tools write.
//!
//! There is no time in them and no thread: only sums by stack. Those of a heap are estimates already; from how they were
//! drawn follows how many objects were, so each stack becomes so many drawn allocations, and has its error.

mod message;
mod stacks;

use holdup_events::event::{Allocated, Freed, RawStack};
use holdup_events::recording::{Rung, SourceState};
use holdup_events::{Event, Timestamp};
use prost::Message;

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Laid, LaneThread};
use message::{Profile, Sample};
use stacks::Places;

/// The format.
pub struct Format;

/// There is one thread; a number has to be given.
const TID: u32 = 1;
const THREAD: &str = "all threads";
/// More rows than this are thinned, each stack keeping its share.
const ROWS_MAX: u64 = 1 << 20;
/// More CPU time is a broken file's, not a program's (ns: 30 days).
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600 * 1_000_000_000;
/// Makes it sure that an object is drawn, where all of them are.
const SURELY: u64 = 64;
/// What a profile may begin with: messages (fields 1 to 6 and 11) and numbers.
const FIRST_FIELDS: &[u8] = &[0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x32, 0x48, 0x50, 0x5a, 0x60];
impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "pprof", summary: "pprof's profile of a heap (Go) or of the CPU (profile.proto)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // Nothing marks it; but few other bytes are messages in which each text has its number and the first is empty.
        let head = bytes.first().is_some_and(|key| FIRST_FIELDS.contains(key));
        head && Profile::decode(bytes).is_ok_and(|profile| {
            let texts = &profile.string_table;
            let kind = profile.sample_type.first().and_then(|of| texts.get(usize::try_from(of.kind).ok()?));
            texts.first().is_some_and(String::is_empty) && kind.is_some_and(|kind| !kind.is_empty())
        })
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let profile = Profile::decode(bytes)
            .map_err(|_| ReadError::Broken { what: "it is no whole profile.proto", offset: 0 })?;
        let places = Places::new(&profile);
        let value = |kind: &str, unit: &str| {
            profile
                .sample_type
                .iter()
                .position(|of| (places.text(of.kind), places.text(of.unit)) == (kind, unit))
        };
        let heap = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes")];
        let told =
            if let [Some(objects), Some(bytes), Some(live)] = heap.map(|(kind, unit)| value(kind, unit)) {
                Heap { objects, bytes, live, every_bytes: u64::try_from(profile.period).unwrap_or(0).max(1) }
                    .tell(&profile, &places, sink)
            } else if let Some(time) = value("cpu", "nanoseconds") {
                cpu(&profile, &places, time, sink)?
            } else {
                return Err(unsupported(&profile, &places));
            };
        if told.rows == 0 {
            return Err(ReadError::Empty);
        }
        Ok(facts(told, places))
    }
}

/// What was told.
struct Told {
    source: &'static str,
    limits: String,
    rows: u64,
    /// Rows that there would have been.
    wanted: u64,
    /// CPU time of a sample (ns); 0 if there are none.
    period_ns: u64,
    /// First and last moment.
    span: (Timestamp, Timestamp),
}

fn unsupported(profile: &Profile, places: &Places<'_>) -> ReadError {
    let kinds = profile.sample_type.iter().map(|of| places.text(of.kind));
    ReadError::Unsupported {
        what: format!("a profile of {}", kinds.collect::<Vec<_>>().join(", ")),
        remedy: "holdup reads those of a heap (alloc_space, inuse_space) and of the CPU",
    }
}

fn facts(told: Told, places: Places<'_>) -> Facts {
    let missing = match told.rows < told.wanted {
        true => format!("{} are thinned down to {}", told.wanted, told.rows),
        false => String::new(),
    };
    Facts {
        rung: Rung::Proc,
        limits: told.limits,
        span: told.span,
        sample_period_ns: told.period_ns,
        sources: vec![SourceState {
            name: told.source.to_owned(),
            active: true,
            missing,
            events: told.rows,
            lost: 0,
        }],
        names: Some(places.names),
        ..Facts::default()
    }
}

/// A heap's values: which columns, and how they were drawn.
struct Heap {
    objects: usize,
    bytes: usize,
    live: usize,
    every_bytes: u64,
}

/// A stack's objects, all of them of about the same size.
#[derive(Clone, Copy)]
struct Site {
    objects: f64,
    /// Bytes of one.
    each: f64,
    live: f64,
    /// With which probability one was drawn.
    probability: f64,
}

impl Heap {
    fn tell(&self, profile: &Profile, places: &Places<'_>, sink: &mut dyn FnMut(Event)) -> Told {
        let sites = || profile.sample.iter().filter_map(|sample| Some((sample, self.site(sample, places)?)));
        let wanted: f64 = sites().map(|(_, site)| drawn(site.objects, site.probability)).sum();
        let thinner = (ROWS_MAX as f64 / wanted.max(1.0)).min(1.0);
        let thread = LaneThread { tid: TID, pid: TID, name: THREAD.to_owned() };
        thread.begin(Timestamp(0), Timestamp(0), sink);
        let (mut address, mut id) = (0, 0);
        for (sample, site) in sites() {
            let rows = drawn(site.objects, site.probability * thinner);
            id += 1;
            sink(Event::Stack(RawStack { id, tgid: TID, ..places.stack(&sample.location_id) }));
            let like = row(&site, rows, id);
            let kept = (rows * site.live / site.objects).round() as u64;
            for nth in 0..rows as u64 {
                address += 1;
                sink(Event::Allocated(Allocated { address, ..like }));
                if nth >= kept {
                    sink(Event::Freed(Freed { at: Timestamp(0), tid: 0, tgid: TID, address }));
                }
            }
        }
        Told {
            source: "allocations",
            limits: "a heap profile: it has sums by stack alone, no times and no threads; the profiler has estimated them"
                .to_owned(),
            rows: address,
            wanted: wanted as u64,
            period_ns: 0,
            span: (Timestamp(0), Timestamp(0)),
        }
    }

    fn site(&self, sample: &Sample, places: &Places<'_>) -> Option<Site> {
        let of = |column: usize| sample.value.get(column).map(|value| *value as f64);
        let (objects, bytes) = (of(self.objects)?, of(self.bytes)?);
        // Go keeps sizes apart, and says them: its counts of objects are cut to whole ones.
        let size = sample.label.iter().find(|label| places.text(label.key) == "bytes");
        let each = size.map_or(bytes / objects, |label| label.number as f64);
        if !(each >= 1.0 && each.is_finite() && bytes >= each) {
            return None;
        }
        // Go's `scaleHeapSample` (runtime/pprof/protomem.go) divides by this.
        let probability = -(-each / self.every_bytes as f64).exp_m1();
        let probability = if self.every_bytes <= 1 || probability <= 0.0 { 1.0 } else { probability };
        let objects = bytes / each;
        Some(Site { objects, each, live: (of(self.live)? / each).clamp(0.0, objects), probability })
    }
}

/// How many objects were drawn for an estimate.
fn drawn(objects: f64, probability: f64) -> f64 {
    (objects * probability).round().max(1.0)
}

/// One of `rows` allocations that together stand for all of the site's objects.
fn row(site: &Site, rows: f64, stack: u64) -> Allocated {
    let probability = rows / site.objects;
    // The probability is 1 - exp(-bytes / every_bytes).
    let (every, own_bytes) = match probability < 1.0 {
        true => (-site.each / (-probability).ln_1p(), 0),
        false => (1.0, SURELY),
    };
    Allocated {
        at: Timestamp(0),
        tid: TID,
        tgid: TID,
        address: 0,
        bytes: site.each.round() as u64,
        every_bytes: (every.round() as u64).max(1),
        own_bytes,
        stack,
    }
}

fn cpu(
    profile: &Profile,
    places: &Places<'_>,
    column: usize,
    sink: &mut dyn FnMut(Event),
) -> Result<Told, ReadError> {
    let time = |sample: &Sample| sample.value.get(column).map_or(0, |ns| u64::try_from(*ns).unwrap_or(0));
    let all_ns = profile.sample.iter().fold(0u64, |sum, sample| sum.saturating_add(time(sample)));
    let period =
        profile.period_type.filter(|of| places.text(of.unit) == "nanoseconds").map_or(0, |_| profile.period);
    let period_ns = u64::try_from(period).unwrap_or(0).max(1);
    if all_ns > SPAN_MAX_NS {
        return Err(ReadError::Broken { what: "its CPU time is more than 30 days", offset: 0 });
    }
    let wanted = all_ns / period_ns;
    // Thinned samples stand for more time each.
    let period_ns = if wanted > ROWS_MAX { all_ns / ROWS_MAX } else { period_ns };
    let mut laid = Laid::new(THREAD, period_ns, sink);
    let (mut seen_ns, mut told) = (0u64, 0);
    for sample in &profile.sample {
        seen_ns = seen_ns.saturating_add(time(sample));
        let until = seen_ns / period_ns;
        if until > told {
            laid.add(places.stack(&sample.location_id), until - told);
        }
        told = until;
    }
    let span = laid.finish();
    Ok(Told {
        source: "cpu-samples",
        limits: format!(
            "a CPU profile: it has sums by stack alone, no times and no threads; its samples, of {:.3} ms of CPU time each, are \
             shown as one thread's, one behind the other",
            period_ns as f64 / 1e6
        ),
        rows: told,
        wanted,
        period_ns,
        span,
    })
}

#[cfg(test)]
#[path = "pprof/tests.rs"]
mod tests;
