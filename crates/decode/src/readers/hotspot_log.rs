//! HotSpot's unified log: `-Xlog:safepoint*` (safepoints, their causes, and how long they were waited for) and `-Xlog:gc*`
//! (pauses and concurrent phases), with any decorations, from JDK 9 on.
//!
//! The VM's thread is shown as one thread: its spans are the safepoints, in which all Java threads stand still. With
//! `safepoint*=trace` the log names the threads that are waited for: each gets a thread with a span from when it had
//! stopped. The log does not tell when threads had a CPU.

mod line;
mod safepoints;

use holdup_events::Event;
use holdup_events::recording::{Rung, SourceState};

use super::{Facts, Info, ReadError, Reader, Wanted};
use line::Line;
use safepoints::Safepoints;

/// The format.
pub struct Format;

/// Its name as a source.
const SOURCE: &str = "hotspot-log";
/// Recognising looks this far (bytes).
const LOOK: usize = 64 << 10;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "hotspot-log", summary: "HotSpot's log of safepoints and collections (java -Xlog)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        let head = bytes.get(..LOOK).unwrap_or(bytes);
        lines(head).any(|line| safepoints::is_known(line.text))
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut safepoints = Safepoints::default();
        for line in lines(bytes) {
            safepoints.take(&line);
        }
        let named_late = safepoints.named_late();
        let told = safepoints.finish(SOURCE, sink)?;
        let missing = match named_late {
            true => "",
            false => "who came late to a safepoint is not in it; -Xlog:safepoint*=trace:file=F:tn,tid tells",
        };
        Ok(Facts {
            span: told.span,
            rung: Rung::Proc,
            limits: "HotSpot's own log: it tells safepoints and collections, not when threads had a CPU"
                .to_owned(),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: missing.to_owned(),
                events: told.events,
                lost: told.lost,
            }],
            ..Facts::default()
        })
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| Line::parse(std::str::from_utf8(line).ok()?))
}

#[cfg(test)]
#[path = "hotspot_log/tests.rs"]
mod tests;
