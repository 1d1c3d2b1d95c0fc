//! Where the builder's rows go: memory, or the recording on disk.

use super::{CounterRow, Deadline, MarkRow, SampleRow, SliceRow, SpanRow, Steal, Wakeup};

/// Takes rows as they become known. Rows of one thread come in time order.
pub trait TableSink {
    /// A new slice. It ends the previous slice of the same thread.
    fn slice(&mut self, row: SliceRow);
    /// A wakeup.
    fn wakeup(&mut self, row: Wakeup);
    /// An on-CPU sample.
    fn sample(&mut self, row: SampleRow);
    /// Stolen time of a running slice that was passed on before.
    fn steal(&mut self, row: Steal);
    /// The end of the time-out of a blocked slice that has begun.
    fn deadline(&mut self, row: Deadline);
    /// A span that has ended.
    fn span(&mut self, row: SpanRow);
    /// A counter's value.
    fn counter(&mut self, row: CounterRow);
    /// A mark.
    fn mark(&mut self, row: MarkRow);
}

/// Rows in memory.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// See [`TableSink::slice`].
    pub slices: Vec<SliceRow>,
    /// See [`TableSink::wakeup`].
    pub wakeups: Vec<Wakeup>,
    /// See [`TableSink::sample`].
    pub samples: Vec<SampleRow>,
    /// See [`TableSink::steal`].
    pub steals: Vec<Steal>,
    /// See [`TableSink::deadline`].
    pub deadlines: Vec<Deadline>,
    /// See [`TableSink::span`].
    pub spans: Vec<SpanRow>,
    /// See [`TableSink::counter`].
    pub counters: Vec<CounterRow>,
    /// See [`TableSink::mark`].
    pub marks: Vec<MarkRow>,
}

impl TableSink for Rows {
    fn slice(&mut self, row: SliceRow) {
        self.slices.push(row);
    }

    fn wakeup(&mut self, row: Wakeup) {
        self.wakeups.push(row);
    }

    fn sample(&mut self, row: SampleRow) {
        self.samples.push(row);
    }

    fn steal(&mut self, row: Steal) {
        self.steals.push(row);
    }

    fn deadline(&mut self, row: Deadline) {
        self.deadlines.push(row);
    }

    fn span(&mut self, row: SpanRow) {
        self.spans.push(row);
    }

    fn counter(&mut self, row: CounterRow) {
        self.counters.push(row);
    }

    fn mark(&mut self, row: MarkRow) {
        self.marks.push(row);
    }
}
