//! Waits for answers that nothing but their time-out ended.

use holdup_findings::finding::Confidence;
use holdup_testkit::check::check_lanes;

/// `A` waits for an answer for 30 ticks at the most, then does what `between` says, ten times.
fn picture(function: &str, between: &str) -> String {
    let (waits, work) = ("s".repeat(30), "1".repeat(30 + between.len() + 2));
    format!(
        "@repeat 10\n@cpus 2\n@s socket 47\n@f park\n@timeout s 30\n@stack s main;{function};recvmsg\n\
         A  0{waits}0{between}\n~B {work}\n"
    )
}

#[test]
fn who_looks_up_names_and_gets_no_answer_is_told() {
    let analysis = check_lanes(&picture("getaddrinfo", ""));
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "answer-timeout").expect("a finding");
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.subject.contains("questions"), "{}", finding.subject);
    assert!(finding.gain.high > 0.8, "{:?}", finding.gain);
}

#[test]
fn another_time_out_is_a_hint_if_something_else_follows() {
    let analysis = check_lanes(&picture("ask", "fff0"));
    let finding =
        analysis.findings.iter().find(|finding| finding.rule == "answer-timeout").expect("a finding");
    assert_eq!(finding.confidence, Confidence::Low);
}

#[test]
fn who_asks_for_the_same_again_and_again_looks_by_the_clock() {
    check_lanes(&(picture("ask", "") + "@silent answer-timeout\n"));
}
