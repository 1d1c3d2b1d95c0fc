//! The changes that remove forks of a large process.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Trace, WaitReason};

use crate::charge::Charge;
use crate::derive::forks::Copying;
use crate::derive::replay::{Change, Speed};
use crate::removal::Removal;

/// Removes waits for the address space, and the time to copy and free the page tables of these processes.
/// Waits for children become shorter by the same time.
pub(super) fn copies(trace: &Trace, charge: &Charge) -> Removal {
    let copying = Copying::new(trace);
    let waits = Charge::of_rows(trace, |id, take| {
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of_thread(id)) {
            let is_wait = slice.state == ThreadState::Blocked;
            if charge.has(row) && is_wait && trace.wait(slice.wait).reason == WaitReason::MmapLock {
                take(row);
            }
        }
    });
    let process = |id: ThreadId| trace.threads.get(id.index()).map(|thread| thread.process);
    let forking: BTreeSet<ProcessId> =
        waits.slices(trace).filter_map(|slice| process(slice.thread)).collect();
    let parent = |id: ThreadId| trace.threads.get(id.index()).and_then(|thread| process(thread.parent?));
    let is_of_them = |id: ThreadId| {
        [process(id), parent(id)].into_iter().flatten().any(|process| forking.contains(&process))
    };
    let copied = Speed::new(trace, 0.0, |sample| is_of_them(sample.thread) && copying.holds(sample));
    Removal::exact(vec![Change::WithoutSlices(waits), Change::Ran(Arc::new(copied))])
}
