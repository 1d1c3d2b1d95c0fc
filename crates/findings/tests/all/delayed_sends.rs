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
fn sending_again_after_a_timeout_without_response_is_a_delayed_send() {
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
fn a_pause_after_a_response_is_no_delayed_send() {
    let finding = found(&format!(
        "A  0e0{}0  holds p 0..1\n\
         B  p1{}  holds e 1..2\n",
        "s".repeat(20),
        "p".repeat(22),
    ));
    assert_eq!(finding.map(|finding| finding.rule), None);
}

#[test]
fn one_message_without_a_request_is_no_delayed_send() {
    let finding = found(&format!(
        "A  0{}  holds p 0..1\n\
         B  p1{}\n",
        "s".repeat(22),
        "p".repeat(21),
    ));
    assert_eq!(finding.map(|finding| finding.rule), None);
}
