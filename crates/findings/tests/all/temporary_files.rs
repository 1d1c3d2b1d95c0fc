//! Files that are made and removed again for each item, and what only looks so.

use holdup_findings::finding::{Confidence, Finding};
use holdup_findings::{Analysis, analyse};
use holdup_testkit::check::{check_lanes, trace_of_lanes};

const RULE: &str = "temporary-file-per-item";

/// `O_RDWR | O_CREAT | O_EXCL`, as of mkstemp, and `O_WRONLY | O_CREAT | O_TRUNC`.
const MAKES: u32 = 0o302;
const WRITES: u32 = 0o1101;

/// Two threads that spend 6 of 10 ticks in the calls `open` and `remove`, with the calls that a window counted.
fn lanes(counted: &str, open: u32, remove: u32) -> String {
    format!(
        "@cpus 2\n@repeat 50\n{counted}\
         @samples A 0..3 {open} main;resize;mkstemp\n@samples A 3..6 {remove} main;resize;unlink\n\
         @samples A 6..10 user main;resize;scale\n\
         @samples B 0..3 {open} main;resize;mkstemp\n@samples B 3..6 {remove} main;resize;unlink\n\
         @samples B 6..10 user main;resize;scale\n\
         A  0000000000\nB  1111111111\n"
    )
}

fn found(analysis: &Analysis) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.rule == RULE)
}

#[test]
fn a_file_for_each_item_is_found_with_what_the_calls_cost() {
    let counted = format!(
        "@io 0..100 A 257:{MAKES} 300 0 0\n@io 0..100 A 87:0 300 0 0\n\
         @io 0..100 B 257:{MAKES} 200 0 0\n@io 0..100 B 87:0 200 0 0\n"
    );
    let analysis = check_lanes(&lanes(&counted, 257, 87));
    let finding = found(&analysis).expect("a finding");
    assert_eq!(finding.confidence, Confidence::High, "{finding:#?}");
    let summary = finding.summary.join(" ");
    assert!(
        summary.contains("500 made, 500 removed") && summary.contains("5.00 k files per second"),
        "{summary}"
    );
    assert!(
        summary.contains("openat, unlink") && summary.contains("A (") && summary.contains("B ("),
        "{summary}"
    );
    // 60 % of the running time is in the calls (600 samples). One eighth of them may stay.
    assert!((0.4..0.53).contains(&finding.gain.low), "{:?}", finding.gain);
    assert!((0.6..0.75).contains(&finding.gain.high), "{:?}", finding.gain);
    assert!(
        analysis.findings.iter().all(|finding| finding.rule != "syscall-storm"),
        "one cause is told once"
    );
}

/// Threads that share a directory wait for each other in the calls.
#[test]
fn waits_in_these_calls_go_with_the_files() {
    let analysis = check_lanes(&format!(
        "@cpus 2\n@u disk 87\n@repeat 50\n\
         @io 0..100 A 257:{MAKES} 300 0 0\n@io 0..100 A 87:0 300 0 0\n\
         @io 0..100 B 257:{MAKES} 200 0 0\n@io 0..100 B 87:0 200 0 0\n\
         @samples A 0..4 user main;scale\n@samples B 4..8 user main;scale\n\
         A  0000uuuu\nB  uuuu1111\n"
    ));
    let finding = found(&analysis).expect("a finding");
    assert!(finding.summary.join(" ").contains("blocked in them for 400 ms"), "{finding:#?}");
    assert!(finding.gain.low > 0.3 && finding.gain.high <= 0.55, "{:?}", finding.gain);
    assert!(finding.evidence[0].note.contains("unlink"), "{finding:#?}");
}

#[test]
fn files_that_stay_or_were_there_before_are_not_temporary() {
    let silent = |counted: &str, open: u32, remove: u32| {
        check_lanes(&format!("@silent {RULE}\n{}", lanes(counted, open, remove)));
    };
    // Written under another name and renamed: 82 is rename.
    silent(&format!("@io 0..100 A 257:{MAKES} 500 0 0\n@io 0..100 A 82:0 500 0 0\n"), 257, 82);
    // Read and removed, as from a spool.
    silent("@io 0..100 A 257:0 500 0 0\n@io 0..100 A 87:0 500 0 0\n", 257, 87);
    // Most are kept.
    silent(&format!("@io 0..100 A 257:{WRITES} 500 0 0\n@io 0..100 A 87:0 100 0 0\n"), 257, 87);
    // A tree of directories is removed: 512 is AT_REMOVEDIR.
    silent(&format!("@io 0..100 A 257:{MAKES} 500 0 0\n@io 0..100 A 263:512 500 0 0\n"), 257, 263);
    // A few.
    silent(&format!("@io 0..100 A 257:{MAKES} 19 0 0\n@io 0..100 A 87:0 19 0 0\n"), 257, 87);
}

/// The calls take 2 % of the time.
#[test]
fn files_that_cost_little_are_no_finding() {
    let counted = format!("@io 0..100 A 257:{MAKES} 500 0 0\n@io 0..100 A 87:0 500 0 0\n");
    check_lanes(&format!(
        "@silent {RULE}\n@cpus 2\n@repeat 5\n{counted}\
         @samples A 0..1 257 main;resize;mkstemp\n@samples A 1..2 87 main;resize;unlink\n\
         @samples A 2..100 user main;resize;scale\nA  {}\n",
        "0".repeat(100)
    ));
}

#[test]
fn without_counts_the_rule_is_skipped() {
    let (_, trace) = trace_of_lanes(&lanes("", 257, 87));
    let analysis = analyse(&trace);
    let skipped = analysis.skipped.iter().find(|(rule, _)| *rule == RULE).expect("skipped");
    assert!(skipped.1.contains("not counted"), "{}", skipped.1);
}
