//! What each CPU did over the recording.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::{CpuId, ProcessId, Trace};

use super::parallel;
use super::timelines::{Timeline, Timelines};

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// The CPU.
    pub cpu: CpuId,
    /// Ran target threads (ns), stolen time excluded.
    pub target_ns: u64,
    /// Ran other threads.
    pub others_ns: u64,
    /// Steal time while a target thread was on it (ns).
    pub stolen_ns: u64,
    /// Neither: idle, or not known.
    pub idle_ns: u64,
    /// Switches onto it of followed or foreign threads.
    pub switches: u64,
    /// Which foreign processes ran on it (ns), the longest first, at most 8.
    pub others: Vec<(ProcessId, u64)>,
}

/// Maximum number of other processes to report per CPU.
const OTHERS_MAX: usize = 8;

/// Derives it for every CPU that was seen, by number.
pub fn derive(trace: &Trace) -> Vec<CpuUse> {
    derive_with(trace, &Timelines::derive(trace))
}

/// Derives it, given what each CPU ran.
pub fn derive_with(trace: &Trace, timelines: &Timelines) -> Vec<CpuUse> {
    let stolen = stolen_by_cpu(trace, timelines.len());
    let seen: Vec<(CpuId, &Timeline)> = timelines.iter().collect();
    parallel::map(seen.len(), |index| {
        let (cpu, timeline) = seen[index];
        one(trace, cpu, timeline, stolen[usize::from(cpu.0)])
    })
}

fn one(trace: &Trace, cpu: CpuId, timeline: &Timeline, stolen_ns: u64) -> CpuUse {
    let (mut own, mut others) = (0, 0);
    let mut by_process: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for stretch in timeline.stretches() {
        let length = stretch.end().since(stretch.start()).0;
        if stretch.own() {
            own += length;
        } else {
            others += length;
            *by_process.entry(trace.threads[stretch.thread().index()].process).or_default() += length;
        }
    }
    let mut ranked: Vec<(ProcessId, u64)> = by_process.into_iter().collect();
    ranked.sort_by_key(|(process, ns)| (Reverse(*ns), *process));
    ranked.truncate(OTHERS_MAX);
    let stolen_ns = stolen_ns.min(own);
    CpuUse {
        cpu,
        target_ns: own - stolen_ns,
        others_ns: others,
        stolen_ns,
        idle_ns: trace.wall().0.saturating_sub(own + others),
        switches: timeline.runs(),
        others: ranked,
    }
}

fn stolen_by_cpu(trace: &Trace, cpus: usize) -> Vec<u64> {
    let mut by_cpu = vec![0; cpus];
    for steal in &trace.steals {
        if !trace.threads.get(steal.thread.index()).is_some_and(|thread| thread.target) {
            continue;
        }
        let Some(row) = trace.slices.covering(steal.thread, steal.slice_start) else { continue };
        let slice = trace.slices.at(steal.thread, row);
        if let Some(sum) = by_cpu.get_mut(usize::from(slice.cpu.0)) {
            *sum += steal.stolen.0.min(slice.duration().0);
        }
    }
    by_cpu
}
