//! `holdup attach`: whom a recording of a running process takes in.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use support::{Scratch, bpf_or_skip, holdup, report_json, rungs, stderr};

/// A shell that waits for two children, one asleep and one at work; they end with the test.
struct Family {
    shell: Child,
    sleeper: u32,
    worker: u32,
}

impl Family {
    fn start() -> Family {
        let script = "sleep 1000 & echo $!; sh -c 'while :; do :; done' & echo $!; wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines().take(2);
        let pids: Vec<u32> = lines.map(|line| line.unwrap().trim().parse().unwrap()).collect();
        Family { shell, sleeper: pids[0], worker: pids[1] }
    }

    fn all(&self) -> BTreeSet<u64> {
        [self.shell.id(), self.sleeper, self.worker].map(u64::from).into()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let pids = [self.sleeper, self.worker].map(|pid| pid.to_string());
        let _ = Command::new("kill").arg("-9").args(pids).status();
        let _ = self.shell.wait();
    }
}

fn attach(scratch: &Scratch, pid: u32, options: &[&str]) -> serde_json::Value {
    let recording = scratch.join("t.holdup");
    let _ = std::fs::remove_dir_all(&recording);
    let mut command = holdup(scratch);
    command.args(["attach", &pid.to_string(), "--for", "500ms", "--quiet", "-o"]).arg(&recording);
    let output = command.args(options).output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    report_json(scratch, &recording)
}

fn pids(report: &serde_json::Value) -> BTreeSet<u64> {
    let threads = report["threads"].as_array().expect("threads");
    threads.iter().filter_map(|thread| thread["pid"].as_u64()).collect()
}

#[test]
fn what_a_process_has_started_already_belongs_to_it() {
    let scratch = Scratch::new("attach");
    let family = Family::start();
    for rung in rungs(&scratch) {
        let report = attach(&scratch, family.shell.id(), &["--rung", rung]);
        assert_eq!(pids(&report), family.all(), "{rung}");
        let alone = attach(&scratch, family.shell.id(), &["--rung", rung, "--only"]);
        assert_eq!(pids(&alone), BTreeSet::from([u64::from(family.shell.id())]), "{rung} --only");
    }
}

#[test]
fn a_child_that_slept_already_is_described_like_the_others() {
    let scratch = Scratch::new("attach-blocked");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let family = Family::start();
    let report = attach(&scratch, family.shell.id(), &["--stacks", "all"]);
    let threads = report["threads"].as_array().unwrap();
    let sleeper = threads.iter().find(|thread| thread["pid"] == family.sleeper).expect("the sleeper");
    assert_eq!(sleeper["classes"]["sleep"], report["wall_ns"], "{sleeper}");
    let blocked = &report["stacks"]["completeness"]["blocked"];
    assert!(blocked["stacks"].as_u64() >= Some(2), "the shell's and the sleeper's: {blocked}");
    assert_eq!(blocked["complete"], blocked["stacks"], "{blocked}");
}

/// What is seen before the recording begins is no part of it, and no loss either.
#[test]
fn a_recording_of_one_that_sleeps_all_the_time_contradicts_itself_nowhere() {
    let scratch = Scratch::new("attach-sleeps");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let script = "import time\nwhile True: time.sleep(0.0002)";
    let mut program = Command::new("python3").args(["-c", script]).spawn().expect("python3 starts");
    let report = attach(&scratch, program.id(), &[]);
    let _ = program.kill();
    let _ = program.wait();
    let torn = report["loss"]["by_source"].as_object().unwrap();
    let tables =
        ["slices", "waits", "wakeups", "samples", "steals", "deadlines", "spans", "marks", "counters"];
    assert!(tables.iter().all(|table| !torn.contains_key(*table)), "{torn:?}");
}
