//! A finding: one cause of lost time, with its evidence.

use holdup_events::{Duration, ThreadId, Timestamp};
use serde::Serialize;

/// What a rule found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id, kebab-case.
    pub rule: &'static str,
    /// The thing concerned, named for people: a lock, a thread, a foreign process, a syscall.
    pub subject: String,
    /// One to three short sentences with the figures that make the case.
    pub summary: Vec<String>,
    /// Thread-time lost to it (ns).
    pub cost_ns: u64,
    /// Share of the run's wall time that removing it would save, as an interval.
    pub gain: Gain,
    /// How sure.
    pub confidence: Confidence,
    /// Rows that anybody can check, the worst first.
    pub evidence: Vec<Evidence>,
    /// What to try, one action each.
    pub advice: Vec<String>,
}

/// Share of the wall time, 0 to 1, that the run would be shorter.
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
    /// A hint; also whatever overlaps a loss.
    Low,
    /// Likely.
    Medium,
    /// The rows say so.
    High,
}

/// One piece of evidence: rows of a table that the trace holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Which table: `slices`, `wakeups`, `samples`.
    pub table: &'static str,
    /// Whose rows.
    #[serde(serialize_with = "thread_number")]
    pub thread: ThreadId,
    /// From when …
    #[serde(serialize_with = "at_ns")]
    pub start: Timestamp,
    /// … for how long (0 for a sample or wakeup).
    #[serde(serialize_with = "length_ns")]
    pub duration: Duration,
    /// What it shows, in a few words.
    pub note: String,
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
