//! One recording cut into blocks of time, each used as a run. The blocks show how much figures vary within
//! the run.
//!
//! Contains only figures that a part of a recording has. Locks and syscalls come from the threads' own
//! slices, allocations from the times of the sampled allocations. Calls that were counted in short windows
//! are left out, because most blocks have no window.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Timestamp, Trace};

use super::facts::{Names, allocations, has_allocations, summed};
use super::run::{FactRow, Run, RunFacts, Table};
use crate::Analysis;
use crate::derive::stacks::{Allocated, Folding, Selection};
use crate::derive::syscall_names::syscall_name;

/// Number of blocks of a recording. Blocks this long are nearly independent.
pub(super) const BLOCKS: usize = 24;

/// Start of each block, and end of the last one. `None` if the recording is too short.
pub(super) fn bounds(trace: &Trace) -> Option<Bounds> {
    let (start, wall) = (trace.start().0, u128::from(trace.wall().0));
    let at = |block: usize| Timestamp(start + (wall * block as u128 / BLOCKS as u128) as u64);
    (wall >= BLOCKS as u128).then(|| std::array::from_fn(at))
}

/// One run per block, with the facts that a block has. Empty if the recording is too short.
pub(super) fn runs(trace: &Trace, analysis: &Analysis) -> Vec<Run> {
    let Some(bounds) = bounds(trace) else { return Vec::new() };
    let mut rows: Vec<Vec<FactRow>> = vec![Vec::new(); BLOCKS];
    locks((trace, analysis), &bounds, &mut rows);
    syscalls((trace, analysis), &bounds, &mut rows);
    if has_allocations(trace) {
        allocated(trace, &bounds, &mut rows);
    }
    let run = |rows: Vec<FactRow>| {
        let facts = RunFacts { rows: summed(rows.into_iter()), ..RunFacts::default() };
        Run { facts: Some(facts), ..Run::default() }
    };
    rows.into_iter().map(run).collect()
}

type Bounds = [Timestamp; BLOCKS + 1];

/// A key's time (ns) in one block, and the number of its events that began there.
#[derive(Clone, Copy, Default)]
struct Sum {
    ns: u64,
    times: u64,
}

/// Sums by key and block.
struct Sums<'a, K> {
    bounds: &'a Bounds,
    by_key: BTreeMap<K, [Sum; BLOCKS]>,
}

impl<'a, K: Ord> Sums<'a, K> {
    fn new(bounds: &'a Bounds) -> Sums<'a, K> {
        Sums { bounds, by_key: BTreeMap::new() }
    }

    /// The block of a moment.
    fn block(&self, at: Timestamp) -> usize {
        self.bounds[1..BLOCKS].partition_point(|end| *end <= at)
    }

    /// Counts a stretch in: each block that it touches has its part of it.
    fn add(&mut self, key: K, (from, to): (Timestamp, Timestamp)) {
        let (first, last) = (self.block(from), self.block(to));
        let sums = self.by_key.entry(key).or_default();
        sums[first].times += 1;
        let ends = self.bounds.windows(2);
        for (sum, ends) in sums.iter_mut().zip(ends).take(last + 1).skip(first) {
            let (begin, end) = (ends[0].max(from), ends[1].min(to));
            sum.ns += end.0.saturating_sub(begin.0);
        }
    }

    /// Adds the time of a sample.
    fn add_sample(&mut self, key: K, at: Timestamp, ns: u64) {
        let block = self.block(at);
        self.by_key.entry(key).or_default()[block].ns += ns;
    }

    /// A row for each key and block that has something.
    fn finish(self, rows: &mut [Vec<FactRow>], row: impl Fn(&K, Sum) -> FactRow) {
        for (key, sums) in &self.by_key {
            for (rows, sum) in rows.iter_mut().zip(sums).filter(|(_, sum)| sum.ns > 0 || sum.times > 0) {
                rows.push(row(key, *sum));
            }
        }
    }
}

/// Wait time in each block, and the number of waits that began there.
fn locks((trace, analysis): (&Trace, &Analysis), bounds: &Bounds, rows: &mut [Vec<FactRow>]) {
    let (derived, names) = (&analysis.derived, Names::new(trace));
    let index = &derived.occupancy.locks;
    let mut sums = Sums::new(bounds);
    for slice in trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread)) {
        if let Some(lock) = index.waited((trace, &derived.roles), &slice) {
            sums.add(lock, (slice.start, slice.end));
        }
    }
    let of_key: BTreeMap<_, String> = derived
        .locks
        .iter()
        .map(|lock| ((lock.process, lock.object, lock.reason), names.of_lock(lock)))
        .collect();
    let name = |lock: &u32| {
        index.locks.get(*lock as usize).and_then(|key| of_key.get(key)).cloned().unwrap_or_default()
    };
    sums.finish(rows, |lock, sum| FactRow {
        count: Some(sum.times),
        ..FactRow::time(Table::Lock, name(lock), sum.ns)
    });
}

/// Time blocked in each syscall, and time on a CPU in it (sampled).
fn syscalls((trace, analysis): (&Trace, &Analysis), bounds: &Bounds, rows: &mut [Vec<FactRow>]) {
    let ledger = &analysis.derived.ledger;
    let mut sums = Sums::new(bounds);
    for slice in trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread)) {
        let number = trace.wait(slice.wait).syscall;
        // Row 0 of the waits is none.
        if slice.state == ThreadState::Blocked && slice.wait.index() > 0 && number >= -1 {
            sums.add(number, (slice.start, slice.end));
        }
    }
    // All samples have the same weight, as in the table of the whole recording.
    let each = ledger.running_ns() / ledger.samples.max(1);
    let is_target = |id: ThreadId| trace.threads.get(id.index()).is_some_and(|thread| thread.target);
    for sample in trace.samples.iter().filter(|sample| sample.in_kernel && sample.syscall >= -1) {
        if is_target(sample.thread) {
            sums.add_sample(sample.syscall, sample.at, each);
        }
    }
    sums.finish(rows, |number, sum| FactRow::time(Table::Syscall, syscall_name(*number), sum.ns));
}

/// Allocations in each block.
fn allocated(trace: &Trace, bounds: &Bounds, rows: &mut [Vec<FactRow>]) {
    for (block, rows) in rows.iter_mut().enumerate() {
        let to = if block + 1 == BLOCKS { Timestamp(u64::MAX) } else { bounds[block + 1] };
        let selection = Selection { from: bounds[block], to, ..Selection::all() };
        rows.extend(allocations(trace, &Allocated::derive(trace, &selection, &Folding::built_in())));
    }
}
