//! HotSpot's unified log, from JDK 9 on, with any decorations. Read are `-Xlog:safepoint*` (safepoints, their
//! causes, and the time to reach them) and `-Xlog:gc*` (pauses and concurrent phases).
//!
//! The VM thread is shown as one thread. Its spans are the safepoints, during which all Java threads are
//! stopped. With `safepoint*=trace`, the log names the threads that the VM waited for. Each of them gets a
//! thread with a span that starts when it stopped. The log does not contain when threads had a CPU.

mod collections;
mod line;
mod safepoints;
mod stalls;

use holdup_events::Event;
use holdup_events::recording::{Backend, SourceState};

use super::{Facts, Info, ReadError, Reader, Wanted};
use line::Line;
use safepoints::Safepoints;

/// The format.
pub struct Format;

/// Source name.
const SOURCE: &str = "hotspot-log";
/// Number of lines at the start by which a log without any known line is distinguished from other texts.
const LOOK_LINES: usize = 8;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "hotspot-log", summary: "HotSpot's log of safepoints and collections (java -Xlog)" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // Long log output about other subjects may come first.
        is_of_vm(bytes) || lines(bytes).any(|line| safepoints::is_known(line.text))
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        if !lines(bytes).any(|line| safepoints::is_known(line.text)) {
            return Err(ReadError::Unsupported {
                what: "HotSpot's log without safepoints and collections".to_owned(),
                remedy: "java -Xlog:safepoint*=trace,gc*:file=F:tn,tid writes them",
            });
        }
        let mut safepoints = Safepoints::default();
        for line in lines(bytes) {
            safepoints.take(&line);
        }
        let mut missing = Vec::new();
        if !safepoints.named_late() {
            let late =
                "latecomers to safepoints are not in it: -Xlog:safepoint*=trace:file=F:tn,tid records them";
            missing.push(late.to_owned());
        }
        if safepoints.unmeasured() > 0 {
            let count = safepoints.unmeasured();
            missing.push(format!(
                "durations and pauses of {count} collections are not in it: -Xlog:gc* records them"
            ));
        }
        let told = safepoints.finish(SOURCE, sink)?;
        Ok(Facts {
            span: told.span,
            backend: Backend::Proc,
            limits: "HotSpot's own log: it has safepoints and collections, but not the times on CPUs"
                .to_owned(),
            sources: vec![SourceState {
                name: SOURCE.to_owned(),
                active: true,
                missing: missing.join("; "),
                events: told.events,
                lost: told.lost,
            }],
            ..Facts::default()
        })
    }
}

/// Whether the text begins as the VM's log does: with a clock and a level in brackets.
fn is_of_vm(bytes: &[u8]) -> bool {
    let first =
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(LOOK_LINES);
    let mut some = false;
    let all = first.into_iter().all(|line| {
        some = true;
        std::str::from_utf8(line).ok().and_then(Line::parse).is_some_and(|line| line.has_level)
    });
    some && all
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| Line::parse(std::str::from_utf8(line).ok()?))
}

#[cfg(test)]
#[path = "hotspot_log/tests.rs"]
mod tests;
