//! CPUs that threads keep instead of waiting for them as recorded. Work that ran there during these waits
//! does not run then.

use std::collections::BTreeMap;

use holdup_events::{CpuId, Trace};

use crate::charge::Charge;
use crate::derive::cover::{Cover, Span};

/// The waits for each CPU.
pub(super) struct KeptCpus {
    of_cpu: BTreeMap<CpuId, Cover>,
}

impl KeptCpus {
    /// Takes the charged slices that wait for a known CPU.
    pub(super) fn new(trace: &Trace, charges: &[Charge]) -> KeptCpus {
        let mut of_cpu: BTreeMap<CpuId, Vec<Span>> = BTreeMap::new();
        for slice in charges.iter().flat_map(|charge| charge.slices(trace)) {
            if slice.state.waits_for_cpu() && slice.cpu != CpuId::NONE {
                of_cpu.entry(slice.cpu).or_default().push((slice.start, slice.end));
            }
        }
        KeptCpus { of_cpu: of_cpu.into_iter().map(|(cpu, waits)| (cpu, Cover::from_spans(waits))).collect() }
    }

    /// The rest of a run on a CPU, without the time in which a thread keeps that CPU. Pieces in time order.
    pub(super) fn left_of(&self, cpu: CpuId, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let within = self.of_cpu.get(&cpu).into_iter().flat_map(move |kept| kept.within((from, to)));
        let ends = within.chain([(to, to)]);
        let pieces = ends.scan(from, |at, (start, end)| {
            let piece = (*at, start);
            *at = end;
            Some(piece)
        });
        pieces.filter(|(from, to)| from < to)
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::Timestamp;

    use super::*;

    #[test]
    fn a_run_is_cut_where_a_thread_keeps_its_cpu() {
        let at = Timestamp;
        let waits = Cover::from_spans(vec![(at(30), at(40)), (at(5), at(12)), (at(10), at(20))]);
        let kept = KeptCpus { of_cpu: BTreeMap::from([(CpuId(1), waits)]) };
        let left = |cpu, from, to| kept.left_of(CpuId(cpu), (at(from), at(to))).collect::<Vec<Span>>();
        assert_eq!(left(1, 0, 50), [(at(0), at(5)), (at(20), at(30)), (at(40), at(50))]);
        assert_eq!(left(1, 7, 35), [(at(20), at(30))]);
        assert_eq!(left(1, 6, 19), []);
        assert_eq!(left(0, 7, 35), [(at(7), at(35))]);
    }
}
