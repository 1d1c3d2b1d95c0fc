//! Handovers of work between threads: waits for work, or for a pipe or socket, that another thread of the
//! program ended. Also the time from the wakeup until the woken thread ran.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState, Wakeup};
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use super::class::Class;
use super::parallel;
use super::roles::Roles;

/// Handovers from one thread to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// The waking thread.
    pub waker: ThreadId,
    /// The woken thread.
    pub wakee: ThreadId,
    /// Number of handovers.
    pub count: u64,
    /// Wait time of the wakee (ns).
    pub wait_ns: u64,
    /// From the wakeup until the wakee ran (ns).
    pub late_ns: u64,
    /// Running time of the wakee until it blocked again (ns).
    pub run_ns: u64,
    /// Why the wakee waited, the last time.
    pub reason: WaitReason,
}

/// By waker, then wakee.
pub fn derive(trace: &Trace, roles: &Roles) -> Vec<Handover> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.flat_map(|thread| of_wakee((trace, roles), thread)).collect::<Vec<_>>()
    });
    let mut all = parts.concat();
    all.sort_by_key(|one| (one.waker, one.wakee));
    all
}

/// Wakeup by another thread of the program that ended a wait for work. `near` is as in
/// [`Trace::ended_by_near`].
pub fn handed<'a>(
    (trace, roles): (&'a Trace, &Roles),
    slice: &Slice,
    near: &mut usize,
) -> Option<&'a Wakeup> {
    if is_for_work((trace, roles), slice) { ended_by_own(trace, slice, near) } else { None }
}

/// Wakeup by another thread of the program that ended a wait. `near` is as in [`Trace::ended_by_near`].
pub fn ended_by_own<'a>(trace: &'a Trace, slice: &Slice, near: &mut usize) -> Option<&'a Wakeup> {
    if slice.state != ThreadState::Blocked {
        return None;
    }
    let wakeup = trace.ended_by_near(slice, near)?;
    let own = trace.threads.get(wakeup.waker.index()).is_some_and(|thread| thread.target);
    (wakeup.context == WakeContext::Thread && own && wakeup.waker != slice.thread).then_some(wakeup)
}

fn is_for_work((trace, roles): (&Trace, &Roles), slice: &Slice) -> bool {
    let class = roles.class_of_wait(trace, slice);
    matches!(class, Class::WorkWait | Class::PipeWait | Class::NetWait)
}

fn of_wakee((trace, roles): (&Trace, &Roles), wakee: ThreadId) -> Vec<Handover> {
    let mut by_waker: BTreeMap<ThreadId, Handover> = BTreeMap::new();
    // The last waker and the time, until the wakee runs.
    let mut waker: Option<ThreadId> = None;
    let mut woken: Option<Timestamp> = None;
    let mut near = 0;
    for slice in trace.slices.of_thread(wakee) {
        match slice.state {
            ThreadState::Running => {
                let Some(sums) = waker.and_then(|waker| by_waker.get_mut(&waker)) else { continue };
                sums.late_ns += woken.take().map_or(0, |at| slice.start.since(at).0);
                sums.run_ns += slice.duration().0;
            }
            ThreadState::Blocked => {
                let wakeup = handed((trace, roles), &slice, &mut near);
                waker = wakeup.map(|wakeup| wakeup.waker);
                woken = wakeup.map(|wakeup| wakeup.at);
                let Some(wakeup) = wakeup else { continue };
                let sums = by_waker.entry(wakeup.waker).or_default();
                (sums.waker, sums.wakee) = (wakeup.waker, wakee);
                sums.count += 1;
                sums.wait_ns += slice.duration().0;
                sums.reason = trace.wait(slice.wait).reason;
            }
            ThreadState::Unknown => (waker, woken) = (None, None),
            _ => {}
        }
    }
    by_waker.into_values().collect()
}
