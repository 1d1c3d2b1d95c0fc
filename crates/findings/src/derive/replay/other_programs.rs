//! CPU use of other programs when the program would use the CPUs that they had.
//!
//! While a thread of the program queues, other programs' runs stay as recorded. At other times other programs
//! would share the CPU with the program, in the proportion measured while threads of the program queued.

use holdup_events::tables::ThreadState;
use holdup_events::{Timestamp, Trace};

use crate::derive::cover::{Cover, Span};
use crate::derive::timelines::Timelines;

/// When threads of the program queued, and other programs' share of contended CPUs.
pub(super) struct Strangers {
    queues: Cover,
    /// Other programs' share of a CPU that both compete for (0 to 1).
    part: f64,
}

impl Strangers {
    /// Other programs keep all CPU time that they had.
    pub(super) fn staying() -> Strangers {
        Strangers { queues: Cover::default(), part: 1.0 }
    }

    /// Other programs keep the share that they had while threads of the program queued.
    pub(super) fn new(trace: &Trace, timelines: &Timelines) -> Strangers {
        let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
        let mut own_ns = 0;
        let mut waits: Vec<Span> = Vec::new();
        for slice in slices {
            match slice.state {
                ThreadState::Running => own_ns += slice.duration().0,
                ThreadState::Throttled => {}
                state if state.waits_for_cpu() => waits.push((slice.start, slice.end)),
                _ => {}
            }
        }
        let mut strangers = Strangers { queues: Cover::from_spans(waits), part: 1.0 };
        let foreign = timelines.iter().flat_map(|(_, line)| line.stretches()).filter(|run| !run.own());
        let met_ns: u64 = foreign.map(|run| strangers.met_ns((run.start(), run.end()))).sum();
        strangers.part = met_ns as f64 / (met_ns + own_ns).max(1) as f64;
        strangers
    }

    /// Time within that run in which a thread of the program queued (ns).
    fn met_ns(&self, run: Span) -> u64 {
        self.queues.within(run).map(|(from, to)| to.since(from).0).sum()
    }

    /// The pieces of a run after sharing: start and length (ns).
    pub(super) fn pieces(&self, (from, to): Span) -> Vec<(Timestamp, u64)> {
        let mut pieces = Vec::new();
        let mut at = from;
        let free = |at: Timestamp, until: Timestamp| (at, (until.since(at).0 as f64 * self.part) as u64);
        for (start, end) in self.queues.within((from, to)) {
            pieces.push(free(at, start));
            pieces.push((start, end.since(start).0));
            at = end;
        }
        pieces.push(free(at, to));
        pieces.retain(|(_, ns)| *ns > 0);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_without_queueing_is_shared_and_the_rest_stays() {
        let at = Timestamp;
        let strangers =
            Strangers { queues: Cover::from_spans(vec![(at(10), at(20)), (at(30), at(40))]), part: 0.5 };
        assert_eq!(strangers.met_ns((at(15), at(35))), 10);
        assert_eq!(strangers.pieces((at(0), at(36))), [(at(0), 5), (at(10), 10), (at(20), 5), (at(30), 6)]);
        assert_eq!(strangers.pieces((at(12), at(18))), [(at(12), 6)]);
    }
}
