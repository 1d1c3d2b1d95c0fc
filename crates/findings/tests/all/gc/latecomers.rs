//! Threads that stop late for a stop-the-world pause.

use holdup_events::Timestamp;
use holdup_events::tables::ThreadState::{Blocked, Runnable, Running, Untracked};
use holdup_events::tables::{SpanRow, Spans};
use holdup_findings::analyse;

use super::{A, ANSWERS, B, OTHER, Picture, ROUNDS, WOKEN, late, name, of_rule, trace};

#[test]
fn stop_the_world_latecomer_names_the_occupant_of_the_cpu() {
    let analysis = analyse(&trace(&late()));
    let finding = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert_eq!(finding.cost_ns, ROUNDS * 400_000);
    let said = finding.summary.join(" ");
    assert!(said.contains("hog") && said.contains("t2"), "{said}");
    assert!(finding.gain.high > 0.3 && finding.gain.low <= finding.gain.high, "{:?}", finding.gain);
    assert!(finding.evidence.iter().all(|row| row.thread == B));
    // The same pauses belong to no other rule.
    assert!(of_rule(&analysis, "barrier-straggler").is_none());
}

#[test]
fn a_rare_member_does_not_lower_the_cost_of_a_stop() {
    let mut picture = late();
    picture.slices.push((ANSWERS, 0, Blocked, 0));
    let mut trace = trace(&picture);
    let span = |start: u64, end: u64, text| SpanRow {
        thread: ANSWERS,
        start: Timestamp(start * 1000),
        end: Timestamp(end * 1000),
        lane: ANSWERS.0,
        name: name(text),
    };
    let seldom = [span(785, 1000, "stw_handler"), span(786, 801, "stw_api_barrier")];
    trace.spans = Spans::freeze([trace.spans.rows(), &seldom].concat());
    let analysis = analyse(&trace);
    let used = &analysis.derived.rendezvous.uses[0];
    assert_eq!((used.members.len(), used.harm_ns), (3, ROUNDS * 400_000 + 14_000));
    assert_eq!(used.harm_each_ns, (ROUNDS - 1) * 400_000 + 207_000);
    let finding = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(finding.gain.high > 0.39, "{:?}", finding.gain);
}

/// A requests a pause and B arrives at once. The backup thread of a third domain arrives at `comes`.
fn answered(comes: u64) -> Picture {
    Picture {
        slices: vec![
            (A, 0, Running, 0),
            (A, 410, Blocked, 0),
            (A, 800, Running, 0),
            (B, 0, Running, 1),
            (B, 410, Blocked, 1),
            (B, 800, Running, 1),
            (OTHER, 0, Untracked, 0),
            (ANSWERS, 0, Blocked, 1),
            (ANSWERS, WOKEN, Runnable, 1),
            (ANSWERS, comes, Running, 1),
            (ANSWERS, 799, Blocked, 1),
        ],
        spans: vec![
            (A, 400, 1000, "stw_leader"),
            (A, 400, 800, "stw_api_barrier"),
            (A, 800, 850, "minor"),
            (A, 850, 990, "minor_leave_barrier"),
            (B, 402, 1000, "stw_handler"),
            (B, 402, 800, "stw_api_barrier"),
            (B, 800, 850, "minor"),
            (ANSWERS, comes, 799, "stw_handler"),
            (ANSWERS, comes + 5, 799, "stw_api_barrier"),
        ],
    }
}

#[test]
fn an_idle_domain_is_the_latecomer() {
    let analysis = analyse(&trace(&answered(790)));
    let late = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(late.summary.join(" ").contains("1 domain without work"), "{late:#?}");
    // For A, 410 µs at the first barrier and 140 at the second. Its work is 50 and the leader's 10.
    assert!((0.54..0.7).contains(&late.gain.high), "{:?}", late.gain);
    assert_eq!(analysis.findings[0].rule, "stop-the-world-latecomer", "{:#?}", analysis.findings);
    // For B, whose handler takes 200 of 1000 µs after the first barrier.
    let pressure = of_rule(&analysis, "gc-pressure").expect("a finding").gain;
    assert!((pressure.high - 0.2).abs() < 0.02, "{pressure:?}");
}

#[test]
fn an_idle_domain_without_a_cpu_is_the_latecomer() {
    let mut picture = answered(WOKEN + 5);
    picture.slices.retain(|(thread, start, ..)| *thread != ANSWERS || *start <= WOKEN);
    picture.slices.extend([
        (ANSWERS, WOKEN + 5, Running, 0),
        (ANSWERS, WOKEN + 10, Runnable, 0),
        (ANSWERS, 790, Running, 0),
        (ANSWERS, 799, Blocked, 0),
    ]);
    let analysis = analyse(&trace(&picture));
    let late = of_rule(&analysis, "stop-the-world-latecomer").expect("a finding");
    assert!(late.summary.join(" ").contains("1 domain without work"), "{late:#?}");
    assert!(late.advice[0].contains("idle threads exit"), "{:?}", late.advice);
    // It was runnable for nearly all of the 390 µs that the others waited at the first barrier. They work 60
    // to 200.
    assert!((0.1..0.4).contains(&late.gain.low), "{:?}", late.gain);
    assert_eq!(analysis.findings[0].rule, "stop-the-world-latecomer", "{:#?}", analysis.findings);
}

#[test]
fn a_domain_with_nothing_to_do_that_answers_at_once_is_not() {
    let analysis = analyse(&trace(&answered(404)));
    let late = of_rule(&analysis, "stop-the-world-latecomer");
    let said = late.map_or(String::new(), |finding| finding.summary.join(" "));
    assert!(!said.contains("without work"), "{said}");
    assert!(of_rule(&analysis, "gc-pressure").expect("a finding").gain.high > 0.5);
}
