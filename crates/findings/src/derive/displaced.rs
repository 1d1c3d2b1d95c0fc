//! Waits for a CPU behind the program's own threads that another program causes: it occupies a CPU on which
//! the waiting thread would have run.

use holdup_events::tables::Slice;
use holdup_events::{CpuId, Trace};

use super::ledger::{Ledger, ThreadLedger};
use super::occupancy::Stall;
use super::sweep;
use super::timelines::Timelines;

/// Wait time of threads because of other programs (thread-ns).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Displaced {
    /// For a CPU that another program had.
    pub direct_ns: u64,
    /// Waits for a CPU that their own program occupied, while another program occupied one that they could
    /// have run on.
    pub elsewhere_ns: u64,
}

impl Displaced {
    /// `others` comes from [`super::occupancy::Occupancy::others`]. At each moment it counts as many waiting
    /// threads as other programs occupy CPUs, for whichever CPU a thread waits.
    pub fn derive(trace: &Trace, ledger: &Ledger, others: &Stall) -> Displaced {
        let movable = ledger.threads.iter().filter(|thread| may_move(trace, thread));
        let elsewhere = movable.map(|thread| {
            let all_ns = others.by_thread.get(&thread.thread).copied().unwrap_or(0.0);
            (all_ns as u64).saturating_sub(thread.run_queue.others_ns)
        });
        Displaced { direct_ns: ledger.run_queue.others_ns, elsewhere_ns: elsewhere.sum() }
    }

    /// Sum of both.
    pub fn all_ns(self) -> u64 {
        self.direct_ns + self.elsewhere_ns
    }
}

/// Whether the scheduler may move the thread to another CPU, by its last known affinity. If that is unknown,
/// by its migrations.
pub fn may_move(trace: &Trace, ledger: &ThreadLedger) -> bool {
    match trace.threads.get(ledger.thread.index()).map_or(0, |thread| thread.cpus_allowed) {
        0 => ledger.migrations > 0,
        cpus => cpus > 1,
    }
}

/// CPUs on which a waiting thread could have run if no other program had occupied them.
pub struct Elsewhere<'a> {
    timelines: &'a Timelines,
    usable: Vec<CpuId>,
}

impl<'a> Elsewhere<'a> {
    /// Considers the CPUs that the program may use.
    pub fn new(trace: &Trace, timelines: &'a Timelines) -> Elsewhere<'a> {
        Elsewhere { timelines, usable: sweep::which_usable(trace, timelines) }
    }

    /// Whether another program occupied one of these CPUs, except `wait`'s, during the wait. `cursors` are
    /// positions in each CPU's timeline, for one thread's waits in time order.
    pub fn is_taken(&self, wait: &Slice, cursors: &mut [usize]) -> bool {
        self.other_cpus(wait).any(|cpu| {
            let timeline = self.timelines.of_cpu(cpu).zip(cursors.get_mut(usize::from(cpu.0)));
            timeline.is_some_and(|(timeline, cursor)| timeline.ran(wait.start, wait.end, cursor).1 > 0)
        })
    }

    /// All these CPUs except the one that the wait is for.
    pub fn other_cpus(&self, wait: &Slice) -> impl Iterator<Item = CpuId> {
        let waited = wait.cpu;
        self.usable.iter().copied().filter(move |cpu| *cpu != waited)
    }
}
