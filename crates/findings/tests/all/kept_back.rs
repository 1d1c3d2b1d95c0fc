//! Data that a program delays for a peer until a timeout, on pictures.

use holdup_findings::{Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

/// The finding if A exchanges messages with B, another process. Each waits for the other, and A also waits
/// for a clock.
fn found(lanes: &str) -> Option<Finding> {
    let waits = "@s sleep\n@p multiplex 232\n@q multiplex 232\n@e multiplex 232\n";
    let (_, trace) = trace_of_lanes(&format!("@cpus 2\n@repeat 20\n{waits}@child B\n{lanes}"));
    let findings = analyse(&trace).findings;
    assert!(!findings.is_empty(), "nothing waits");
    let says = |line: &String| line.contains("sent again after the timeout");
    findings.into_iter().find(|finding| finding.summary.iter().any(says))
}

#[test]
fn who_speaks_on_without_an_answer_when_a_time_is_up_kept_something_back() {
    let finding = found(&format!(
        "A  0{}0e0  holds p 0..1  holds q 21..22\n\
         B  p1{}1p  holds e 22..23\n",
        "s".repeat(20),
        "q".repeat(20),
    ))
    .expect("it");
    assert!(finding.rule == "oversleep" && finding.confidence == Confidence::Medium, "{finding:#?}");
    assert!(finding.advice.iter().any(|advice| advice.contains("100-continue")), "{finding:#?}");
}

#[test]
fn who_was_answered_and_then_pauses_keeps_nothing_back() {
    let finding = found(&format!(
        "A  0e0{}0  holds p 0..1\n\
         B  p1{}  holds e 1..2\n",
        "s".repeat(20),
        "p".repeat(22),
    ));
    assert_eq!(finding.map(|finding| finding.rule), None);
}

#[test]
fn who_is_told_and_never_asked_waits_for_nothing() {
    let finding = found(&format!(
        "A  0{}  holds p 0..1\n\
         B  p1{}\n",
        "s".repeat(22),
        "p".repeat(21),
    ));
    assert_eq!(finding.map(|finding| finding.rule), None);
}
