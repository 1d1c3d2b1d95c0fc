//! Activity of a thread in a time range, slice by slice. Used for holders while other threads wait for them.

use holdup_events::tables::{Slice, ThreadState, partition_point_near};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace};

use super::{Hold, Holders};
use crate::derive::timelines::Timelines;

/// Activity of a holder, seen from its waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// On a CPU.
    Runs(CpuId),
    /// Runnable, but another thread occupies its CPU.
    Queues {
        /// The CPU, as far as known.
        cpu: CpuId,
        /// Whether the thread was preempted. Otherwise it was woken from a wait.
        preempted: bool,
    },
    /// Throttled: the cgroup's CPU bandwidth is used up.
    Throttled,
    /// Blocked itself, with the kind and the holder of its wait.
    Waits(Hold),
    /// Woken, but not yet on a run queue.
    Wakes,
    /// The thread does not exist at that time.
    Absent,
    /// A thread of another program that does not run: nothing more is known.
    Elsewhere,
    /// The thread's state is unknown.
    Unknown,
}

/// Part of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// Activity of the thread.
    pub activity: Activity,
    /// Slice that contains the piece. `None` if the thread does not exist at that time.
    pub slice: Option<Slice>,
}

/// Activity of `thread` in `from..to`, in contiguous pieces.
pub fn between<'a>(
    facts: (&'a Trace, &'a Holders),
    thread: ThreadId,
    from: Timestamp,
    to: Timestamp,
) -> impl Iterator<Item = Piece> + 'a {
    between_near(facts, thread, (from, to), &mut 0)
}

/// The same for a caller with queries near each other. `near` is the position of the answer among the
/// thread's slices, with any initial value.
pub fn between_near<'a>(
    (trace, holders): (&'a Trace, &'a Holders),
    thread: ThreadId,
    (from, to): (Timestamp, Timestamp),
    near: &mut usize,
) -> impl Iterator<Item = Piece> + use<'a> {
    let target = trace.threads.get(thread.index()).is_some_and(|thread| thread.target);
    let rows = trace.slices.rows(thread);
    *near = partition_point_near(trace.slices.starts(thread), *near, |start| *start <= from);
    // The previous slice may have ended. Later slices have not begun.
    let mut row = rows.start + near.saturating_sub(1);
    let mut at = from;
    std::iter::from_fn(move || {
        while at < to {
            let slice = (row < rows.end).then(|| trace.slices.at(thread, row));
            match slice {
                Some(slice) if slice.end <= at => row += 1,
                Some(slice) if slice.start <= at => {
                    let (activity, until) = activity(holders, row, &slice, at, target);
                    let end = until.min(to);
                    let piece = Piece { from: at, to: end, activity, slice: Some(slice) };
                    at = end;
                    return Some(piece);
                }
                slice => {
                    let end = slice.map_or(to, |slice| slice.start.min(to));
                    let activity = if target { Activity::Absent } else { Activity::Elsewhere };
                    let piece = Piece { from: at, to: end, activity, slice: None };
                    at = end;
                    return Some(piece);
                }
            }
        }
        None
    })
}

/// Activity of a thread at `at` in one of its slices, and the end of that activity.
fn activity(
    holders: &Holders,
    row: usize,
    slice: &Slice,
    at: Timestamp,
    target: bool,
) -> (Activity, Timestamp) {
    let activity = match slice.state {
        ThreadState::Running => Activity::Runs(slice.cpu),
        ThreadState::Throttled => Activity::Throttled,
        state if state.waits_for_cpu() => {
            Activity::Queues { cpu: slice.cpu, preempted: state == ThreadState::Preempted }
        }
        ThreadState::Blocked => {
            let hold = holders.at(slice.thread, row).unwrap_or_default();
            let woken = slice.end - hold.transit;
            return if at < woken { (Activity::Waits(hold), woken) } else { (Activity::Wakes, slice.end) };
        }
        _ if !target => Activity::Elsewhere,
        _ => Activity::Unknown,
    };
    (activity, slice.end)
}

/// Thread that occupied `cpu` at the beginning of `from..to`, or first took it within: the reason why a
/// thread in that queue did not run.
pub fn occupant(timelines: &Timelines, cpu: CpuId, from: Timestamp, to: Timestamp) -> Option<ThreadId> {
    timelines.of_cpu(cpu)?.first_in(from, to).map(|stretch| stretch.thread())
}
