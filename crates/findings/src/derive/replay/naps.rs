//! Waits with a timeout that other threads' steps can end before the timeout.
//!
//! A thread that polls for work with a timeout continues when work arrives. If the work arrives earlier in a
//! replay, the thread does not sleep on ([`napped`]). A housekeeping thread (a runtime's own ticker) works as
//! long as the run lasts ([`housekeepers`]), because no thread waits for its end.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Trace, WaitReason};

use super::steps::Follower;
use crate::derive::clocked;

/// Maximum running time between two naps, as a share of the nap before. A thread that runs longer does
/// periodic work and does not only poll.
const LOOK_MAX: f64 = 0.05;

/// Maximum number of deciders: the threads of the process that run most.
const DECIDERS_MAX: usize = 64;

/// Naps before waits that a signal ended, with the signal that would have ended each nap (by row, in order).
pub(super) fn napped(trace: &Trace, thread: ThreadId, signalled: &[(u32, u32)]) -> BTreeMap<usize, u32> {
    let first = trace.slices.rows(thread).start;
    let mut naps = BTreeMap::new();
    for (row, signal) in signalled {
        let wait = trace.slices.at(thread, *row as usize).wait;
        let mut run_ns = 0;
        for row in (first..*row as usize).rev() {
            let slice = trace.slices.at(thread, row);
            match slice.state {
                ThreadState::Running => run_ns += slice.duration().0,
                ThreadState::Blocked if trace.wait(slice.wait).reason == WaitReason::Lock => {}
                ThreadState::Blocked => {
                    let is_nap = slice.wait == wait && is_timed_out(trace, &slice);
                    if !is_nap || run_ns as f64 > LOOK_MAX * slice.duration().0 as f64 {
                        break;
                    }
                    naps.insert(row, *signal);
                    run_ns = 0;
                }
                ThreadState::Unknown => break,
                _ => {}
            }
        }
    }
    naps
}

/// Whether a wait ended by its timeout. A sleep has no condition, so it does not count.
fn is_timed_out(trace: &Trace, slice: &Slice) -> bool {
    trace.wait(slice.wait).reason != WaitReason::Sleep
        && trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer)
}

/// Housekeeping threads among those that `counts` accepts, with the threads whose progress each follows: the
/// others of its process.
pub(super) fn housekeepers(trace: &Trace, counts: impl Fn(ThreadId) -> bool) -> Vec<(ThreadId, Follower)> {
    let clocked = clocked::derive(trace, |_| false);
    let house: Vec<ThreadId> =
        clocked.iter().filter(|one| one.keeps_house && counts(one.thread)).map(|one| one.thread).collect();
    let process = |thread: ThreadId| trace.threads[thread.index()].process;
    let mut deciders: BTreeMap<ProcessId, Vec<u32>> = BTreeMap::new();
    let follower = |thread: &ThreadId| {
        let of = deciders.entry(process(*thread)).or_insert_with_key(|of| busiest(trace, *of, &house));
        let until = trace.threads[thread.index()].end.since(trace.start()).0;
        (*thread, Follower { until, deciders: of.clone() })
    };
    let found: Vec<(ThreadId, Follower)> = house.iter().map(follower).collect();
    found.into_iter().filter(|(_, follower)| !follower.deciders.is_empty()).collect()
}

/// The threads of a process that run most, without `house` (sorted).
fn busiest(trace: &Trace, process: ProcessId, house: &[ThreadId]) -> Vec<u32> {
    let ran_ns = |thread: ThreadId| -> u64 {
        let ran = trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running);
        ran.map(|slice| slice.duration().0).sum()
    };
    let others = trace.target_threads().filter(|thread| {
        trace.threads[thread.index()].process == process && house.binary_search(thread).is_err()
    });
    let mut ran: Vec<(u64, u32)> = others.map(|thread| (ran_ns(thread), thread.0)).collect();
    ran.sort_unstable_by_key(|(ns, thread)| (std::cmp::Reverse(*ns), *thread));
    ran.truncate(DECIDERS_MAX);
    ran.into_iter().map(|(_, thread)| thread).collect()
}
