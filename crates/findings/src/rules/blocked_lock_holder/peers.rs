//! Waits of peers. A peer that could answer several requests at once is, in a replay, a chain of its own
//! sleeps. Fewer waits do not shorten this chain. In reality, its waits for a clock in one thread could
//! overlap.

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use crate::charge::Charge;

/// Whether recorded peers mostly waited for clocks themselves while the charged threads waited for them.
pub(super) fn slept(trace: &Trace, charge: &Charge) -> bool {
    let (mut all_ns, mut slept_ns) = (0u64, 0u64);
    for slice in charge.slices(trace).filter(|slice| is_for_peer(trace, slice)) {
        let Some(wakeup) = trace.ended_by(&slice) else { continue };
        if wakeup.context == WakeContext::Thread && wakeup.waker != slice.thread {
            all_ns += slice.duration().0;
            slept_ns += asleep_ns(trace, wakeup.waker, (slice.start, slice.end));
        }
    }
    2 * slept_ns > all_ns
}

fn is_for_peer(trace: &Trace, slice: &Slice) -> bool {
    let reason = trace.wait(slice.wait).reason;
    let is_peers = matches!(reason, WaitReason::Socket | WaitReason::Multiplex | WaitReason::Pipe);
    slice.state == ThreadState::Blocked && is_peers
}

/// How long a thread waited for a clock between two moments (ns).
fn asleep_ns(trace: &Trace, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> u64 {
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, from).unwrap_or(rows.start).max(rows.start);
    let slices = (first..rows.end).map(|row| trace.slices.at(thread, row));
    let within = slices.take_while(|slice| slice.start < to);
    let by_clock = |slice: &Slice| {
        let ended = trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer);
        slice.state == ThreadState::Blocked && ended
    };
    within.filter(by_clock).map(|slice| slice.end.min(to).since(slice.start.max(from)).0).sum()
}
