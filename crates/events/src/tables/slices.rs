//! Slices: a thread in one state for a while. The main table.

use std::ops::Range;

use super::{RowSet, partition_point_near};
use crate::{CpuId, Duration, StackId, ThreadId, Timestamp, WaitId};

crate::wait::codes! {
    /// State of a thread during a slice. Codes are stored: append, never renumber.
    ThreadState {
        /// Unknown: events are missing.
        Unknown = 0 "unknown",
        /// On a CPU (time that the hypervisor took away included: see [`Steal`]).
        Running = 1 "running",
        /// Waits for a CPU after a wakeup or its birth.
        Runnable = 2 "runnable",
        /// Waits for a CPU because another thread was given its.
        Preempted = 3 "preempted",
        /// Waits for a CPU after giving it away (`sched_yield`).
        Yielded = 4 "yielded",
        /// May not run: its group's CPU bandwidth is used up.
        Throttled = 5 "throttled",
        /// Waits for something else than a CPU.
        Blocked = 6 "blocked",
        /// Not followed (a foreign thread that is not running).
        Untracked = 7 "untracked",
    }
}

impl ThreadState {
    /// Whether the thread is runnable and waits for a CPU.
    #[inline]
    pub fn waits_for_cpu(self) -> bool {
        use ThreadState::*;
        matches!(self, Runnable | Preempted | Yielded | Throttled)
    }
}

/// One row as a value: what a slice is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The slice's thread.
    pub thread: ThreadId,
    /// From when.
    pub start: Timestamp,
    /// To when: the start of the thread's next slice, or the thread's end.
    pub end: Timestamp,
    /// In which state.
    pub state: ThreadState,
    /// Running: where. Waiting for a CPU: where it ran next, if known.
    pub cpu: CpuId,
    /// Blocked: for what.
    pub wait: WaitId,
    /// Blocked: the stack it blocked with, if one was taken.
    pub stack: StackId,
    /// `stack` was taken with probability 1/`stack_every`, so it represents this many such slices. 0 where no
    /// stacks were wanted.
    pub stack_every: u16,
}

impl Slice {
    /// Length of the slice.
    #[inline]
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// One row of [`Slices`], as the builder appends it: the end follows from the next row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceRow {
    /// See [`Slice::thread`].
    pub thread: ThreadId,
    /// See [`Slice::start`].
    pub start: Timestamp,
    /// See [`Slice::state`].
    pub state: ThreadState,
    /// See [`Slice::cpu`].
    pub cpu: CpuId,
    /// See [`Slice::wait`].
    pub wait: WaitId,
    /// See [`Slice::stack`].
    pub stack: StackId,
    /// See [`Slice::stack_every`].
    pub stack_every: u16,
}

/// CPU time of one running slice that the hypervisor gave to other guests: the slice's wall time minus the
/// time that the kernel accounted. Rows sorted by thread, then start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    /// Thread of the slice.
    pub thread: ThreadId,
    /// The slice's start.
    pub slice_start: Timestamp,
    /// Stolen part of the slice, at most its length.
    pub stolen: Duration,
}

/// When a blocked slice would have ended by itself, if the thread asked for that: the end of its time-out.
/// Rows sorted by thread, then start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Thread of the slice.
    pub thread: ThreadId,
    /// The slice's start.
    pub slice_start: Timestamp,
    /// When the time that it asked for was over.
    pub due: Timestamp,
}

/// All slices, sorted by thread, then start. For each thread they tile its life: a slice ends
/// where the next one starts, the last one at `thread.end`.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// `rows_of_thread[t]..rows_of_thread[t + 1]` are the rows of thread `t`.
    rows_of_thread: Vec<u32>,
    start: Vec<Timestamp>,
    state: Vec<ThreadState>,
    cpu: Vec<CpuId>,
    blocked: Blocked,
    thread_end: Vec<Timestamp>,
}

/// Columns of blocked slices only. Most slices of a busy recording are not blocked.
#[derive(Clone, Debug, Default)]
struct Blocked {
    rows: RowSet,
    wait: Vec<WaitId>,
    stack: Vec<StackId>,
    stack_every: Vec<u16>,
}

impl Blocked {
    /// Converts columns with one value per row. Rows without a value in any of them are dropped.
    fn compact(mut wait: Vec<WaitId>, mut stack: Vec<StackId>, mut stack_every: Vec<u16>) -> Blocked {
        let rows = wait.len().min(stack.len()).min(stack_every.len());
        let mut kept = 0;
        let mut told = Vec::new();
        for row in 0..rows {
            if (wait[row], stack[row], stack_every[row]) != (WaitId::NONE, StackId::NONE, 0) {
                (wait[kept], stack[kept], stack_every[kept]) = (wait[row], stack[row], stack_every[row]);
                told.push(row as u32);
                kept += 1;
            }
        }
        wait.truncate(kept);
        stack.truncate(kept);
        stack_every.truncate(kept);
        wait.shrink_to_fit();
        stack.shrink_to_fit();
        stack_every.shrink_to_fit();
        Blocked { rows: RowSet::new(told, rows), wait, stack, stack_every }
    }

    #[inline]
    fn get(&self, row: usize) -> (WaitId, StackId, u16) {
        match self.rows.number(row) {
            Some(entry) => (self.wait[entry], self.stack[entry], self.stack_every[entry]),
            None => (WaitId::NONE, StackId::NONE, 0),
        }
    }

    /// The same for a caller that asks for one row after the other: `entry` is how many of the rows before have one.
    #[inline(always)]
    fn get_next(&self, row: usize, entry: &mut usize) -> (WaitId, StackId, u16) {
        if !self.rows.has(row) {
            return (WaitId::NONE, StackId::NONE, 0);
        }
        let at = *entry;
        *entry += 1;
        (self.wait[at], self.stack[at], self.stack_every[at])
    }
}

/// The slices of one thread, see [`Slices::of_thread`].
#[derive(Clone, Debug)]
pub struct SlicesOf<'a> {
    slices: &'a Slices,
    thread: ThreadId,
    /// Rows not yet returned.
    rows: Range<usize>,
    /// Behind the thread's last row.
    end: usize,
    /// Entries of blocked slices before `rows.start`.
    entry: usize,
}

impl Iterator for SlicesOf<'_> {
    type Item = Slice;

    // Always inlined: most callers use two or three fields of a slice, and the others need not be read.
    #[inline(always)]
    fn next(&mut self) -> Option<Slice> {
        let row = self.rows.next()?;
        let waited = self.slices.blocked.get_next(row, &mut self.entry);
        Some(self.slices.filled(self.thread, row, self.end, waited))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

impl DoubleEndedIterator for SlicesOf<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Slice> {
        let row = self.rows.next_back()?;
        Some(self.slices.get(self.thread, row, self.end))
    }
}

impl ExactSizeIterator for SlicesOf<'_> {}

impl Slices {
    /// Freezes `batches` of rows into the table. Rows of one thread must come in time order within and across
    /// batches. Rows of different threads may come in any order. `thread_end[t]` is the end of thread `t`'s
    /// life. Rows of threads beyond it are dropped.
    pub fn freeze(batches: &[Vec<SliceRow>], thread_end: Vec<Timestamp>) -> Slices {
        let threads = thread_end.len();
        let mut rows_of_thread = vec![0u32; threads + 1];
        for row in batches.iter().flatten() {
            if let Some(count) = rows_of_thread.get_mut(row.thread.index() + 1) {
                *count += 1;
            }
        }
        for thread in 0..threads {
            rows_of_thread[thread + 1] += rows_of_thread[thread];
        }
        let total = rows_of_thread[threads] as usize;
        let mut next_row = rows_of_thread.clone();
        let mut slices = Slices {
            start: vec![Timestamp(0); total],
            state: vec![ThreadState::Unknown; total],
            cpu: vec![CpuId::NONE; total],
            blocked: Blocked::default(),
            rows_of_thread,
            thread_end,
        };
        let (mut wait, mut stack) = (vec![WaitId::NONE; total], vec![StackId::NONE; total]);
        let mut stack_every = vec![0; total];
        for row in batches.iter().flatten() {
            if row.thread.index() >= threads {
                continue;
            }
            let at = next_row[row.thread.index()] as usize;
            next_row[row.thread.index()] += 1;
            slices.start[at] = row.start.min(slices.thread_end[row.thread.index()]);
            slices.state[at] = row.state;
            slices.cpu[at] = row.cpu;
            (wait[at], stack[at], stack_every[at]) = (row.wait, row.stack, row.stack_every);
        }
        slices.blocked = Blocked::compact(wait, stack, stack_every);
        slices
    }

    /// Builds the table from columns in final order. `rows_of_thread` is as in the table, each thread's rows
    /// are in time order, and all columns have the same length.
    pub(crate) fn from_columns(
        rows_of_thread: Vec<u32>,
        (start, state, cpu): (Vec<Timestamp>, Vec<ThreadState>, Vec<CpuId>),
        (wait, stack, stack_every): (Vec<WaitId>, Vec<StackId>, Vec<u16>),
        thread_end: Vec<Timestamp>,
    ) -> Slices {
        let blocked = Blocked::compact(wait, stack, stack_every);
        Slices { rows_of_thread, start, state, cpu, blocked, thread_end }
    }

    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// How many threads the table covers.
    pub fn threads(&self) -> usize {
        self.thread_end.len()
    }

    /// The rows of one thread, in time order.
    #[inline]
    pub fn rows(&self, thread: ThreadId) -> Range<usize> {
        match self.rows_of_thread.get(thread.index()..thread.index() + 2) {
            Some([from, to]) => *from as usize..*to as usize,
            _ => 0..0,
        }
    }

    /// The slices of one thread, in time order.
    #[inline]
    pub fn of_thread(&self, thread: ThreadId) -> SlicesOf<'_> {
        self.from_row(thread, self.rows(thread).start)
    }

    /// The slices of one thread from `first`, one of `rows(thread)`, on.
    #[inline]
    pub fn from_row(&self, thread: ThreadId, first: usize) -> SlicesOf<'_> {
        let rows = self.rows(thread);
        let rows = first.clamp(rows.start, rows.end)..rows.end;
        SlicesOf { slices: self, thread, end: rows.end, entry: self.blocked.rows.before(rows.start), rows }
    }

    /// Start of each slice of one thread, in time order. The first is that of row `rows(thread).start`.
    #[inline]
    pub fn starts(&self, thread: ThreadId) -> &[Timestamp] {
        self.start.get(self.rows(thread)).unwrap_or(&[])
    }

    /// One slice. `row` must be one of `rows(thread)`.
    #[inline]
    pub fn at(&self, thread: ThreadId, row: usize) -> Slice {
        self.get(thread, row, self.rows(thread).end)
    }

    /// Start and end of one slice. `row` as in [`Slices::at`].
    #[inline]
    pub fn span(&self, thread: ThreadId, row: usize) -> Range<Timestamp> {
        self.span_in(thread, row, self.rows(thread).end)
    }

    #[inline(always)]
    fn span_in(&self, thread: ThreadId, row: usize, rows_end: usize) -> Range<Timestamp> {
        let next = row + 1;
        let end = if next < rows_end { self.start[next] } else { self.thread_end[thread.index()] };
        let start = self.start[row];
        start..end.max(start)
    }

    #[inline]
    fn get(&self, thread: ThreadId, row: usize, rows_end: usize) -> Slice {
        self.filled(thread, row, rows_end, self.blocked.get(row))
    }

    #[inline(always)]
    fn filled(
        &self,
        thread: ThreadId,
        row: usize,
        rows_end: usize,
        (wait, stack, stack_every): (WaitId, StackId, u16),
    ) -> Slice {
        let Range { start, end } = self.span_in(thread, row, rows_end);
        let (state, cpu) = (self.state[row], self.cpu[row]);
        Slice { thread, start, end, state, cpu, wait, stack, stack_every }
    }

    /// The row of `thread` that covers `at`, if any.
    pub fn covering(&self, thread: ThreadId, at: Timestamp) -> Option<usize> {
        self.covers(thread, at, self.starts(thread).partition_point(|start| *start <= at))
    }

    /// The same for a caller that asks for one moment near another: `near` is the answer's place among the thread's
    /// rows, at first any.
    #[inline]
    pub fn covering_near(&self, thread: ThreadId, at: Timestamp, near: &mut usize) -> Option<usize> {
        *near = partition_point_near(self.starts(thread), *near, |start| *start <= at);
        self.covers(thread, at, *near)
    }

    /// The last of the `behind` rows of `thread` that begin by `at`, if it has not ended.
    #[inline]
    fn covers(&self, thread: ThreadId, at: Timestamp, behind: usize) -> Option<usize> {
        let rows = self.rows(thread);
        let row = rows.start + behind.checked_sub(1)?;
        (at < self.get(thread, row, rows.end).end).then_some(row)
    }
}
