//! Threads that wait for a lock while all CPUs are busy, and hardly need one, on pictures.

use holdup_findings::{Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

/// B and C use both CPUs, and B holds the lock. A waits for the lock in `function`, and continues alone.
fn found(function: &str, rest: &str) -> Option<Finding> {
    let text = format!(
        "@cpus 2\n@s sleep\n@tick 10000000\n@stack m __libc_start_main_impl;main;board_apply;{function}\n\
         A  0{}0{}\n\
         B  .{}1  holds m 1..61\n\
         C  1{}\n",
        "m".repeat(60),
        rest.repeat(4),
        "0".repeat(60),
        "1".repeat(60),
    );
    let (_, trace) = trace_of_lanes(&text);
    analyse(&trace).findings.into_iter().find(|finding| finding.rule == "lock-contention")
}

#[test]
fn a_low_cpu_waiter_could_overlap_with_busy_cpus() {
    let finding = found("lock_it", "sssssssss0").expect("it");
    assert!(
        finding.summary.iter().any(|line| line.starts_with("The thread that waits longest uses little CPU")),
        "{finding:#?}"
    );
    assert!(finding.confidence == Confidence::Medium && finding.gain.high > 0.3, "{finding:#?}");
    assert!(!finding.advice[0].contains("writers"), "{finding:#?}");
}

#[test]
fn a_cpu_bound_waiter_gains_nothing() {
    assert_eq!(found("lock_it", "s000000000").map(|finding| finding.gain), None);
}

#[test]
fn a_writer_behind_readers_gets_advice_on_writer_preference() {
    let finding = found("pthread_rwlock_wrlock", "sssssssss0").expect("it");
    assert!(finding.advice[0].starts_with("Prefer writers"), "{finding:#?}");
    assert!(finding.summary.iter().any(|line| line.contains("until no reader holds")), "{finding:#?}");
}

#[test]
fn a_waiter_with_idle_cpus_is_reported_without_overlap() {
    // As threads that accept connections in turn: one waits for them, and has the lock, and the others wait for that one.
    let text = format!(
        "@cpus 2\n@n socket\n@tick 10000000\n\
         A  0{}00\n\
         B  .1{}1  holds m 1..62\n",
        "m".repeat(62),
        "n".repeat(60),
    );
    let (_, trace) = trace_of_lanes(&text);
    let findings = analyse(&trace).findings;
    let said = findings.iter().flat_map(|finding| &finding.summary);
    assert!(
        !said.into_iter().any(|line| line.starts_with("The thread that waits longest uses little CPU")),
        "{findings:#?}"
    );
}
