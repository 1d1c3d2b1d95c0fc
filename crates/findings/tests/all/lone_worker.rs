//! A thread whose work is the run's length while others wait for it, and what only looks so.

use holdup_findings::Analysis;
use holdup_findings::finding::{Confidence, Finding};
use holdup_testkit::check::check_lanes;

/// A store (S) that gets requests from B, in addition to the other lanes, and the functions in which it is
/// sampled.
fn asked(lanes: &str) -> Analysis {
    check_lanes(&format!("@cpus 2\n@repeat 40\n@q pipe\n@p multiplex\n@s sleep\n{lanes}"))
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == "lone-worker")
}

#[test]
fn a_server_that_is_always_busy_is_what_its_client_waits_for() {
    let analysis = asked(
        "@samples S 0..40 user main;serve;find;compare\n\
         S  00000000pp  holds q 7..8\n\
        \x20   ^^^^^^^^    lone-worker waiter=S cost=320\n\
         B  qqqqqqqq11  holds p 9..10\n",
    );
    let finding = &analysis.findings[0];
    assert_eq!((finding.rule, finding.confidence), ("lone-worker", Confidence::Medium), "{finding:#?}");
    assert!(finding.gain.low < 0.01 && (0.75..=0.85).contains(&finding.gain.high), "{:?}", finding.gain);
    assert!(finding.summary.iter().any(|line| line.starts_with("1 thread waited for it")), "{finding:#?}");
    assert_eq!(finding.advice.len(), 2, "a CPU is idle: {finding:#?}");
}

#[test]
fn a_lone_worker_is_named_by_function_and_caller() {
    let ticks = "0".repeat(80);
    let analysis = check_lanes(&format!(
        "@cpus 2\n@tick 1000000\n@q pipe\n@samples S 0..80 user main;serve;find;compare\n\
         S  {ticks}.  holds q 78..79\nB  {}11\n",
        "q".repeat(79)
    ));
    let finding = found(&analysis).expect("told");
    let named = |line: &String| line.contains("is in compare, called by find");
    assert!(finding.summary.iter().any(named), "{finding:#?}");
}

/// The upper bound is its work in that function, and the part of the rest that idle CPUs could do. Not all of
/// its work goes.
#[test]
fn what_it_does_elsewhere_stays() {
    let high = |in_compare: u64| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@tick 1000000\n@q pipe\n@samples S 0..{in_compare} user main;serve;find;compare\n\
             @samples S {in_compare}..80 user main;serve;answer\n\
             S  {}.  holds q 78..79\nB  {}11\n",
            "0".repeat(80),
            "q".repeat(79)
        ));
        let finding = found(&analysis).expect("told");
        assert!(finding.advice[0].contains("less in compare"), "{finding:#?}");
        finding.gain.high
    };
    // Its part of the samples with its error, and half of the others, which the other CPU could do.
    assert!((0.85..0.95).contains(&high(60)), "{}", high(60));
    assert!((0.75..0.85).contains(&high(44)), "{}", high(44));
}

#[test]
fn waiting_with_timeouts_is_still_waiting() {
    let (looks, works) = ("m".repeat(19) + "1", "0".repeat(54));
    let analysis = asked(&format!(
        "@m park\n@timeout m 19\n\
         S  {works}pp  holds m 52..53\n\
         B  {looks}{looks}{}111  holds p 55..56\n",
        "m".repeat(13)
    ));
    assert!(found(&analysis).is_some(), "{:#?}", analysis.findings);
}

#[test]
fn a_computing_thread_without_waiters_is_no_lone_worker() {
    let alone = asked("@silent lone-worker\nS  0000000000\nB  ssssssssss\n");
    assert!(found(&alone).is_none());
    // A parent waits for its child whatever that does.
    asked("@silent lone-worker\n@c child\n@child S\nB  1ccccccccc\nS  .000000000  holds c 9..10\n");
}

#[test]
fn pipeline_stages_in_parallel_are_no_lone_workers() {
    asked("@silent lone-worker\nS  00000000pp  holds q 7..8\nB  1111111q11  holds p 9..10\n");
}

#[test]
fn what_is_busy_for_a_part_of_the_run_only_is_not_its_length() {
    asked("@silent lone-worker\nS  0000pppppp  holds q 3..4\nB  qqqq11ssss  holds p 9..10\n");
}

#[test]
fn a_more_specific_rule_replaces_lone_worker() {
    let analysis = asked(
        "@silent lone-worker\n@m lock\n@j join\n\
         S  000000000j  holds m 9..10\n\
         B  mmmmmmmmm1  holds j 9..10\n",
    );
    assert!(analysis.findings.iter().any(|finding| finding.rule == "lock-contention"), "{analysis:#?}");
}

/// One thread computes all, and the runtime's workers have nothing to do: worth a word, if there are such.
#[test]
fn a_runtimes_workers_that_have_nothing_to_do_are_a_hint() {
    let hint = |place: &str| {
        let analysis = check_lanes(&format!(
            "@cpus 2\n@repeat 40\n@c park\n@stack c {place}\n@samples A 0..20 user main;fit\n\
             A  00000000000000000000  holds c 18..19\nB  ccccccccccccccccccc1\n"
        ));
        found(&analysis).map(|finding| (finding.confidence, finding.summary[1].clone()))
    };
    let (sure, said) =
        hint("runtime.mcall;runtime.schedule;runtime.findRunnable;runtime.stopm").expect("told");
    assert!(sure == Confidence::Low && said.starts_with("The runtime had 1 worker idle"), "{said}");
    assert_eq!(hint("start_thread;pool_wait"), None);
}
