//! perf's events: which are imported, which represent time, and missing switches.

use super::*;

fn of_text(text: &str) -> Imported {
    Imported::read(text.as_bytes()).unwrap()
}

/// A line of a sample with its stack.
fn sample(at: &str, period: &str, event: &str, function: &str) -> String {
    format!("work   100/100   [000]    {at}: {period} {event}: \n\t401136 {function}+0x6 (/src/work)\n\n")
}

#[test]
fn an_event_that_stands_for_time_goes_before_one_that_does_not() {
    let import = Imported::from_fixture("clock-after-cycles.txt");
    assert_eq!(import.time_by_leaf(), BTreeMap::from([("hot".to_owned(), 2_000_000)]));
    assert!(import.facts.sources[0].missing.contains("1 samples of other events are left out"));
    let clocks = [
        sample("1.001", "5", "page-faults", "fault"),
        sample("1.002", "", "cpu-clock", "no_period"),
        sample("1.003", "100000", "cycles", "cycle"),
        sample("1.004", "1000000", "task-clock", "hot"),
    ];
    let leaves = |text: &str| of_text(text).time_by_leaf().into_keys().collect::<Vec<_>>();
    assert_eq!(leaves(&clocks.concat()), ["hot"]);
    assert_eq!(leaves(&clocks[..3].concat()), ["no_period"], "a clock before other events");
    assert_eq!(leaves(&clocks[..1].concat()), ["fault"], "better than nothing");
}

#[test]
fn samples_without_time_are_kept_with_a_note() {
    for (name, samples) in [("page-faults.txt", 21), ("page-faults.perf", 64), ("cycles.txt", 22)] {
        let import = Imported::from_fixture(name);
        assert_eq!((import.trace.samples.len(), import.facts.sample_period_ns), (samples, 0), "{name}");
        let limits = &import.facts.limits;
        assert!(
            limits.contains("with samples that do not stand for time: running times are not known"),
            "{limits}"
        );
    }
}

/// Switch lines on CPU 0: time in ms, departing thread, arriving thread.
fn switches(all: &[(u32, u32, u32)]) -> String {
    let line = |(at, prev, next): &(u32, u32, u32)| {
        format!(
            "work {prev}/{prev} [000] 10.{at:03}000: sched:sched_switch: prev_comm=work prev_pid={prev} prev_prio=120 prev_state=S ==> \
             next_comm=work next_pid={next} next_prio=120\n"
        )
    };
    all.iter().map(line).collect()
}

fn running_ns(import: &Imported) -> u64 {
    let trace = &import.trace;
    let running = trace.target_threads().flat_map(|id| trace.slices.of_thread(id));
    running.filter(|slice| slice.state == ThreadState::Running).map(|slice| slice.duration().0).sum()
}

#[test]
fn switches_that_are_missing_are_counted() {
    let import = Imported::from_fixture("half-switches.txt");
    assert_eq!(
        (import.losses(), running_ns(&import)),
        (BTreeMap::from([("missing-switches".to_owned(), 1)]), 0)
    );
    assert_eq!(import.trace.losses.len(), 2);
    let limits = &import.facts.limits;
    assert!(limits.starts_with("perf script: 2 context switches are missing"), "{limits}");
    let sched = &import.facts.sources[1];
    assert!(sched.lost == 2 && sched.missing.starts_with("2 context switches are missing"), "{sched:?}");
}

#[test]
fn switches_that_follow_each_other_are_exact() {
    let import = of_text(&switches(&[(0, 0, 100), (2, 100, 101), (5, 101, 0), (6, 0, 100), (7, 100, 0)]));
    assert_eq!((import.losses(), running_ns(&import)), (BTreeMap::new(), 6_000_000));
    assert!(import.facts.limits.contains("running times are exact"), "{}", import.facts.limits);
    // The switch from 101 is missing: how long 101 ran, and since when 100 did, is not known.
    let import = of_text(&switches(&[(0, 0, 100), (2, 100, 101), (7, 100, 0), (8, 0, 100), (9, 100, 0)]));
    assert_eq!((import.losses()["missing-switches"], running_ns(&import)), (1, 3_000_000));
}
