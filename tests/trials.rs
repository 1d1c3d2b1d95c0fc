//! `holdup try` on a real program: an OpenMP program with more threads than CPUs, which wait awake for those that have none.

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, holdup, stderr, stdout};

const PROGRAM: &str = r#"
#include <omp.h>
#include <stdio.h>

static double cells[4096];

int main(void)
{
	int steps = 0;

	while (steps < 1000) {
#pragma omp parallel for schedule(static)
		for (int i = 0; i < 4096; i++)
			cells[i] = cells[i] * 0.5 + i + steps;
		steps++;
	}
	printf("%d steps on %d threads, %g\n", steps, omp_get_max_threads(), cells[17]);
	return 0;
}
"#;

/// Builds the program. `None` if that fails, with a message.
fn build(scratch: &Scratch) -> Option<PathBuf> {
    let (source, program) = (scratch.join("steps.c"), scratch.join("steps"));
    std::fs::write(&source, PROGRAM).expect("a file");
    let built = Command::new("gcc").args(["-O2", "-g", "-fopenmp", "-o"]).arg(&program).arg(&source).output();
    if !built.is_ok_and(|output| output.status.success()) {
        println!("skipped: gcc builds no OpenMP program here");
        return None;
    }
    Some(program)
}

/// holdup where the program has three threads for each CPU.
fn oversubscribed(scratch: &Scratch) -> Command {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let mut command = holdup(scratch);
    command.env("OMP_NUM_THREADS", (3 * cpus).to_string()).env("OMP_WAIT_POLICY", "active");
    command
}

/// The result of each trial: its knob and its verdict.
fn verdicts(value: &Value) -> Vec<(String, String)> {
    let of = |row: &Value| {
        let setting = &value["settings"][row["setting"].as_u64().expect("a row") as usize];
        assert!(row["tries"]["rule"].is_string(), "{row}");
        let knob = setting["knobs"][0]["name"].as_str().expect("a knob").to_owned();
        // A knob that this user may not turn was not tried.
        (setting["runs"] != 0)
            .then(|| (knob, row["change"]["verdict"].as_str().expect("a verdict").to_owned()))
    };
    value["sweep"]["rows"].as_array().expect("rows").iter().filter_map(of).collect()
}

#[test]
fn advice_that_helps_is_confirmed_and_advice_that_does_not_is_refuted() {
    let scratch = Scratch::new("trials");
    if !bpf_or_skip(&scratch) || !have("gcc") {
        return;
    }
    let Some(program) = build(&scratch) else { return };
    let recording = scratch.join("steps.holdup");
    let output = oversubscribed(&scratch)
        .args(["run", "--quiet", "-o"])
        .args([&recording, &PathBuf::from("--"), &program])
        .output()
        .expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let tried = |more: &[&str]| -> Output {
        let mut command = oversubscribed(&scratch);
        command
            .arg("try")
            .arg(&recording)
            .args(["--record", "none", "--warm-up", "0", "--seed", "3"])
            .args(more);
        command.output().expect("holdup starts")
    };
    // By the number of threads used, where fewer is better: with one thread per CPU there are fewer,
    // independent of the machine's load. Sleeping threads or another policy do not change the number.
    let set = scratch.join("x.holdup-set");
    let words = ["-n", "2", "--progress", "on ([0-9]+) threads", "--progress-is", "cost", "--json", "-o"];
    let output = tried(&[&words[..], &[set.to_str().expect("a path")]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = verdicts(&value);
    for (knob, verdict) in &found {
        let wanted = if knob == "OMP_NUM_THREADS" { "faster" } else { "no-difference" };
        assert_eq!(verdict, wanted, "{knob}: {found:?}");
    }
    let has = |knob: &str| found.iter().any(|(tried, _)| tried == knob);
    assert!(has("OMP_NUM_THREADS") && has("OMP_WAIT_POLICY"), "{found:?}");
    let best = value["sweep"]["best"].as_u64().expect("the best") as usize;
    assert_eq!(value["settings"][best]["knobs"][0]["name"], "OMP_NUM_THREADS");
    let text = holdup(&scratch).arg("report").arg(&set).output().expect("holdup starts");
    let text = stdout(&text).replace("\n  ", " ");
    for said in ["OMP_WAIT_POLICY=passive: spin-wait (OpenMP", "): refuted: no difference", "): confirmed"] {
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn a_recording_without_trials_is_reported() {
    let scratch = Scratch::new("nothing-to-try");
    let recording = scratch.join("short.holdup");
    // Only samples, without waits, as if from a run of `true`.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/imports/samples.perf");
    let output = holdup(&scratch).args(["import", "--quiet", file, "-o"]).arg(&recording).output();
    let output = output.expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let manifest = recording.join("manifest.json");
    let mut value: Value =
        serde_json::from_slice(&std::fs::read(&manifest).expect("a manifest")).expect("JSON");
    (value["mode"], value["command"]) = ("run".into(), vec!["true"].into());
    std::fs::write(&manifest, value.to_string()).expect("a manifest");
    let tried = |more: &[&str]| {
        holdup(&scratch).arg("try").arg(&recording).args(more).output().expect("holdup starts")
    };
    let output = tried(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).replace("\n  ", " ").contains("without a change of code"), "{}", stdout(&output));
    let value: Value = serde_json::from_slice(&tried(&["--json"]).stdout).expect("JSON");
    assert_eq!((&value["sweep"]["rows"], &value["set"]), (&Value::Array(Vec::new()), &Value::Null));
}
