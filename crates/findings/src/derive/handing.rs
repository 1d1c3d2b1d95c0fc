//! How much of what threads run is nothing but waking each other and going to sleep. It judges nothing.

use std::collections::BTreeSet;

use holdup_events::{ThreadId, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::roles::Roles;
use super::samples_of;
use super::syscall_names::{FUTEX, SCHED_YIELD};
use crate::charge::Charge;

/// From this part of what they run on, handing over is what they do.
const MOSTLY: f64 = 0.5;

/// What threads run to hand over to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Handing {
    /// In calls by which they wake each other and go to sleep, and asking again and again whether they need to (ns, sampled).
    pub handing_ns: u64,
    /// All that they run (ns).
    pub running_ns: u64,
}

impl Handing {
    /// Of the threads whose waits are charged. Only what goes by futexes: what a message costs in the kernel may be its transport. And
    /// not of threads that carry a runtime's tasks, which look for these, and wake each other, whatever the tasks do.
    pub fn of((trace, roles): (&Trace, &Roles), ledger: &Ledger, charge: &Charge) -> Handing {
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

    /// It is most of it: less handing over is less to run, whatever can be done side by side.
    pub fn is_most(&self) -> bool {
        self.running_ns > 0 && self.handing_ns as f64 >= MOSTLY * self.running_ns as f64
    }
}
