//! Threads that share a collector, and processes that would not.

use holdup_events::tables::{Process, SampleRow};
use holdup_events::{ProcessId, StackId, ThreadId, Timestamp, Trace};
use holdup_findings::derive::class::Class;
use holdup_findings::what_if::{Ask, what_if};
use holdup_findings::{Analysis, analyse};

use super::pool::without_allocations;
use super::{A, B, ROUND, ROUNDS, late, trace};

#[test]
fn a_domain_forced_to_collect_by_another_would_collect_less_alone() {
    let low_ns = |trace: &Trace| {
        let ask = Ask { without: vec!["gc-wait".to_owned()], ..Ask::default() };
        what_if(trace, &ask).expect("an answer").forecast.low_ns
    };
    let worker = |thread: ThreadId, at: u64| SampleRow {
        thread,
        at: Timestamp(at),
        stack: StackId(2),
        ..SampleRow::default()
    };
    let with = |of_b: u64| {
        let mut trace = Trace { samples: Vec::new(), ..without_allocations() };
        let Trace { lanes, counters, .. } = super::trace(&late());
        (trace.lanes, trace.counters) = (lanes, counters);
        // Domains whose runtime's code is known by a name that a descriptor has.
        trace.frames[1].function = "oldify_one".into();
        let at = |round: u64| [worker(A, round * ROUND + 850_000), worker(B, round * ROUND + 850_000)];
        trace.samples = (0..ROUNDS).flat_map(at).collect();
        trace.samples.sort_by_key(|sample| (sample.thread, sample.at));
        trace.counters.iter_mut().filter(|row| row.thread == B).for_each(|row| row.value = of_b);
        trace
    };
    // B allocates half as much as A: as a process it would collect half as often.
    assert!(low_ns(&with(1 << 20)) < low_ns(&with(2 << 20)));
}

/// The sentences on domains that share a collector.
fn shared_collector_sentences(analysis: &Analysis) -> Vec<&String> {
    let lines = analysis.findings.iter().flat_map(|finding| &finding.summary);
    lines.filter(|line| line.contains("share a collector")).collect()
}

#[test]
fn domains_that_share_a_collector_get_the_cost_of_sharing() {
    let analysis = analyse(&trace(&late()));
    let told = shared_collector_sentences(&analysis);
    assert_eq!(told.len(), 1, "{:?}", analysis.findings);
    assert!(told[0].starts_with("2 domains share a collector."), "{told:?}");
    // Each in a process of its own, they share none.
    let mut apart = trace(&late());
    apart.threads[B.index()].process = ProcessId(2);
    apart.lanes[B.index()].process = ProcessId(2);
    apart.processes.push(Process { pid: 2, name: "program".to_owned(), target: true, ..Process::default() });
    assert!(shared_collector_sentences(&analyse(&apart)).is_empty());
}

#[test]
fn without_waiting_for_each_other_threads_still_collect() {
    let trace = trace(&late());
    let wall_ns = |subject: &str| {
        let ask = Ask { without: vec![subject.to_owned()], ..Ask::default() };
        let answer = what_if(&trace, &ask).expect("an answer");
        let waits = |(class, _, after): &(Class, u64, u64)| *class == Class::GcWait && *after > 0;
        assert!(!answer.classes().iter().any(waits), "{subject}");
        answer.forecast.wall_ns
    };
    assert!(wall_ns("gc") <= wall_ns("gc-wait"));
    assert!(wall_ns("gc-wait") <= trace.wall().0);
}
