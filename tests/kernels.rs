//! What must come out the same on every kernel: ledgers of standard loads, and the first finding on programs with a
//! known cause. `./dev vm` runs these tests on the kernels of `vm/kernels`. Loads are bounded by counts, not by time.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, class_sum, have, record_json};

/// Findings about the machine, not about the program.
const MACHINE: &[&str] = &["noisy-neighbour", "cpu-stolen"];

/// One load at a time: on two CPUs the loads of other tests are causes themselves.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value of a `case.toml`.
fn case_value(folder: &Path, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("case.toml")).expect("case.toml");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Builds the slow program of a case with the command in its `case.toml`.
fn build_case(scratch: &Scratch, folder: &Path) -> PathBuf {
    let program = scratch.join("program");
    let build = case_value(folder, "build_slow").expect("build_slow");
    let mut shell = Command::new("sh");
    shell.args(["-c", &build]).current_dir(folder).env("OUT", &program);
    let built = shell.status().expect("sh starts");
    assert!(built.success(), "{build}");
    program
}

/// Recordings of one program until its cause comes first: other programs on the machine can come between in one.
const TRIES: usize = 3;

/// Records the slow program of a case: its first finding about the program is the one that the case names. `$DIR` at the start of an
/// argument is an empty folder.
fn first_finding_is_the_cause(case: &str, arguments: &[&str]) {
    let _turn = one_at_a_time();
    let scratch = Scratch::new(&format!("kernels-{case}"));
    if !bpf_or_skip(&scratch) || !have("gcc") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(case);
    let program = build_case(&scratch, &folder);
    let folder_of_program = scratch.0.to_str().expect("utf-8");
    let arguments: Vec<String> =
        arguments.iter().map(|argument| argument.replace("$DIR", folder_of_program)).collect();
    let mut words = vec![program.to_str().expect("utf-8")];
    words.extend(arguments.iter().map(String::as_str));
    let rule = case_value(&folder, "rule").expect("rule");
    let subject = case_value(&folder, "subject").unwrap_or_default();
    let mut others = Vec::new();
    for _ in 0..TRIES {
        let first = first_finding(&scratch, &words, case);
        println!("first finding of {case}: {} | {}", first["rule"], first["subject"]);
        if first["rule"] == rule && first["subject"].as_str().is_some_and(|named| named.contains(&subject)) {
            return;
        }
        others.push(first);
    }
    panic!("{case}: {rule} of `{subject}` came first in none of {TRIES} recordings: {others:#?}");
}

/// The first finding about the program of a new recording, whose ledger must add up.
fn first_finding(scratch: &Scratch, words: &[&str], case: &str) -> Value {
    let report = record_json(scratch, &["--backend", "bpf"], words);
    adds_up(&report, case);
    let findings = report["findings"].as_array().expect("findings");
    let of_program = |finding: &&Value| !MACHINE.iter().any(|rule| finding["rule"] == *rule);
    findings.iter().find(of_program).unwrap_or_else(|| panic!("{case}: no finding in {report}")).clone()
}

/// The ledger sums to the threads' lives, each thread's classes to its own.
fn adds_up(report: &Value, what: &str) {
    let total = report["ledger"]["total_ns"].as_u64().expect("total");
    assert!(total > 0, "{what}: an empty ledger");
    assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{what}: the ledger's classes");
    for thread in report["threads"].as_array().expect("threads") {
        let life = thread["end_ns"].as_u64().expect("end") - thread["start_ns"].as_u64().expect("start");
        assert_eq!(class_sum(&thread["classes"]), life, "{what}: {thread}");
    }
}

#[test]
fn the_hot_lock_comes_first() {
    first_finding_is_the_cause("hot-lock", &["4", "3"]);
}

#[test]
fn the_uneven_loop_comes_first() {
    first_finding_is_the_cause("uneven-loop", &["20"]);
}

#[test]
fn the_preempted_holder_comes_first() {
    first_finding_is_the_cause("preempted-holder", &["2"]);
}

#[test]
fn the_sync_per_request_comes_first() {
    first_finding_is_the_cause("log-fsync", &["$DIR/log", "2", "2000"]);
}

/// The rings hold every record of these loads, so that nothing is lost however late the recorder runs.
#[test]
fn standard_loads_lose_nothing() {
    let _turn = one_at_a_time();
    let scratch = Scratch::new("kernels-loads");
    if !bpf_or_skip(&scratch) || !have("stress-ng") {
        return;
    }
    let folder = scratch.0.to_str().expect("utf-8");
    for (stressor, count) in
        [("fork", "150"), ("switch", "3000"), ("pipe", "3000"), ("mutex", "3000"), ("hdd", "60")]
    {
        let (workers, counts) = (format!("--{stressor}"), format!("--{stressor}-ops"));
        let mut words = vec!["stress-ng", &workers, "2", &counts, count, "--temp-path", folder, "-q"];
        if stressor == "hdd" {
            words.extend(["--hdd-bytes", "8m", "--hdd-opts", "fsync"]);
        }
        let report = record_json(&scratch, &["--buffer", "256", "--backend", "bpf"], &words);
        adds_up(&report, stressor);
        let unknown = report["ledger"]["classes"]["unknown"].as_u64().unwrap_or(0);
        println!("{stressor}: lost {}, unknown {unknown} ns", report["loss"]["events"]);
        assert_eq!(report["loss"]["events"], 0, "{stressor}: {}", report["loss"]);
    }
}
