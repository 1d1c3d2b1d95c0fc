//! Two recordings of one run each, as pictures: locks, syscalls and allocations by blocks of time within
//! them.

use holdup_events::Trace;
use holdup_events::recording::SourceState;
use holdup_events::tables::AllocationRow;
use holdup_events::{ThreadId, Timestamp};
use holdup_findings::experiment::compare::Question;
use holdup_findings::experiment::difference::{Basis, Difference, Trend};
use holdup_findings::experiment::{Experiment, Measure, Run, RunFacts, Setting, Table, difference, within};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

const QUESTION: Question =
    Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: false, resamples: 500, trimmed: 0.2 };

/// Two threads. One waits for the other's lock for `ticks` of each 8 ms, 60 times.
fn waiting(ticks: usize) -> Trace {
    let waiter = "m".repeat(ticks) + &"0".repeat(8 - ticks);
    let picture = format!("@cpus 2\n@repeat 60\nA  {waiter}\nB  11111111  holds m 0..{ticks}\n");
    trace_of_lanes(&picture).1
}

fn compared(a: &Trace, b: &Trace) -> Difference {
    let (of_a, of_b): (Analysis, Analysis) = (analyse(a), analyse(b));
    let run = |setting, trace: &Trace, of: &Analysis| Run {
        setting,
        wall_ns: trace.wall().0,
        facts: Some(RunFacts::new(trace, of)),
        ..Run::default()
    };
    let experiment = Experiment {
        settings: vec![Setting::default(); 2],
        runs: vec![run(0, a, &of_a), run(1, b, &of_b)],
        ..Experiment::default()
    };
    let mut found = difference::between(&experiment, (0, 1), &QUESTION);
    within::add_intervals(&mut found, (a, &of_a), (b, &of_b), &QUESTION);
    found
}

#[test]
fn steadily_longer_lock_waits_are_reported_with_an_interval() {
    let found = compared(&waiting(2), &waiting(4));
    assert_eq!(found.basis, Basis::Blocks);
    let row = found.rows.iter().find(|row| row.table == Table::Lock).expect("the lock");
    let time = row.main();
    // 60 times 2 ms, and 60 times 4 ms.
    assert_eq!((time.a, time.b, time.trend), (120e6, 240e6, Trend::More));
    let change = time.change.expect("an interval");
    assert!((change.centre - 120e6).abs() < 1e3, "blocks add up to the run: {change:?}");
    assert!(change.low > 0.0 && change.high < 240e6, "{change:?}");
    let count = row.figure(Measure::Count).unwrap();
    assert_eq!((count.a, count.b), (60.0, 60.0));
    assert!(!count.trend.is_change(), "{count:?}");
    assert_eq!(row.figure(Measure::TimeEach).unwrap().trend, Trend::More);
    // A maximum is no sum over blocks, so it has no interval. No run was repeated.
    assert_eq!(row.figure(Measure::Longest).unwrap().change, None);
    assert!(row.figures.iter().all(|figure| figure.runs_wanted.is_none()));
    let futex = found.rows.iter().find(|row| row.table == Table::Syscall && row.name == "futex");
    assert!(futex.is_some_and(|row| row.main().change.is_some()), "{:?}", found.rows);
}

#[test]
fn the_same_recording_twice_differs_in_nothing() {
    let trace = waiting(3);
    let found = compared(&trace, &trace);
    assert!(
        found.rows.iter().flat_map(|row| &row.figures).all(|figure| !figure.trend.is_change()),
        "{found:?}"
    );
}

#[test]
fn steady_allocations_are_reported_and_a_burst_is_not() {
    let with = |bytes: u64, from_ns: u64| {
        let mut trace = waiting(1);
        let (start, wall) = (trace.start().0 + from_ns, trace.wall().0 - from_ns);
        let row = |number: u64| AllocationRow {
            thread: ThreadId(0),
            at: Timestamp(start + wall * number / 240),
            bytes,
            every_bytes: 1,
            own_bytes: 32,
            ..AllocationRow::default()
        };
        trace.allocations = (0..240).map(row).collect();
        trace
    };
    let all_along = compared(&with(1000, 0), &with(3000, 0));
    let all = |found: &Difference| {
        let row = found.rows.iter().find(|row| row.table == Table::Allocation && row.name == "(all)");
        row.expect("a sum").clone()
    };
    let row = all(&all_along);
    assert_eq!((row.main().a, row.main().b, row.main().trend), (240e3, 720e3, Trend::More));
    assert_eq!(row.figure(Measure::Count).map(|count| (count.a, count.b)), Some((240.0, 240.0)));
    // The same number of bytes, all at the end. One block does not represent the others.
    let wall = waiting(1).wall().0;
    let burst = all(&compared(&with(1000, 0), &with(3000, wall - wall / 100)));
    assert_eq!((burst.main().b, burst.main().trend), (720e3, Trend::Unclear), "{burst:?}");
}

#[test]
fn none_drawn_is_no_reason_not_to_compare_and_not_recorded_is() {
    let mut some = waiting(1);
    some.allocations = vec![AllocationRow {
        at: some.start(),
        bytes: 9,
        every_bytes: 1,
        own_bytes: 32,
        ..AllocationRow::default()
    }];
    let has = |found: &Difference| found.rows.iter().any(|row| row.table == Table::Allocation);
    assert!(!has(&compared(&some, &waiting(1))));
    let mut none = waiting(1);
    let source = SourceState { name: "allocations".to_owned(), active: true, ..SourceState::default() };
    none.manifest.sources.push(source);
    let found = compared(&some, &none);
    assert!(has(&found), "{found:?}");
    none.manifest.sources.iter_mut().for_each(|source| source.missing = "not in this build".to_owned());
    assert!(!has(&compared(&some, &none)));
}

#[test]
fn a_recording_without_length_has_no_blocks() {
    let trace = Trace::default();
    let found = compared(&trace, &trace);
    assert!(found.rows.iter().flat_map(|row| &row.figures).all(|figure| figure.change.is_none()));
}
