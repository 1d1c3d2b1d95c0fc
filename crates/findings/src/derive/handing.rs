//! Share of the running time that threads spend only on waking each other and going to sleep.

use std::collections::BTreeSet;

use holdup_events::{ThreadId, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::roles::Roles;
use super::samples_of;
use super::syscall_names::{FUTEX, SCHED_YIELD};
use crate::charge::Charge;

/// Minimum share of their running time for threads that mostly hand over work.
const MOSTLY: f64 = 0.5;

/// Running time that threads spend on handing work to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handing {
    /// Time in calls to wake each other and to sleep, and in polling for the need to do so (ns, sampled).
    pub handing_ns: u64,
    /// Total running time (ns).
    pub running_ns: u64,
}

impl Handing {
    /// For the threads whose waits are charged. Only futex handovers count, because a message's cost in the
    /// kernel may be that of its transport. Threads that run a runtime's tasks are excluded. They search for
    /// tasks and wake each other, whatever the tasks do.
    pub fn derive((trace, roles): (&Trace, &Roles), ledger: &Ledger, charge: &Charge) -> Handing {
        let threads: BTreeSet<ThreadId> = charge.slices(trace).map(|slice| slice.thread).collect();
        let mut sum = Handing { handing_ns: 0, running_ns: 0 };
        for thread in ledger.threads.iter().filter(|one| threads.contains(&one.thread)) {
            sum.running_ns += thread.running_ns();
            if roles.carries_tasks(trace, thread.thread) {
                continue;
            }
            let samples = samples_of(trace, thread.thread);
            let hands = samples.iter().filter(|sample| match roles.class_of_sample(sample) {
                Class::Spin => true,
                Class::Kernel => [FUTEX, SCHED_YIELD].contains(&sample.syscall),
                _ => false,
            });
            let part = hands.count() as f64 / samples.len().max(1) as f64;
            sum.handing_ns += (part * thread.running_ns() as f64) as u64;
        }
        sum
    }

    /// Whether handovers are most of the running time. Then fewer handovers reduce the work, even if nothing
    /// more runs in parallel.
    pub fn is_most(&self) -> bool {
        self.running_ns > 0 && self.handing_ns as f64 >= MOSTLY * self.running_ns as f64
    }
}
