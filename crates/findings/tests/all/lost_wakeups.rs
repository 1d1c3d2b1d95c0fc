//! Waits for another thread that only a time-out ended, and what came of them.

use holdup_findings::analyse;
use holdup_testkit::check::trace_of_lanes;

/// A waits until its timeout, and then wakes B, which wakes it at other times. Returns the summary and the
/// first advice.
fn oversleep(reason: &str, beside: &str) -> (String, String) {
    oversleep_of("A  cccccccc00c0  holds d 8..9\n", reason, beside)
}

fn oversleep_of(waiter: &str, reason: &str, beside: &str) -> (String, String) {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 4\n@tick 1000000\n@c {reason}\n@timeout c 8\n@d park\n@repeat 20\n\
         {waiter}B  11ddddddd111  holds c 10..11\n{beside}"
    ));
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "oversleep");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    (finding.summary.join(" "), finding.advice[0].clone())
}

#[test]
fn a_timeout_with_a_true_condition_is_a_lost_wakeup() {
    let (said, advice) = oversleep("park", "");
    assert!(said.contains("20 sleeps of these were waits for another thread"), "{said}");
    assert!(advice.starts_with("Signal the waiter"), "{advice}");
    // Several wait there.
    let (said, advice) = oversleep("park", "C  cccccccc2222\n");
    assert!(said.contains("20 sleeps of these"), "{said}");
    assert!(advice.contains("notify_all"), "{advice}");
}

#[test]
fn a_sleep_is_no_lost_wakeup() {
    let (said, advice) = oversleep("sleep", "");
    assert!(!said.contains("for another thread") && !advice.starts_with("Signal"), "{said} {advice}");
}

/// A thread that checks and wakes no other thread may have found nothing.
#[test]
fn a_timeout_without_a_later_wakeup_may_be_intended() {
    let (said, _) = oversleep_of("A  cccccccc00c0\n", "park", "C  cccccccc2222  holds d 8..9\n");
    assert!(said.contains("20 sleeps of these"), "C finds something, A does not: {said}");
    let (said, _) = oversleep_of("A  cccccccc00c0\n", "park", "@n sleep\nC  nnnnnnnn2222  holds d 8..9\n");
    assert!(!said.contains("for another thread"), "{said}");
}

/// A thread that is never signalled waits on a condition variable to be woken at the program's exit. It waits
/// for the timeout.
#[test]
fn a_thread_that_is_never_signalled_waits_for_its_timeout() {
    let (said, _) = oversleep_of("A  cccccccc0000  holds d 8..9\n", "park", "");
    assert!(!said.contains("for another thread"), "{said}");
}
