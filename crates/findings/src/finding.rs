//! A finding: one cause of lost time, with its evidence.

use holdup_events::{Duration, ThreadId, Timestamp, Trace};
use serde::Serialize;

/// One cause of lost time that a rule found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id, kebab-case.
    pub rule: &'static str,
    /// The same object, for code.
    pub about: About,
    /// Name of the object concerned, for people: a lock, a thread, a foreign process, a syscall.
    pub subject: String,
    /// One to three short sentences with the figures that make the case.
    pub summary: Vec<String>,
    /// Thread-time lost to it (ns).
    pub cost_ns: u64,
    /// Share of the run's wall time that removing it would save, as an interval.
    pub gain: Gain,
    /// The likely gain, within `gain`. `None` if it could not be estimated.
    pub likely: Option<f64>,
    /// How sure.
    pub confidence: Confidence,
    /// Rows of the recording that support the finding, the worst first.
    pub evidence: Vec<Evidence>,
    /// Actions to try, one each.
    pub advice: Vec<String>,
}

/// The object that a finding is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum About {
    /// No single object, or one that no code needs to find again.
    #[default]
    Other,
    /// A lock, by its place in [`crate::derive::locks::LockIndex::locks`].
    Lock(u32),
    /// Calls of the syscall with this name.
    Calls(&'static str),
    /// A wait loop, by its place in [`crate::analysis::Derived::spins`].
    Loop(usize),
}

/// Share of the wall time, 0 to 1, that the run would be shorter: lower and upper bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gain {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A hint. Also every finding that overlaps a loss.
    Low,
    /// Likely.
    Medium,
    /// The rows prove it.
    High,
}

/// One piece of evidence: rows of a table that the trace holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Which table: `slices`, `wakeups`, `samples`.
    pub table: &'static str,
    /// The thread of these rows.
    #[serde(serialize_with = "thread_number")]
    pub thread: ThreadId,
    /// From when …
    #[serde(serialize_with = "at_ns")]
    pub start: Timestamp,
    /// … for how long (0 for a sample or wakeup).
    #[serde(serialize_with = "length_ns")]
    pub duration: Duration,
    /// A short description of these rows.
    pub note: String,
}

impl Evidence {
    /// A sample of a thread, as evidence.
    pub fn sample(thread: ThreadId, at: Timestamp, note: String) -> Evidence {
        Evidence { table: "samples", thread, start: at, duration: Duration(0), note }
    }
}

/// Evidence of more slices than this is about none of them.
const SLICES_MAX: usize = 1000;

impl Evidence {
    /// The row of the slice that takes up most of the evidence, and the overlap's start and duration. The
    /// first one of several equal slices. For a moment, the slice that contains it. Example: a latecomer's
    /// evidence begins in the slice in which it received the request, and is about the slice that delayed it.
    pub fn slice(&self, trace: &Trace) -> Option<(usize, Timestamp, Duration)> {
        let first = trace.slices.covering(self.thread, self.start)?;
        let end = self.start + self.duration;
        let mut best: Option<(usize, Timestamp, Duration)> = None;
        for (place, slice) in trace.slices.from_row(self.thread, first).enumerate() {
            if place > 0 && slice.start >= end {
                break;
            }
            if place == SLICES_MAX {
                return Some((first, self.start, self.duration));
            }
            let from = slice.start.max(self.start);
            let inside = slice.end.min(end).since(from);
            if best.is_none_or(|(.., most)| inside > most) {
                best = Some((first + place, from, inside));
            }
        }
        best
    }
}

fn thread_number<S: serde::Serializer>(id: &ThreadId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(id.0)
}

fn at_ns<S: serde::Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(at.0)
}

fn length_ns<S: serde::Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(length.0)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::{SliceRow, Slices};

    use super::*;

    /// A thread with slices that begin at `starts`. The last one ends at 100,000.
    fn trace(starts: &[u64]) -> Trace {
        let row = |start: &u64| SliceRow { start: Timestamp(*start), ..SliceRow::default() };
        let slices = Slices::freeze(&[starts.iter().map(row).collect()], vec![Timestamp(100_000)]);
        Trace { slices, ..Trace::default() }
    }

    fn evidence(start: u64, duration: u64) -> Evidence {
        let (start, duration) = (Timestamp(start), Duration(duration));
        Evidence { table: "slices", thread: ThreadId(0), start, duration, note: String::new() }
    }

    #[test]
    fn evidence_is_about_the_slice_that_takes_up_most_of_it() {
        let trace = trace(&[0, 100, 500, 700]);
        let about = |start, duration| evidence(start, duration).slice(&trace);
        assert_eq!(about(99, 402), Some((1, Timestamp(100), Duration(400))));
        assert_eq!(about(150, 10), Some((1, Timestamp(150), Duration(10))));
        assert_eq!(about(400, 200), Some((1, Timestamp(400), Duration(100))), "the first of equals");
        assert_eq!(about(500, 0), Some((2, Timestamp(500), Duration(0))), "a moment");
        assert_eq!(about(650, 99), Some((2, Timestamp(650), Duration(50))));
        assert_eq!(about(200_000, 5), None, "nobody was there any more");
    }

    #[test]
    fn evidence_of_very_many_slices_is_about_none_of_them() {
        let starts: Vec<u64> = (0..2 * SLICES_MAX as u64).map(|n| 10 * n).collect();
        let trace = trace(&starts);
        assert_eq!(evidence(5, 50_000).slice(&trace), Some((0, Timestamp(5), Duration(50_000))));
    }
}
