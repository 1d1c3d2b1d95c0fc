//! Removal of the processes that handle single items.

use std::collections::BTreeSet;

use holdup_events::tables::{SampleRow, Thread};
use holdup_events::{ProcessId, ThreadId, Trace};

use super::lives_shortly;
use crate::charge::Charge;
use crate::derive::replay::{Change, Speed};
use crate::removal::{Removal, ran, threads_of};

/// Syscalls that begin, follow and end processes (x86-64): clone, fork, vfork, execve, exit, wait4, exit_group,
/// waitid, clone3.
const PROCESSES: [i32; 9] = [56, 57, 58, 59, 60, 61, 231, 247, 435];

/// Removes processes that handle single items: they are not started and do not exit. Upper bound: they do not
/// run at all. Processes that live longer handle several items: servers, and their helpers.
pub(super) fn children(trace: &Trace, charge: &Charge) -> Option<Removal> {
    let waiters = threads_of(trace, charge);
    let parents: Vec<ProcessId> = waiters.iter().map(|id| trace.threads[id.index()].process).collect();
    let is_short = |thread: &&Thread| {
        let is_first =
            trace.processes.get(thread.process.index()).is_some_and(|process| process.pid == thread.tid);
        is_first && lives_shortly(thread) == Some(true)
    };
    let short: BTreeSet<ProcessId> =
        trace.threads.iter().filter(is_short).map(|thread| thread.process).collect();
    let is_child = |id: ThreadId| {
        let thread = &trace.threads[id.index()];
        let parent = trace.processes.get(thread.process.index()).and_then(|process| process.parent);
        let is_one = !thread.began_before && short.contains(&thread.process);
        is_one && parent.is_some_and(|parent| parents.contains(&parent))
    };
    let starts = |sample: &SampleRow| {
        let process = trace.threads[sample.thread.index()].process;
        let asks = PROCESSES.contains(&sample.syscall) && parents.contains(&process);
        sample.in_kernel && (asks || is_child(sample.thread))
    };
    let of_children = Charge::of_rows(trace, |id, take| {
        if is_child(id) {
            trace.slices.rows(id).for_each(take);
        }
    });
    let least = vec![ran(Speed::new(trace, 0.0, starts))];
    let mut most = least.clone();
    most.push(Change::WithoutSlices(of_children.and(trace, charge)));
    (!parents.is_empty()).then_some(Removal { least, most })
}
