//! Changes that a replay applies to the recording.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdup_events::{ThreadId, Trace};

use super::speed::Speed;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::roles::Roles;

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    /// No thread waits for the lock with this number (as in `occupancy.locks`). Its critical sections run in
    /// parallel.
    WithoutLock(u32),
    /// Waits of this class take no time. For a class of running time: its work is not run. For the run queue:
    /// no thread waits for a CPU.
    WithoutClass(Class),
    /// The charged slices take no time. They may be waits or running time.
    WithoutSlices(Charge),
    /// The charged waits for a CPU take no time. The threads keep their CPU, so the work that ran there
    /// instead does not run then.
    KeptCpus(Charge),
    /// Threads that wait in these slices run at the moment of their wakeup, and keep their CPU.
    AtOnce(Charge),
    /// Running time is shortened by the share that samples show.
    Ran(Arc<Speed>),
    /// A function takes less time by this factor, with its callees.
    Faster(String, f64),
    /// The program may use this number of CPUs.
    Cpus(u32),
    /// Running threads are not preempted: no time slices, no other programs.
    NoPreempt,
    /// Other programs use no CPU.
    WithoutOthers,
    /// Kernel threads use no CPU. They do work that the program requested.
    WithoutKernelThreads,
}

/// All changes of a replay, as the model is built with them.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub(super) locks: BTreeSet<u32>,
    pub(super) classes: BTreeSet<Class>,
    pub(super) slices: Vec<Charge>,
    pub(super) kept_cpus: Vec<Charge>,
    pub(super) at_once: Vec<Charge>,
    pub(super) speeds: Vec<Arc<Speed>>,
    pub(super) cpus: Option<u32>,
    pub(super) no_preempt: bool,
    pub(super) without_others: bool,
    pub(super) without_kernel_threads: bool,
    pub(super) queueless: bool,
    /// Whether other programs keep the CPU time that they had while no thread of the program queued.
    pub(super) strangers_stay: bool,
}

impl Edit {
    /// Leaves a class out.
    pub(super) fn without_class(&mut self, (trace, roles): (&Trace, &Roles), class: Class) {
        match class {
            Class::RunQueue => self.queueless = true,
            class if class.on_cpu() => {
                self.speeds.push(Arc::new(Speed::of_class((trace, roles), class, 0.0)))
            }
            class => drop(self.classes.insert(class)),
        }
    }

    /// Whether a wait of that class, and for that lock if it is one, is left out.
    pub(super) fn drops(&self, row: usize, class: Class, lock: Option<u32>) -> bool {
        self.classes.contains(&class) || lock.is_some_and(|lock| self.locks.contains(&lock)) || self.has(row)
    }

    /// Whether that slice is left out.
    pub(super) fn has(&self, row: usize) -> bool {
        self.slices.iter().chain(&self.kept_cpus).any(|charge| charge.has(row))
    }

    /// Whether the thread that waits in this slice runs at the moment of its wakeup.
    pub(super) fn is_at_once(&self, row: usize) -> bool {
        self.at_once.iter().any(|charge| charge.has(row))
    }

    /// Time of a thread's run in `from..to` after the changes: on its own CPU, and additionally on other CPUs
    /// (ns).
    pub(super) fn run_ns(&self, thread: ThreadId, (from, to): (u64, u64)) -> (u64, u64) {
        let whole = to.saturating_sub(from);
        let left = |is_spread: bool| -> f64 {
            let speeds = self.speeds.iter().filter(|speed| speed.is_spread == is_spread);
            speeds.map(|speed| speed.left(thread, from, to)).product()
        };
        if self.speeds.is_empty() {
            return (whole, 0);
        }
        let work = whole as f64 * left(false);
        let own = work * left(true);
        (own as u64, (work - own) as u64)
    }

    /// Whether the changes only affect the program's own work and waits. Then the saving is limited to the
    /// time that they take away.
    pub(super) fn only_takes(&self) -> bool {
        let others = self.without_others || self.without_kernel_threads;
        self.cpus.is_none() && !self.no_preempt && !self.queueless && !others
    }
}
