//! A runtime that is observed by probes and does not report its allocations.

use holdup_events::recording::{Host, Manifest};
use holdup_events::tables::ThreadState::{Preempted, Runnable, Running};
use holdup_events::tables::{Frame, FrameSpin, Mapping, MarkRow, SampleRow, TellName};
use holdup_events::{StackId, ThreadId, Timestamp, Trace};
use holdup_findings::descriptors::Descriptors;
use holdup_findings::{analyse, analyse_with};

use super::{A, B, Picture, ROUND, ROUNDS, late, of_rule, sampled, trace};

const POOL: &str = r#"
[runtime]
name = "pool"
title = "Pool"
fewer_collections = "POOL_HEAP=2G"
function = ["work"]

[[rule]]
role = "gc-work"
on = "cpu"
leaf = ["collect"]
"#;

/// `late` for a runtime that is observed by probes and does not report its allocations.
pub fn without_allocations() -> Trace {
    let mut trace = sampled(true);
    trace.frames[1] = Frame { function: "collect".into(), spin: FrameSpin::No, ..trace.frames[1].clone() };
    trace.mappings = vec![Mapping { path: "/bin/program".into(), end: 1, ..Mapping::default() }];
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "pool".to_owned());
    trace.counters.clear();
    trace
}

#[test]
fn probe_marks_give_the_generation_of_a_collection() {
    let mut trace = trace(&late());
    let name = trace.names.len() as u32;
    let generation = |number| TellName { text: format!("gc generation {number}"), ..TellName::default() };
    trace.names.extend([generation(0), generation(1)]);
    let mark = |thread: ThreadId, name| MarkRow { thread, lane: thread.0, name, ..MarkRow::default() };
    trace.marks = vec![mark(A, name), mark(A, name + 1), mark(B, name)];
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "ghc".to_owned());
    let gc = analyse(&trace).derived.gc;
    assert_eq!((gc.minor, gc.major), (2, 1));
    assert_eq!(gc.lanes.iter().map(|lane| lane.minor).collect::<Vec<_>>(), [1, 1]);
    // An eventlog has spans of them.
    trace.lanes.iter_mut().for_each(|lane| lane.runtime = "ghc 9.0.2".to_owned());
    assert_eq!(analyse(&trace).derived.gc.major, 0);
}

fn pool() -> Descriptors {
    Descriptors::none().with(&[POOL.to_owned()]).expect("it is sound")
}

#[test]
fn gc_heavy_fires_for_runtimes_without_allocation_counts() {
    let analysis = analyse_with(&without_allocations(), &pool());
    let finding = of_rule(&analysis, "gc-heavy").expect("a finding");
    // A waits 400 of its 490 µs for B to stop. They are reported as such.
    assert_eq!(finding.cost_ns / 1000 / ROUNDS, 110 + 90 + 204);
    assert!(of_rule(&analysis, "gc-pressure").is_none());
    let latecomer = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert_eq!(latecomer.advice.last().map(String::as_str), Some("POOL_HEAP=2G"));
    // For a runtime that reports its allocations, gc-pressure has more facts.
    let Trace { lanes, counters, .. } = trace(&late());
    let told = Trace { lanes, counters, ..without_allocations() };
    let analysis = analyse_with(&told, &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_none() && of_rule(&analysis, "gc-pressure").is_some());
}

/// Two threads on one CPU, each with its own collections. Each is runnable in its collections, or else in its
/// own work.
fn crowded(in_collections: bool) -> Trace {
    let slices = vec![
        (A, 0, Running, 0),
        (A, 300, Preempted, 0),
        (A, 700, Running, 0),
        (B, 0, Runnable, 0),
        (B, 300, Running, 0),
        (B, 700, Preempted, 0),
    ];
    let spans = match in_collections {
        true => vec![(A, 200, 900, "minor"), (B, 0, 400, "minor"), (B, 600, 1000, "minor")],
        false => vec![(A, 50, 250, "minor"), (B, 350, 550, "minor")],
    };
    let mut trace = Trace { samples: Vec::new(), ..trace(&Picture { slices, spans }) };
    let host = Host { cpus: 1, cpus_allowed: 1, ..Host::default() };
    trace.manifest = Manifest { host, ..trace.manifest };
    let drawn = without_allocations();
    let of_a = drawn.samples.iter().filter(|sample| sample.thread == A);
    let at = |sample: &SampleRow| match sample.stack {
        StackId(2) => SampleRow { at: Timestamp(sample.at.0 / ROUND * ROUND + 210_000), ..*sample },
        _ => SampleRow { at: Timestamp(sample.at.0 / ROUND * ROUND + 10_000), stack: StackId(1), ..*sample },
    };
    trace.samples = of_a.map(at).collect();
    trace.samples.sort_by_key(|sample| sample.at);
    Trace {
        frames: drawn.frames,
        stacks: drawn.stacks,
        mappings: drawn.mappings,
        lanes: drawn.lanes,
        counters: Vec::new(),
        ..trace
    }
}

#[test]
fn runnable_collector_threads_are_a_symptom_of_gc_heavy() {
    let analysis = analyse_with(&crowded(true), &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_some() && of_rule(&analysis, "oversubscription").is_none());
    let told = analysis.symptoms.iter().any(|symptom| symptom.finding.rule == "oversubscription");
    assert!(told, "{:#?}", analysis.findings);
    // Threads that wait for a CPU for their own work do not count.
    let analysis = analyse_with(&crowded(false), &pool());
    assert!(of_rule(&analysis, "gc-heavy").is_some() && of_rule(&analysis, "oversubscription").is_some());
}
