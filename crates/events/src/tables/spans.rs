//! What a program and its runtime tell about themselves: spans, counters and marks, on lanes.
//!
//! A lane is what the runtime calls the teller: a domain, a capability, a processor. Which thread a span was on is
//! told by the source, or found by who was running when it was told.

use crate::{ProcessId, ThreadId, Timestamp};

crate::wait::codes! {
    /// What a span's time is, but for the spans within it.
    SpanKind {
        /// Named by the program, or of no kind below.
        User = 0 "user",
        /// The collector's work, or the runtime's own.
        GcWork = 1 "gc-work",
        /// At a barrier of the collector: waiting for other threads.
        GcWait = 2 "gc-wait",
        /// Nothing to do.
        Idle = 3 "idle",
        /// Asking for all threads to stop, or answering that: holds the spans of a stop-the-world pause.
        Stop = 4 "stop",
        /// The collector's work beside the program, which goes on meanwhile: no pause.
        GcBeside = 5 "gc-beside",
        /// Asks all other threads to stop, and holds them until it ends.
        StopsAll = 6 "stops-all",
        /// Has come to such a stop, and waits for its end.
        Stopped = 7 "stopped",
    }
}

/// A name that spans, counters and marks share, and the texts of marks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TellName {
    /// Of spans: what their time is.
    pub kind: SpanKind,
    /// The runtime's own word for it.
    pub text: String,
}

/// One lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Whose.
    pub process: ProcessId,
    /// Which runtime tells, with its version (`ocaml 5.3`).
    pub runtime: String,
    /// The runtime's number for it. A number that is given again is another lane.
    pub number: u32,
    /// First thing told.
    pub start: Timestamp,
    /// Last thing told.
    pub end: Timestamp,
    /// Things told.
    pub events: u64,
    /// How many of them were told while a thread of this lane was on a CPU (or the source names the thread).
    pub matched: u64,
}

/// One span as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRow {
    /// The thread that it began on.
    pub thread: ThreadId,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; the end of the recording, or of the lane, if that was not told.
    pub end: Timestamp,
    /// Row of [`crate::Trace::lanes`].
    pub lane: u32,
    /// Row of [`crate::Trace::names`].
    pub name: u32,
}

/// The runtime of lanes on which the recorder tells what hardware counted: one for each thread.
pub const HARDWARE: &str = "hardware";
/// Their numbers: this and the thread's. No runtime has such.
pub const HARDWARE_LANES: u32 = 1 << 30;
/// The counter that says how long a thread ran between two samples without a switch between: what the others of its lane and
/// moment are of (ns).
pub const COUNTED_NS: &str = "counted_ns";

/// One value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterRow {
    /// The thread that told it.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Row of [`crate::Trace::lanes`].
    pub lane: u32,
    /// Row of [`crate::Trace::names`].
    pub name: u32,
    /// In the counter's own unit.
    pub value: u64,
}

/// Something told without a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkRow {
    /// The thread that told it.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Row of [`crate::Trace::lanes`].
    pub lane: u32,
    /// Row of [`crate::Trace::names`].
    pub name: u32,
    /// A number told with it, as its bits (two's complement), else 0.
    pub value: u64,
    /// A text told with it: row of [`crate::Trace::names`]; 0 none.
    pub text: u32,
}

/// All spans, sorted by thread, then start; of two that start at once the longer comes first.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    rows: Vec<SpanRow>,
}

impl Spans {
    /// Freezes rows in any order.
    pub fn freeze(mut rows: Vec<SpanRow>) -> Spans {
        rows.sort_by_key(|row| (row.thread, row.start, std::cmp::Reverse(row.end)));
        Spans { rows }
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Every span, by thread, then start.
    pub fn rows(&self) -> &[SpanRow] {
        &self.rows
    }

    /// The spans of one thread, in the order of their starts, outer ones first.
    pub fn of(&self, thread: ThreadId) -> &[SpanRow] {
        let from = self.rows.partition_point(|row| row.thread < thread);
        let behind = self.rows.partition_point(|row| row.thread <= thread);
        self.rows.get(from..behind).unwrap_or(&[])
    }
}
