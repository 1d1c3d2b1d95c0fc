//! Reports of a program and its runtime about themselves: spans, counters and marks, on lanes.
//!
//! A lane is the runtime's unit of reporting: a domain, a capability, a processor. The thread of a span comes
//! from the source, or is the thread of the process that was running at the time of the report.

use crate::{ProcessId, ThreadId, Timestamp};

crate::wait::codes! {
    /// Purpose of a span's time, without the spans nested in it.
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
        /// Concurrent work of the collector, without a pause of the program.
        GcBeside = 5 "gc-concurrent",
        /// Asks all other threads to stop, and holds them until it ends.
        StopsAll = 6 "stops-all",
        /// Has come to such a stop, and waits for its end.
        Stopped = 7 "stopped",
    }
}

/// A name that spans, counters and marks share, and the texts of marks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TellName {
    /// Purpose of the time of spans.
    pub kind: SpanKind,
    /// The runtime's own word for it.
    pub text: String,
}

/// One lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The lane's process.
    pub process: ProcessId,
    /// The reporting runtime, with its version (`ocaml 5.3`).
    pub runtime: String,
    /// The runtime's number for it. A number that is given again is another lane.
    pub number: u32,
    /// Time of the first report.
    pub start: Timestamp,
    /// Time of the last report.
    pub end: Timestamp,
    /// Number of reports.
    pub events: u64,
    /// Number of reports made while a thread of this lane was on a CPU (or for which the source names the
    /// thread).
    pub matched: u64,
}

/// One span as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRow {
    /// The thread that it began on.
    pub thread: ThreadId,
    /// When it began.
    pub start: Timestamp,
    /// End of the span. If no end was reported, the end of the lane or of the recording.
    pub end: Timestamp,
    /// Row of [`crate::Trace::lanes`].
    pub lane: u32,
    /// Row of [`crate::Trace::names`].
    pub name: u32,
}

/// The runtime of the recorder's own lanes for hardware counters, one lane per thread.
pub const HARDWARE: &str = "hardware";
/// First number of these lanes: this plus the thread's number. Runtimes do not use such numbers.
pub const HARDWARE_LANES: u32 = 1 << 30;
/// Counter of the time that a thread ran between two samples without a switch in between (ns). The other
/// counters with the same lane and time refer to this time.
pub const COUNTED_NS: &str = "counted_ns";

/// One value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterRow {
    /// The reporting thread.
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

/// A report without a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkRow {
    /// The reporting thread.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Row of [`crate::Trace::lanes`].
    pub lane: u32,
    /// Row of [`crate::Trace::names`].
    pub name: u32,
    /// Number of the report as bits (two's complement), else 0.
    pub value: u64,
    /// Text of the report: row of [`crate::Trace::names`], 0 if none.
    pub text: u32,
}

/// All spans, sorted by thread, then start. If two start at the same time, the longer comes first.
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
    pub fn of_thread(&self, thread: ThreadId) -> &[SpanRow] {
        let from = self.rows.partition_point(|row| row.thread < thread);
        let behind = self.rows.partition_point(|row| row.thread <= thread);
        self.rows.get(from..behind).unwrap_or(&[])
    }
}
