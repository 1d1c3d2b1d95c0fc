//! The rule on what a flight recorder saved a recording for, on pictures.

use holdup_events::Trace;
use holdup_events::recording::Fired;
use holdup_findings::finding::Finding;
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::trace_of_lanes;

/// A waits once for a lock whose holder B sleeps. C computes all the time, so the run as a whole would gain
/// nothing.
const STALL: &str = "@cpus 3\n@m lock\n@s sleep 230\n@stack m main;serve\n@stack s main;stall\n\
    A  0000mmmmmmmm00000000000000000000\n\
    B  1111ssssssss11..................  holds m 4..12\n\
    C  22222222222222222222222222222222\n";

/// Fires for the lane's thread, which at `tick` had waited for `ticks`.
fn fire(trace: &mut Trace, lane: usize, (tick, ticks): (u64, u64)) {
    let (tid, name) = (trace.threads[lane].tid, trace.threads[lane].name.clone());
    let at_ns = trace.start().0 + tick * 1_000_000;
    let trigger = "pause:lock>3ms".to_owned();
    let what = "waited for a lock".to_owned();
    trace.manifest.fired.push(Fired {
        trigger,
        at_ns,
        tid,
        thread: name,
        what,
        length_ns: ticks * 1_000_000,
    });
}

fn pauses(analysis: &Analysis) -> Vec<&Finding> {
    analysis.findings.iter().filter(|finding| finding.rule == "long-pause").collect()
}

#[test]
fn the_triggering_pause_comes_first_with_its_holder_and_sleep() {
    let (_, mut trace) = trace_of_lanes(STALL);
    let before = analyse(&trace);
    assert!(pauses(&before).is_empty(), "nothing was saved for a pause");
    fire(&mut trace, 0, (12, 8));
    let analysis = analyse(&trace);
    let first = &analysis.findings[0];
    assert_eq!((first.rule, pauses(&analysis).len()), ("long-pause", 1));
    assert!(first.subject.starts_with("B ("), "{first:#?}");
    assert_eq!((first.cost_ns, first.gain.low), (8_000_000, 0.0));
    let told = first.summary.join(" ");
    for part in [
        "A (",
        "waited 8.00 ms for a lock",
        ": that fired pause:lock>3ms. B (",
        "held it, and slept for 8.00 ms during that time",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(first.advice[0].starts_with("Release the lock before B ("), "{:?}", first.advice);
    let rows: Vec<(u64, u64)> = first
        .evidence
        .iter()
        .map(|row| (row.start.since(trace.start()).0 / 1_000_000, row.duration.0 / 1_000_000))
        .collect();
    assert!(rows.iter().all(|row| *row == (4, 8)) && rows.len() >= 2, "{rows:?}");
    // All other findings follow unchanged.
    assert_eq!(analysis.findings.len(), before.findings.len() + 1);
}

#[test]
fn two_triggers_for_one_wait_are_one_pause() {
    let (_, mut trace) = trace_of_lanes(STALL);
    fire(&mut trace, 0, (12, 8));
    fire(&mut trace, 0, (12, 7));
    assert_eq!(pauses(&analyse(&trace)).len(), 1);
}

#[test]
fn a_pause_in_which_the_thread_ran_has_no_chain() {
    for (lane, pause) in [(2, (12, 8)), (0, (30, 12)), (0, (900_000, 5)), (0, (12, 0))] {
        let (_, mut trace) = trace_of_lanes(STALL);
        fire(&mut trace, lane, pause);
        assert!(pauses(&analyse(&trace)).is_empty(), "{lane} {pause:?}");
    }
}

#[test]
fn a_run_queue_pause_names_the_occupant_of_the_cpu() {
    let (_, mut trace) = trace_of_lanes("@cpus 1\nA      00rrrrrrrr00\n~noisy ..00000000..\n");
    fire(&mut trace, 0, (10, 8));
    let analysis = analyse(&trace);
    let first = &analysis.findings[0];
    assert_eq!(first.rule, "long-pause");
    assert!(first.subject.starts_with("noisy ("), "{first:#?}");
    assert!(first.advice[0].starts_with("Keep a CPU free for A ("), "{:?}", first.advice);
}
