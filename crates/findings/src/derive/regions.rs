//! Parallel regions: work that a thread hands to other threads and then waits for, repeatedly. Number of
//! regions, and the mean time of each.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Trace};

use super::class::Class;
use super::ledger::Ledger;
use super::parallel;
use super::roles::Roles;

/// Parallel regions of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// The process.
    pub process: ProcessId,
    /// Thread with the most waits for the end of a region.
    pub thread: ThreadId,
    /// Number of these waits, each ended by another thread of the process.
    pub joins: u64,
    /// Length of its life (ns).
    pub life_ns: u64,
    /// Time of its life in which it waited for anything except CPUs and region ends (ns).
    pub elsewhere_ns: u64,
    /// Useful time of all threads of the process (ns, sampled).
    pub useful_ns: u64,
    /// Spin time of its threads (ns, sampled).
    pub looking_ns: u64,
    /// Kernel time of its threads (ns, sampled).
    pub kernel_ns: u64,
}

impl Regions {
    /// From one such wait to the next (ns), on average.
    pub fn cycle_ns(&self) -> u64 {
        self.life_ns / self.joins.max(1)
    }
}

/// Minimum factor of waits for another thread to be the one that hands out work. Otherwise it takes part as a
/// worker.
const MORE: f64 = 1.1;

/// Regions by process, most waits first.
pub fn derive(trace: &Trace, roles: &Roles, ledger: &Ledger) -> Vec<Regions> {
    let mut of: BTreeMap<ProcessId, Regions> = BTreeMap::new();
    let joins = parallel::map(ledger.threads.len(), |row| joins(trace, roles, ledger.threads[row].thread));
    for (thread, joins) in ledger.threads.iter().zip(joins) {
        let process = trace.threads[thread.thread.index()].process;
        let class = |class: Class| thread.classes[class as usize];
        let sums = of.entry(process).or_insert(Regions { process, ..Regions::default() });
        sums.useful_ns += class(Class::Useful);
        sums.looking_ns += class(Class::Spin);
        sums.kernel_ns += class(Class::Kernel);
        // If several threads wait about equally often, the first of them hands out the work.
        if joins as f64 > MORE * sums.joins as f64 {
            let awake = thread.running_ns() + class(Class::RunQueue) + class(Class::Stolen);
            let life_ns = thread.life.0;
            let elsewhere_ns = life_ns.saturating_sub(awake + class(Class::JoinWait));
            *sums = Regions { thread: thread.thread, joins, life_ns, elsewhere_ns, ..*sums };
        }
    }
    let mut all: Vec<Regions> = of.into_values().filter(|one| one.joins > 0).collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.joins), one.process));
    all
}

/// Number of waits of a thread until other threads of its process had finished.
fn joins(trace: &Trace, roles: &Roles, thread: ThreadId) -> u64 {
    let process = trace.threads[thread.index()].process;
    let is_join = |slice: &holdup_events::tables::Slice| {
        slice.state == ThreadState::Blocked && roles.class_of_wait(trace, slice) == Class::JoinWait
    };
    let mut near = 0;
    let ended = trace.slices.of_thread(thread).filter(is_join).filter(|slice| {
        let by =
            trace.ended_by_near(slice, &mut near).and_then(|wakeup| trace.threads.get(wakeup.waker.index()));
        by.is_some_and(|by| by.process == process)
    });
    ended.count() as u64
}
