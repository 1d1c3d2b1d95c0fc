//! Sleeps of code whose awaited event a descriptor knows.

use holdup_findings::{Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

/// Two connections of which one works and the other sleeps in `stack` until it is its turn.
fn finding_of(rule: &str, stack: &str, lanes: &str) -> Finding {
    let (_, trace) =
        trace_of_lanes(&format!("@cpus 2\n@tick 1000000\n@s sleep\n@stack s {stack}\n@repeat 30\n{lanes}"));
    let analysis = analyse(&trace);
    let found = analysis.findings.iter().find(|finding| finding.rule == rule).cloned();
    found.unwrap_or_else(|| panic!("{:#?}", analysis.findings))
}

const BUSY: &str = "main;work;sqlite3_step;sqlite3VdbeExec;sqlite3InvokeBusyHandler;usleep";

#[test]
fn a_sleep_for_a_database_lock_is_reported() {
    let finding = finding_of("oversleep", BUSY, "A  00ssss\n");
    let said = finding.summary.join(" ");
    assert!(said.contains("SQLite waits for another connection's lock"), "{said}");
    assert!(finding.advice[0].contains("journal_mode = WAL"), "{finding:#?}");
    // Looking again is what poll-loop sees.
    let finding = finding_of("poll-loop", BUSY, "A  0sssssssss0sssssssss\n");
    assert!(
        finding.summary.join(" ").contains("SQLite waits") && finding.advice[0].contains("WAL"),
        "{finding:#?}"
    );
}

/// For a library without names of inner functions, the confidence is lower.
#[test]
fn a_sleep_inside_a_statement_is_reported_without_its_reason() {
    let finding = finding_of("oversleep", "main;work;sqlite3_step;usleep", "A  00ssss\n");
    let said = finding.summary.join(" ");
    assert!(said.contains("a statement of SQLite sleeps") && !said.contains("SQLite waits for"), "{said}");
}

/// A program that has SQLite and sleeps elsewhere.
#[test]
fn a_sleep_outside_the_database_is_not_attributed_to_it() {
    let finding = finding_of("oversleep", "main;work;usleep", "A  00ssss\n");
    let said = finding.summary.join(" ");
    assert!(!said.contains("SQLite") && !finding.advice[0].contains("WAL"), "{finding:#?}");
    assert!(finding.confidence <= Confidence::Medium, "{finding:#?}");
}
