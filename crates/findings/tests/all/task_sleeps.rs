//! Tasks that sleep. Their thread waits for the first timer, and only stacks show whose timer it is.

use holdup_findings::analyse;
use holdup_testkit::check::trace_of_lanes;

/// A sleeps 8 of 10 ticks, five times a period, and is sampled at these ticks on these stacks. Returns the
/// summary and the advice.
fn oversleep(tick_ns: u64, stacks: &[(&str, &str)]) -> (String, String) {
    let samples: String =
        stacks.iter().map(|(ticks, stack)| format!("@samples A {ticks} user {stack}\n")).collect();
    let lane = "ssssssss00".repeat(5);
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 2\n@tick {tick_ns}\n@s sleep\n@timeout s 8\n@repeat 4\nA  {lane}\n{samples}"
    ));
    let analysis = analyse(&trace);
    let finding = analysis.findings.iter().find(|finding| finding.rule == "oversleep");
    let finding = finding.unwrap_or_else(|| panic!("{:#?}", analysis.findings));
    (finding.summary.join(" "), finding.advice.join(" "))
}

const TAKE: &str = "main;app::Bucket::take;tokio::time::sleep::Sleep::poll;now";

#[test]
fn the_function_that_requested_the_sleep_is_named() {
    let (said, advice) = oversleep(120_000, &[("8..10", TAKE), ("18..20", "main;app::serve")]);
    assert!(said.contains("mostly in app::Bucket::take (8 of the 8 stacks"), "{said}");
    assert!(advice.contains("timer ticks every 1.00 ms"), "{advice}");
}

#[test]
fn a_long_sleep_is_not_the_clocks() {
    let (said, advice) = oversleep(1_000_000, &[("8..10", TAKE)]);
    assert!(said.contains("mostly in app::Bucket::take"), "{said}");
    assert!(!advice.contains("timer ticks"), "{advice}");
}

#[test]
fn a_timeout_of_another_wait_is_no_sleep() {
    let beside =
        "main;app::ask;tokio::time::timeout::Timeout<T>::poll;tokio::time::sleep::Sleep::poll_elapsed";
    let (said, _) = oversleep(120_000, &[("8..10", beside)]);
    assert!(!said.contains("The sleepers are tasks"), "{said}");
    // A few samples may belong to any thread.
    let (said, _) = oversleep(120_000, &[("8..9", TAKE), ("18..20", "main;app::serve")]);
    assert!(!said.contains("The sleepers are tasks"), "{said}");
}
