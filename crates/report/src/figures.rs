//! Figures of the manifest and the loss table that several formats show. Derives nothing about the program.

use std::collections::BTreeMap;

use holdup_events::recording::Backend;
use holdup_events::{Loss, Trace};
use holdup_findings::too_short::is_too_short;

use crate::damage::is_damage;

/// Lost events by source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossFigures {
    /// Events lost of all sources.
    pub events: u64,
    /// The same by source. 0 if only a time span is known.
    pub by_source: BTreeMap<String, u64>,
    /// Losses of which no number is known.
    pub uncounted: u64,
    /// Number of `events` for which the kernel skipped the BPF program.
    pub skipped: u64,
}

/// Adds up the losses. A source's own count and its rows describe the same events, so the greater number is
/// used.
pub(crate) fn loss(trace: &Trace) -> LossFigures {
    let mut figures = LossFigures::default();
    for loss in trace.losses.iter().filter(|loss| !is_damage(loss)) {
        let sum = figures.by_source.entry(loss.source.clone()).or_default();
        *sum = sum.saturating_add(loss.events);
        figures.uncounted += u64::from(loss.events == 0);
        if loss.reason == Loss::SKIPPED {
            figures.skipped = figures.skipped.saturating_add(loss.events);
        }
    }
    for source in trace.manifest.sources.iter().filter(|source| source.lost > 0) {
        let sum = figures.by_source.entry(source.name.clone()).or_default();
        *sum = source.lost.max(*sum);
    }
    figures.events = figures.by_source.values().fold(0, |sum, events| sum.saturating_add(*events));
    figures
}

/// Threads of the ledger and threads that the recorder saw, if events of the others were lost.
pub(crate) fn covered(trace: &Trace, in_ledger: usize) -> Option<(u64, u64)> {
    let loss = loss(trace);
    let seen = trace.manifest.threads_seen;
    let is_lost = loss.events > 0 || loss.uncounted > 0;
    (is_lost && (in_ledger as u64) < seen).then_some((in_ledger as u64, seen))
}

/// Events that sources delivered.
pub(crate) fn delivered(trace: &Trace) -> u64 {
    trace.manifest.sources.iter().fold(0, |sum, source| sum.saturating_add(source.events))
}

/// CPU time of the recording (ns): the recorder's own and the kernel programs'.
pub(crate) fn cost_cpu_ns(trace: &Trace) -> u64 {
    trace.manifest.cost.recorder_cpu_ns.saturating_add(trace.manifest.cost.probes_cpu_ns)
}

/// [`cost_cpu_ns`] as a share of all that the CPUs had to give. `None` if the recording is too short for it.
pub(crate) fn cost_share(trace: &Trace) -> Option<f64> {
    of_machine(trace, cost_cpu_ns(trace)).filter(|_| !is_too_short(trace))
}

/// For a recording that exceeded its budget: returns the budget (percent of the CPUs) and the cost without
/// stacks (ns), which a budget cannot reduce. `None` if it kept to the budget, or had none.
pub(crate) fn over_budget(trace: &Trace) -> Option<(f64, u64)> {
    let cost = &trace.manifest.cost;
    let all_ns = cost_cpu_ns(trace);
    let share = of_machine(trace, all_ns)?;
    let budget = cost.budget_percent;
    (budget > 0.0 && share * 100.0 > budget).then(|| (budget, all_ns.saturating_sub(cost.stacks_cpu_ns)))
}

/// `ns` of CPU time as a share of the machine's total CPU time. `None` if that is unknown.
pub(crate) fn of_machine(trace: &Trace, ns: u64) -> Option<f64> {
    let capacity = trace.wall().0 as f64 * f64::from(trace.manifest.host.cpus);
    (capacity > 0.0).then(|| ns as f64 / capacity)
}

/// Bytes of the recording per context switch. `None` without any.
pub(crate) fn bytes_per_switch(trace: &Trace) -> Option<f64> {
    let cost = &trace.manifest.cost;
    (cost.switches > 0).then(|| cost.bytes as f64 / cost.switches as f64)
}

/// Names of signals by number, as on x86-64 and Arm.
const SIGNALS: [(i32, &str); 17] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (31, "SIGSYS"),
];

/// Returns `signal 9 (SIGKILL)`. Rare signals have no name.
pub(crate) fn signal(number: i32) -> String {
    match SIGNALS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => format!("signal {number} ({name})"),
        None => format!("signal {number}"),
    }
}

/// The stable name of a backend.
pub(crate) fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "bpf",
        Backend::Perf => "perf",
        Backend::Proc => "proc",
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::Loss;
    use holdup_events::recording::SourceState;

    use super::*;

    fn row(source: &str, events: u64) -> Loss {
        Loss {
            source: source.to_owned(),
            reason: "ring-full".to_owned(),
            cpu: holdup_events::CpuId::NONE,
            start: Default::default(),
            end: Default::default(),
            events,
        }
    }

    #[test]
    fn a_budget_is_exceeded_by_what_it_cannot_limit() {
        let mut trace = Trace::default();
        trace.manifest.end_ns = 1_000_000_000;
        trace.manifest.host.cpus = 2;
        // 60 ms of 2 s of CPU time: 3 %.
        trace.manifest.cost.recorder_cpu_ns = 20_000_000;
        trace.manifest.cost.probes_cpu_ns = 40_000_000;
        trace.manifest.cost.stacks_cpu_ns = 5_000_000;
        assert_eq!(over_budget(&trace), None, "a recording without a budget");
        trace.manifest.cost.budget_percent = 2.0;
        assert_eq!(over_budget(&trace), Some((2.0, 55_000_000)));
        trace.manifest.cost.budget_percent = 4.0;
        assert_eq!(over_budget(&trace), None);
    }

    #[test]
    fn a_loss_reported_twice_counts_once() {
        let mut trace =
            Trace { losses: vec![row("sched", 3), row("sched", 4), row("late", 0)], ..Trace::default() };
        trace.manifest.sources =
            vec![SourceState { name: "sched".into(), lost: 9, ..SourceState::default() }];
        let figures = loss(&trace);
        assert_eq!((figures.events, figures.uncounted, figures.by_source["late"]), (9, 1, 0));
    }

    #[test]
    fn events_that_the_kernel_skipped_are_a_part_of_all() {
        let skipped = Loss { reason: Loss::SKIPPED.to_owned(), ..row("sched", 3) };
        let trace = Trace { losses: vec![skipped, row("sched", 4)], ..Trace::default() };
        let figures = loss(&trace);
        assert_eq!((figures.events, figures.skipped), (7, 3));
    }

    #[test]
    fn shares_of_nothing_are_not_known() {
        assert_eq!(of_machine(&Trace::default(), 5), None);
        assert_eq!(bytes_per_switch(&Trace::default()), None);
    }
}
