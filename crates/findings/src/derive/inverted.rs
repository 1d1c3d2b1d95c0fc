//! Whether those who hold a lock, and those who wait for it, do little beside what has the CPUs meanwhile: then to let the holder
//! run first takes next to nothing from anybody, though no CPU is idle. It judges nothing.

use std::collections::BTreeSet;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use super::ledger::{Ledger, ThreadLedger};
use crate::charge::Charge;

/// Of all that the program ran, so much at the most is theirs.
const PART_MAX: f64 = 0.1;

/// Two threads of equal weight get about as much of the CPUs while they want them; with less than this part of what another gets, a
/// thread's weight is lower.
const UNFAIR_MAX: f64 = 1.0 / 3.0;
/// Of a thread that wanted to run for less than this nothing is said (ns).
const WANTED_MIN_NS: u64 = 50_000_000;

/// What those did whose slices are charged: holders that want a CPU, and those who wait for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverted {
    /// They ran so long in all (ns).
    pub ran_ns: u64,
    /// All threads of the program did (ns).
    pub all_ns: u64,
}

/// `charge` is of holders' queueing and others' waiting; `None` where their own work is a fair part of what has the CPUs.
pub fn of(trace: &Trace, ledger: &Ledger, charge: &Charge) -> Option<Inverted> {
    let takes_part = |thread: &ThreadId| charge.spans_of(trace, *thread).next().is_some();
    let part: BTreeSet<ThreadId> = trace.target_threads().filter(takes_part).collect();
    let theirs = ledger.threads.iter().filter(|thread| part.contains(&thread.thread));
    let ran_ns: u64 = theirs.map(ThreadLedger::running_ns).sum();
    let all_ns = ledger.running_ns();
    let small = ran_ns as f64 <= PART_MAX * all_ns as f64;
    (small && holds_up(trace, charge)).then_some(Inverted { ran_ns, all_ns })
}

/// Somebody waits for a holder that wants a CPU: there are both.
fn holds_up(trace: &Trace, charge: &Charge) -> bool {
    let (mut queues, mut waits) = (false, false);
    for slice in charge.slices(trace) {
        queues |= slice.state.waits_for_cpu();
        waits |= slice.state == ThreadState::Blocked;
        if queues && waits {
            return true;
        }
    }
    false
}

/// Which part of the time a thread ran in which it wanted to (0 to 1), and the same of another, where the first is so much less that
/// its weight must be lower.
pub fn unfair(ledger: &Ledger, (thread, other): (ThreadId, ThreadId)) -> Option<(f64, f64)> {
    let got = |id: ThreadId| {
        let one = ledger.threads.iter().find(|one| one.thread == id)?;
        let queue = one.run_queue.own_ns + one.run_queue.others_ns;
        let wanted = one.running_ns() + queue;
        (wanted >= WANTED_MIN_NS).then(|| one.running_ns() as f64 / wanted as f64)
    };
    let (mine, theirs) = (got(thread)?, got(other)?);
    (mine < UNFAIR_MAX * theirs).then_some((mine, theirs))
}
