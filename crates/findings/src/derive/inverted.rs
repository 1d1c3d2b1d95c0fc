//! Priority inversion: whether a lock's holders and waiters run little compared with the threads that occupy
//! the CPUs. If so, running the holder first costs the other threads almost nothing, although no CPU is idle.

use std::collections::BTreeSet;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use super::ledger::{Ledger, ThreadLedger};
use crate::charge::Charge;

/// Maximum share of the program's running time for these threads.
const PART_MAX: f64 = 0.1;

/// Two runnable threads of equal weight get about equal shares of the CPUs. A thread below this part of
/// another's share has a lower weight.
const UNFAIR_MAX: f64 = 1.0 / 3.0;
/// Minimum time that a thread was running or runnable, to compare its share (ns).
const WANTED_MIN_NS: u64 = 50_000_000;

/// Running time of the threads with charged slices: runnable holders and their waiters.
#[derive(Clone, Debug, PartialEq)]
pub struct Inverted {
    /// Total running time of these threads (ns).
    pub ran_ns: u64,
    /// Total running time of the program (ns).
    pub all_ns: u64,
}

/// `charge` has the holders' run-queue waits and the other threads' waits. `None` if their own work is a
/// considerable share of the running time.
pub fn derive(trace: &Trace, ledger: &Ledger, charge: &Charge) -> Option<Inverted> {
    let takes_part = |thread: &ThreadId| charge.spans_of(trace, *thread).next().is_some();
    let part: BTreeSet<ThreadId> = trace.target_threads().filter(takes_part).collect();
    let theirs = ledger.threads.iter().filter(|thread| part.contains(&thread.thread));
    let ran_ns: u64 = theirs.map(ThreadLedger::running_ns).sum();
    let all_ns = ledger.running_ns();
    let small = ran_ns as f64 <= PART_MAX * all_ns as f64;
    (small && holds_up(trace, charge)).then_some(Inverted { ran_ns, all_ns })
}

/// Whether both kinds of slices are charged: waits of a runnable holder, and waits for it.
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

/// Running share of the time in which a thread was running or runnable (0 to 1), and the same of another
/// thread. `None` unless the first is so low that its weight must be lower.
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
