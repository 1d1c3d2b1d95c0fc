//! Threads that work on request of the threads that wait for them: a background thread that flushes what
//! writers filled. Its waiters continue together, as at a barrier, but it is no member. It does not arrive, it
//! finishes the requested work.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, ProcessId, ThreadId, Timestamp, Trace};

use crate::derive::roles::Roles;

/// Minimum number of other members. One thread that gives work to another, does its own share and waits for
/// the other, divides the work between two members.
const OTHERS_MIN: usize = 2;
/// Minimum number of requests, and minimum share of them in the rendezvous for which the thread was last.
const REQUESTS_MIN: usize = 3;
const REQUESTED_MIN: f64 = 0.5;

/// Maximum running time of a helper before it waits for a request, as a share of its running time between two
/// releases. A member has its own work before the next rendezvous.
const OWN_WORK_MAX: f64 = 0.1;

/// The threads that were last to arrive, and are helpers of the others. `lasts`: threads with the times of the
/// rendezvous for which they were last. `members`: the waiting threads.
pub(super) fn among(
    (trace, roles): (&Trace, &Roles),
    members: &BTreeSet<ThreadId>,
    lasts: &BTreeMap<ThreadId, Vec<Timestamp>>,
) -> BTreeSet<ThreadId> {
    let candidates: Vec<(ThreadId, &Vec<Timestamp>)> =
        lasts.iter().filter(|(id, _)| !members.contains(id)).map(|(id, times)| (*id, times)).collect();
    if candidates.is_empty() || members.len() < OTHERS_MIN {
        return BTreeSet::new();
    }
    let words =
        members.iter().flat_map(|id| trace.slices.of_thread(*id)).filter_map(|slice| word(trace, &slice));
    let words: BTreeSet<(ProcessId, u64)> = words.collect();
    let is_request = |slice: &Slice| {
        let of_its_own = word(trace, slice).is_some_and(|word| !words.contains(&word));
        of_its_own && roles.lock(trace, slice.wait).is_none() && is_ended_by(trace, slice, members)
    };
    let is_helper = |(id, times): (ThreadId, &Vec<Timestamp>)| {
        let rounds = times.windows(2).filter(|round| works_on_request(trace, id, round, is_request)).count();
        let enough = rounds >= REQUESTS_MIN && rounds as f64 >= REQUESTED_MIN * times.len() as f64;
        enough.then_some(id)
    };
    candidates.into_iter().filter_map(is_helper).collect()
}

/// Whether a thread waits for a request between two releases, and has done little before that.
fn works_on_request(
    trace: &Trace,
    thread: ThreadId,
    round: &[Timestamp],
    is_request: impl Fn(&Slice) -> bool,
) -> bool {
    let [from, to] = *round else { return false };
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, from).unwrap_or(rows.start);
    let (mut before_ns, mut running_ns, mut is_asked) = (0, 0, false);
    for row in first..rows.end {
        let slice = trace.slices.at(thread, row);
        if slice.start >= to {
            break;
        }
        if slice.state == ThreadState::Running {
            running_ns += slice.end.min(to).since(slice.start.max(from)).0;
        } else if !is_asked && slice.state == ThreadState::Blocked && is_request(&slice) {
            (is_asked, before_ns) = (true, running_ns);
        }
    }
    is_asked && before_ns as f64 <= OWN_WORK_MAX * running_ns as f64
}

/// The futex word that a blocked thread waits on.
fn word(trace: &Trace, slice: &Slice) -> Option<(ProcessId, u64)> {
    let wait = trace.wait(slice.wait);
    let is_word = slice.state == ThreadState::Blocked && wait.object_kind == ObjectKind::Futex;
    (is_word && wait.object != 0).then_some((wait.process, wait.object))
}

fn is_ended_by(trace: &Trace, slice: &Slice, members: &BTreeSet<ThreadId>) -> bool {
    let wakeup = trace.ended_by(slice);
    wakeup.is_some_and(|wakeup| wakeup.context == WakeContext::Thread && members.contains(&wakeup.waker))
}
