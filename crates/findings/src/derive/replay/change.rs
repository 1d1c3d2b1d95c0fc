//! What is changed in a replay.

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
    /// Nobody waits for the lock of that number (as in `occupancy.locks`): what it guards runs side by side.
    WithoutLock(u32),
    /// Waits of that class take no time; a class of running time is not run at all; no class of a queue has one.
    WithoutClass(Class),
    /// These slices take no time, whether threads wait in them or run.
    WithoutSlices(Charge),
    /// The same of waits for a CPU, whose threads keep theirs: what ran there instead does not run then.
    KeptCpus(Charge),
    /// Whoever waits in these slices runs, and keeps its CPU, the moment that it is woken.
    AtOnce(Charge),
    /// Running time is as much shorter as samples say.
    Ran(Arc<Speed>),
    /// A function takes so many times less time, with its callees.
    Faster(String, f64),
    /// The program may use so many CPUs.
    Cpus(u32),
    /// Nobody takes a CPU from a running thread: no time slices, no other programs.
    NoPreempt,
    /// Other programs use no CPU.
    WithoutOthers,
    /// Nor does the kernel on threads of its own, which do what the program asked for.
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
    /// Other programs have what they had, though nobody queued for it.
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

    /// Whether whoever waits in that slice runs the moment that it is woken.
    pub(super) fn is_at_once(&self, row: usize) -> bool {
        self.at_once.iter().any(|charge| charge.has(row))
    }

    /// How long what ran in `from..to` of a thread would run there, and how long more on other CPUs (ns).
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

    /// What is changed is only what threads themselves do or wait for: that is all that can be saved.
    pub(super) fn only_takes(&self) -> bool {
        let others = self.without_others || self.without_kernel_threads;
        self.cpus.is_none() && !self.no_preempt && !self.queueless && !others
    }
}
