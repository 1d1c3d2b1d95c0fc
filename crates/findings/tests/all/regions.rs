//! Work that is handed out in pieces so small that one thread alone would be done sooner.

use holdup_findings::{Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

/// A distributes work to B and C, computes in parallel, and waits until both are done. Each letter is
/// `tick_ns`.
fn handing(tick_ns: u64, pieces: &str) -> Option<Finding> {
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@tick {tick_ns}\n@j barrier\n@w park\n@k ipc\n@repeat 2000\n\
         @samples A 0..10 user main;solve\n@samples B 0..10 user start_thread;solve\n{pieces}"
    ));
    analyse(&trace).findings.into_iter().find(|finding| finding.rule == "fine-regions")
}

/// Two letters of computing in ten: the rest is handing over.
const FINE: &str = "A  0jjjjjrrrr  holds w 0..1\nB  wrrrr1wwww  holds j 5..6\n";

#[test]
fn regions_that_one_thread_would_finish_sooner_are_reported_with_the_gain() {
    let finding = handing(2_000, FINE).expect("it is told");
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.gain.low > 0.6 && finding.gain.high > finding.gain.low, "{:?}", finding.gain);
    assert!(finding.subject.starts_with("the parallel regions of A "), "{}", finding.subject);
    assert!(
        finding.summary[0]
            .contains("waited 2,000 times for other threads to finish a region, once in 20.0 µs"),
        "{}",
        finding.summary[0]
    );
}

#[test]
fn regions_are_none_where_each_takes_long_or_all_compute_or_something_else_is_waited_for() {
    // Each round takes half a millisecond: that it computes little has another cause.
    assert!(handing(50_000, FINE).is_none());
    // All CPUs compute nearly all the time.
    assert!(handing(2_000, "A  00000000j0  holds w 0..1\nB  w11111111w  holds j 8..9\n").is_none());
    // It waits for something else most of the time.
    assert!(handing(2_000, "A  0jkkkkkkkk  holds w 0..1\nB  w1wwwwwwww  holds j 1..2\n").is_none());
}
