//! Lost wakeups: waits that ended by timeout although their condition already held. The producer signalled no
//! thread, or the wrong one. After the timeout the waiter continued as if it had been signalled.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, WaitReason};

use super::handovers;
use super::holders::attribution;
use super::roles::Roles;
use crate::charge::Charge;

/// Sums over these waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Number of these waits.
    pub waits: u64,
    /// Total time (ns).
    pub ns: u64,
    /// Number of these waits on objects with several waiters.
    pub shared: u64,
}

/// Minimum share of an object's waits that other threads end, for waits on other threads. A condition
/// variable that is only signalled at the program's end has fewer.
const TOLD_MIN: f64 = 0.1;

/// Considers the charged waits, all of which a timer ended. Threads that run a runtime's tasks are excluded,
/// because the timer may be a task's.
pub fn derive(trace: &Trace, roles: &Roles, charge: &Charge) -> Untold {
    let threads: BTreeSet<ThreadId> =
        charge.slices(trace).filter(|slice| is_parked(trace, slice)).map(|slice| slice.thread).collect();
    let threads: Vec<ThreadId> =
        threads.into_iter().filter(|thread| !roles.carries_tasks(trace, *thread)).collect();
    if threads.is_empty() {
        return Untold::default();
    }
    let (woke, things) = (woke(trace, &threads), parked_objects(trace));
    let mut sum = Untold::default();
    for thread in threads {
        let woke = woke.get(&thread).map_or(&[][..], Vec::as_slice);
        for slice in charge.slices_of(trace, thread).filter(|slice| is_parked(trace, slice)) {
            let Some(of) = things.get(&object_key(trace, &slice)).filter(|of| of.is_usually_signalled())
            else {
                continue;
            };
            let until = next_wait(trace, &slice);
            let from = woke.partition_point(|at| *at < slice.end);
            if woke.get(from).is_none_or(|at| *at >= until) {
                continue;
            }
            sum.waits += 1;
            sum.ns += slice.duration().0;
            sum.shared += u64::from(of.waiters.len() > 1);
        }
    }
    sum
}

fn is_parked(trace: &Trace, slice: &Slice) -> bool {
    trace.wait(slice.wait).reason == WaitReason::Park
}

fn object_key(trace: &Trace, slice: &Slice) -> (ProcessId, u64) {
    let wait = trace.wait(slice.wait);
    (wait.process, attribution::object_id(wait))
}

/// Times at which each of the threads woke another one of the program, ascending.
fn woke(trace: &Trace, threads: &[ThreadId]) -> BTreeMap<ThreadId, Vec<Timestamp>> {
    let mut woke: BTreeMap<ThreadId, Vec<Timestamp>> = BTreeMap::new();
    for wakee in trace.target_threads() {
        for wakeup in trace.wakeups.of_thread(wakee).iter().filter(|one| one.context == WakeContext::Thread) {
            if wakeup.waker != wakee && threads.binary_search(&wakeup.waker).is_ok() {
                woke.entry(wakeup.waker).or_default().push(wakeup.at);
            }
        }
    }
    woke.values_mut().for_each(|moments| moments.sort_unstable());
    woke
}

/// Something that threads wait for.
#[derive(Default)]
struct Thing {
    waiters: BTreeSet<ThreadId>,
    waits: u64,
    /// Number of waits that another thread ended.
    told: u64,
}

impl Thing {
    fn is_usually_signalled(&self) -> bool {
        self.told as f64 >= TOLD_MIN * self.waits as f64
    }
}

fn parked_objects(trace: &Trace) -> BTreeMap<(ProcessId, u64), Thing> {
    let mut things: BTreeMap<(ProcessId, u64), Thing> = BTreeMap::new();
    for thread in trace.target_threads() {
        let mut near = 0;
        let waits = trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked);
        for slice in waits.filter(|slice| is_parked(trace, slice)) {
            let told = handovers::ended_by_own(trace, &slice, &mut near).is_some();
            let of = things.entry(object_key(trace, &slice)).or_default();
            of.waiters.insert(thread);
            (of.waits, of.told) = (of.waits + 1, of.told + u64::from(told));
        }
    }
    things
}

/// Start of the thread's next wait on the same object.
fn next_wait(trace: &Trace, slice: &Slice) -> Timestamp {
    let Some(row) = trace.slices.covering(slice.thread, slice.start) else { return slice.end };
    let behind = row + 1..trace.slices.rows(slice.thread).end;
    let mut later = behind.map(|row| trace.slices.at(slice.thread, row));
    let next = later
        .find(|one| one.state == ThreadState::Blocked && object_key(trace, one) == object_key(trace, slice));
    next.map_or(trace.threads[slice.thread.index()].end, |one| one.start)
}
