//! Experiments with occasional failures: runs that fail, print nothing, hang, leave processes behind, or are
//! interrupted. Checks the messages, and that finished runs are kept.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Scratch, holdup, stderr, stdout};

/// Without recordings: quick, and the same for every user.
const QUICK: [&str; 6] = ["--warm-up", "0", "--record", "none", "--seed", "7"];

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    holdup(scratch).args(words).output().expect("holdup starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A command that does `then` with `n`, how often it was run before: 0, 1, 2, ...
fn counting(scratch: &Scratch, then: &str) -> String {
    let file = scratch.join("count");
    let file = file.display();
    format!("n=$(cat {file} 2>/dev/null || echo 0); echo $((n+1)) > {file}; {then}")
}

fn words<'a>(a: &'a str, b: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["diff", "--a", a, "--b", b], &QUICK[..], more].concat()
}

/// The text of a report without its line breaks.
fn flat(output: &Output) -> String {
    stdout(output).replace("\n  ", " ")
}

fn runs_in(set: &std::path::Path) -> usize {
    let text = std::fs::read(set.join("set.json")).unwrap_or_default();
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    value["experiment"]["runs"].as_array().map_or(0, Vec::len)
}

#[test]
fn failed_runs_do_not_count() {
    let scratch = Scratch::new("some-fail");
    let b = counting(&scratch, "echo odd >&2; test $((n % 2)) = 0");
    let value = json(&run(&scratch, &words("true", &b, &["-n", "6", "--json"])));
    let failed = value["runs"].as_array().unwrap().iter().filter(|run| run["failure"] != "").count();
    assert_eq!((failed, &value["diff"]["change"]["runs"]), (3, &3.into()), "{}", value["runs"]);
    assert_eq!((&value["settings"][0]["runs"], &value["settings"][1]["runs"]), (&6.into(), &3.into()));
    let set = value["set"].as_str().unwrap();
    let text = flat(&run(&scratch, &["report", set]));
    assert!(text.contains("3 runs of 'B' failed and do not count") && text.contains("odd"), "{text}");
}

#[test]
fn runs_without_progress_do_not_count() {
    let scratch = Scratch::new("silent");
    let b = counting(&scratch, "if test $n != 1; then echo solved 5; else echo nothing; fi");
    let progress = ["-n", "4", "--progress", "solved ([0-9]+)", "--progress-is", "cost"];
    let output = run(&scratch, &words("echo solved 5", &b, &progress));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = flat(&output);
    assert!(text.contains("1 run of 'B' failed") && text.contains("nothing that matches"), "{text}");
    assert!(text.contains("3 pairs"), "{text}");
    // No number in any run: there is no result, and no empty set is left behind.
    let output = run(&scratch, &words("true", "true", &progress));
    assert!(!output.status.success(), "{}", stdout(&output));
    assert!(stderr(&output).contains("solved ([0-9]+)"), "{}", stderr(&output));
}

#[test]
fn a_run_that_hangs_is_ended() {
    let scratch = Scratch::new("hangs");
    let output = run(&scratch, &words("true", "sleep 600", &["-n", "5", "--timeout", "200ms"]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let text = flat(&output);
    // After three it is left out.
    assert!(text.contains("3 runs of 'B' failed") && text.contains("longer than --timeout"), "{text}");
    assert!(text.contains("nothing can be compared"), "{text}");
}

#[test]
fn noisy_runs_report_the_needed_number_of_runs() {
    let scratch = Scratch::new("scatter");
    let b = counting(&scratch, "if test $((n % 2)) = 0; then echo took 1; else echo took 400; fi");
    let progress = ["--progress", "took ([0-9]+)", "--progress-is", "cost"];
    let output = run(&scratch, &words("echo took 20", &b, &progress));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = flat(&output);
    assert!(text.contains("more than the 1,000 that are made by default"), "{text}");
    assert!(
        text.contains("The 10 that were made would find a change of") && text.contains("-n sets"),
        "{text}"
    );
    let _ = std::fs::remove_file(scratch.join("count"));
    let value = json(&run(&scratch, &words("echo took 20", &b, &[&progress[..], &["--json"]].concat())));
    let change = &value["diff"]["change"];
    assert_eq!((&change["verdict"], &change["runs"]), (&"cannot-tell".into(), &10.into()), "{change}");
    assert_eq!(change["beyond_reach"], true);
    assert!(
        change["runs_wanted"].as_u64().unwrap() > 1000 && change["finds"].as_f64().unwrap() > 0.03,
        "{change}"
    );
    // Runs that do not scatter are within reach.
    let value =
        json(&run(&scratch, &words("echo took 20", "echo took 20", &[&progress[..], &["--json"]].concat())));
    let change = &value["diff"]["change"];
    assert_eq!((&change["verdict"], &change["beyond_reach"]), (&"no-difference".into(), &false.into()));
}

#[test]
fn the_condition_is_the_exit_status() {
    let scratch = Scratch::new("condition");
    let status = |b: &str, condition: &str| {
        let more =
            ["-n", "4", "--fail-if", condition, "--progress", "took ([0-9]+)", "--progress-is", "cost"];
        let output = run(&scratch, &words("echo took 100", b, &more));
        assert!(stdout(&output).contains("B "), "{}", stderr(&output));
        output.status.code()
    };
    assert_eq!(status("echo took 110", "slower>3%"), Some(1));
    assert_eq!(status("echo took 110", "slower>20%"), Some(0));
    assert_eq!(status("echo took 110", "faster"), Some(0));
    assert_eq!(status("echo took 80", "faster>10%"), Some(1));
    assert_eq!(status("echo took 80", "different"), Some(1));
    assert_eq!(status("echo took 100", "different"), Some(0));
}

#[test]
fn no_condition_is_judged_where_nothing_can_be_compared() {
    let scratch = Scratch::new("no-pairs");
    for b in ["false", "/nowhere/program"] {
        for more in [&["-n", "2", "--fail-if", "slower>3%"][..], &["-n", "2"]] {
            let output = run(&scratch, &words("true", b, more));
            assert_eq!(output.status.code(), Some(2), "{b}: {}", stderr(&output));
            let text = flat(&output);
            assert!(text.contains("nothing can be compared") && !text.contains("B against A"), "{text}");
        }
    }
    // One run per command does not show the variation between runs.
    let output = run(&scratch, &words("true", "true", &["-n", "1", "--fail-if", "slower"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--fail-if needs several runs"), "{}", stderr(&output));
    for name in ["a.holdup", "b.holdup"] {
        assert!(
            run(&scratch, &["-q", "-o", scratch.join(name).to_str().unwrap(), "--", "true"]).status.success()
        );
    }
    let (a, b) = (scratch.join("a.holdup"), scratch.join("b.holdup"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let output = run(&scratch, &["diff", a, b, "--fail-if", "slower"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--fail-if needs several runs"), "{}", stderr(&output));
    assert!(run(&scratch, &["diff", a, b]).status.success());
}

#[test]
fn a_setting_without_a_baseline_has_its_own_figures() {
    let scratch = Scratch::new("no-baseline");
    let quick = [&["sweep", "--set", "FAILS=yes,no", "-n", "2"][..], &QUICK].concat();
    let output = run(&scratch, &[&quick[..], &["--", "sh", "-c", "sleep 0.01; test $FAILS = no"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let row = text.lines().find(|line| line.trim_start().starts_with("FAILS=no ")).expect("its row");
    assert!(!row.contains("0 ns") && !row.contains('%') && row.contains("ms   "), "{text}");
    assert!(text.contains("No setting can be compared"), "{text}");
    // If all runs fail, the message names the option that counts them nevertheless.
    let output = run(&scratch, &words("false", "false", &["-n", "2"]));
    assert!(stderr(&output).contains("--ignore-failure"), "{}", stderr(&output));
}

#[test]
fn a_set_continues_after_its_process_was_killed() {
    let scratch = Scratch::new("killed");
    let set = scratch.join("x.holdup-set");
    let path = set.to_str().unwrap();
    // Recorded, so that the run that was cut off leaves a part of a recording behind.
    let words = ["diff", "--a", "sleep 0.2", "--b", "sleep 0.2", "-n", "50", "--warm-up", "0", "-o", path];
    let mut child = holdup(&scratch).args(words).stdout(Stdio::null()).spawn().expect("holdup starts");
    while runs_in(&set) < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let next = |kept: usize| set.join(format!("run-{:03}.holdup", kept + 1));
    while !next(runs_in(&set)).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("our own child");
    assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
    let kept = runs_in(&set);
    assert!((2..100).contains(&kept), "{kept}");
    // The recorder of that run may go on for a while.
    std::fs::create_dir_all(next(kept)).expect("what it left");
    std::fs::write(set.join("took"), "1").expect("what it left");
    let rounds = (kept / 2 + 2).to_string();
    let value = json(&run(&scratch, &["diff", "--resume", path, "-n", &rounds, "--json"]));
    let runs = value["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * (kept / 2 + 2));
    assert!(runs.iter().all(|run| run["failure"] == ""), "{runs:?}");
    let mut recordings: Vec<&str> = runs.iter().map(|run| run["recording"].as_str().unwrap()).collect();
    recordings.dedup();
    assert_eq!(recordings.len(), runs.len());
    assert!(runs.iter().all(|run| run["wall_ns"].as_u64().unwrap() > 100_000_000), "{runs:?}");
}

#[test]
fn a_set_that_is_stopped_before_its_first_run_ends_is_not_kept() {
    let scratch = Scratch::new("stopped");
    let set = scratch.join("x.holdup-set");
    let begun = scratch.join("begun");
    let a = format!("sh -c 'touch {}; exec sleep 600'", begun.display());
    let words = words(&a, &a, &["-n", "2", "-o", set.to_str().unwrap()]);
    let child = holdup(&scratch)
        .args(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("holdup starts");
    while !begun.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    assert!(
        !output.status.success() && stderr(&output).contains("before the first run"),
        "{}",
        stderr(&output)
    );
    assert!(!set.exists(), "a set that says nothing was left behind");
}
