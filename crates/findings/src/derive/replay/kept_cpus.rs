//! CPUs that threads keep, where in the recording they waited for them: what ran there instead does not run then.

use std::collections::BTreeMap;

use holdup_events::{CpuId, Timestamp, Trace};

use crate::charge::Charge;

type Span = (Timestamp, Timestamp);

/// The waits for each CPU, in time order, apart from each other.
pub(super) struct KeptCpus {
    of_cpu: BTreeMap<CpuId, Vec<Span>>,
}

impl KeptCpus {
    /// Of the charged slices, those that wait for a CPU which is known.
    pub(super) fn new(trace: &Trace, charges: &[Charge]) -> KeptCpus {
        let mut of_cpu: BTreeMap<CpuId, Vec<Span>> = BTreeMap::new();
        for slice in charges.iter().flat_map(|charge| charge.slices(trace)) {
            if slice.state.waits_for_cpu() && slice.cpu != CpuId::NONE {
                of_cpu.entry(slice.cpu).or_default().push((slice.start, slice.end));
            }
        }
        of_cpu.values_mut().for_each(merge);
        KeptCpus { of_cpu }
    }

    /// What is left of a run there: pieces in time order.
    pub(super) fn left_of(&self, cpu: CpuId, (from, to): Span) -> impl Iterator<Item = Span> + '_ {
        let kept = self.of_cpu.get(&cpu).map(Vec::as_slice).unwrap_or_default();
        let first = kept.partition_point(|(_, end)| *end <= from);
        let within = kept[first..].iter().copied().take_while(move |(start, _)| *start < to);
        let ends = within.chain([(to, to)]);
        let pieces = ends.scan(from, |at, (start, end)| {
            let piece = (*at, start);
            *at = end;
            Some(piece)
        });
        pieces.filter(|(from, to)| from < to)
    }
}

/// Spans that meet become one.
fn merge(spans: &mut Vec<Span>) {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for (start, end) in spans.drain(..) {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    *spans = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_cut_where_a_thread_keeps_its_cpu() {
        let at = Timestamp;
        let mut spans = vec![(at(30), at(40)), (at(5), at(12)), (at(10), at(20))];
        merge(&mut spans);
        assert_eq!(spans, [(at(5), at(20)), (at(30), at(40))]);
        let kept = KeptCpus { of_cpu: BTreeMap::from([(CpuId(1), spans)]) };
        let left = |cpu, from, to| kept.left_of(CpuId(cpu), (at(from), at(to))).collect::<Vec<Span>>();
        assert_eq!(left(1, 0, 50), [(at(0), at(5)), (at(20), at(30)), (at(40), at(50))]);
        assert_eq!(left(1, 7, 35), [(at(20), at(30))]);
        assert_eq!(left(1, 6, 19), []);
        assert_eq!(left(0, 7, 35), [(at(7), at(35))]);
    }
}
