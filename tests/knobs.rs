//! Each knob of `sweep` has its effect: the program checks it itself, and prints the result.

mod support;

use std::process::Command;

use serde_json::Value;
use support::{Scratch, have, holdup, is_root, stderr, stdout};

/// The match of `place ([0-9]+)` in the program's output for each value of a knob.
struct Case {
    set: &'static str,
    script: &'static str,
    found: &'static [f64],
}

/// The program's policy and priority are fields of its `stat`. One is added, since a progress of 0 is
/// invalid.
const CASES: &[Case] = &[
    Case {
        set: "policy=other,batch,idle",
        script: "read -r all < /proc/self/stat; set -- $all; echo place $((${41} + 1))",
        found: &[1.0, 4.0, 6.0],
    },
    Case {
        set: "nice=11,17",
        script: "read -r all < /proc/self/stat; set -- $all; echo place ${19}",
        found: &[11.0, 17.0],
    },
    Case {
        set: "aslr=on,off",
        script: "read -r all < /proc/self/personality; echo place $(((0x$all >> 18 & 1) + 1))",
        found: &[1.0, 2.0],
    },
    Case {
        set: "thp=on,off",
        script: "while read -r key value; do case $key in THP_enabled:) echo place $((value + 1));; esac; done \
                 < /proc/self/status",
        found: &[2.0, 1.0],
    },
    // What the user has in the variable stays.
    Case {
        set: "minor-heap=1000,2000",
        script: "case $OCAMLRUNPARAM in v=0,s=*) echo place ${OCAMLRUNPARAM##*s=};; esac",
        found: &[1000.0, 2000.0],
    },
    Case {
        set: "heap=64m,128m",
        script: "case $JAVA_TOOL_OPTIONS in -Dkept=1\\ -Xmx*) heap=${JAVA_TOOL_OPTIONS##*-Xmx}; echo place ${heap%m};; esac",
        found: &[64.0, 128.0],
    },
    Case { set: "gogc=50,400", script: "echo place $GOGC", found: &[50.0, 400.0] },
    Case { set: "gomaxprocs=1,2", script: "echo place $GOMAXPROCS", found: &[1.0, 2.0] },
    Case { set: "arenas=1,8", script: "echo place $MALLOC_ARENA_MAX", found: &[1.0, 8.0] },
    Case { set: "env-size=10,300", script: "echo place ${#HOLDUP_ENV_SIZE}", found: &[10.0, 300.0] },
    Case { set: "ANY_OTHER=5,6", script: "echo place $ANY_OTHER", found: &[5.0, 6.0] },
];

/// Tested on their own below, or in `experiments.rs` (malloc-pad).
const ALONE: [&str; 4] = ["cpus", "pin", "aslr-seed", "malloc-pad"];

fn sweep(scratch: &Scratch, set: &str, rounds: &str, program: &[&str]) -> Value {
    let mut command = holdup(scratch);
    command.args(["sweep", "--json", "--record", "none", "--warm-up", "0", "-n", rounds, "--set", set]);
    command.args(["--progress", "place ([0-9]+)", "--progress-is", "rate", "--"]).args(program);
    command.env("OCAMLRUNPARAM", "v=0").env("JAVA_TOOL_OPTIONS", "-Dkept=1");
    let output = command.output().expect("holdup starts");
    assert!(output.status.success(), "{set}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn means(value: &Value) -> Vec<f64> {
    let settings = value["settings"].as_array().expect("settings");
    settings.iter().map(|one| one["mean"].as_f64().unwrap_or(f64::NAN)).collect()
}

#[test]
fn the_program_sees_what_each_knob_sets() {
    let scratch = Scratch::new("knobs");
    for case in CASES {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if case.set.starts_with("thp") && !status.contains("THP_enabled") {
            println!("skipped: this kernel does not tell whether huge pages are on");
            continue;
        }
        let value = sweep(&scratch, case.set, "1", &["sh", "-c", case.script]);
        assert_eq!(means(&value), case.found, "{}: {}", case.set, value["runs"]);
    }
}

#[test]
fn every_knob_is_tested() {
    let scratch = Scratch::new("all-knobs");
    let output = holdup(&scratch).args(["sweep", "--help"]).output().expect("holdup starts");
    let help = stdout(&output);
    let (_, knobs) = help.split_once("Knobs:\n").expect("the list");
    let names = knobs.lines().take_while(|line| !line.trim().is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let prefix = format!("{name}=");
        let is_tested = CASES.iter().any(|case| case.set.starts_with(&prefix)) || ALONE.contains(&name);
        assert!(is_tested, "{name}");
    }
}

#[test]
fn the_cpus_are_those_that_are_named() {
    let scratch = Scratch::new("cpus");
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    if cpus < 2 {
        println!("skipped: it takes two CPUs");
        return;
    }
    let value = sweep(&scratch, "cpus=0;0,1", "1", &["sh", "-c", "echo place $(nproc)"]);
    assert_eq!(means(&value), [1.0, 2.0]);
}

#[test]
fn the_number_of_workers_reaches_the_program_each_way() {
    let scratch = Scratch::new("workers");
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    for (options, script) in [
        (&["--workers", "1,2,5"][..], "echo place {}"),
        (&["--workers", "1,2,5", "--env", "THREADS"], "echo place $THREADS"),
        (&["--workers", "1,2", "--by-cpus"], "echo place $(nproc)"),
    ] {
        if options.contains(&"--by-cpus") && cpus < 2 {
            println!("skipped: it takes two CPUs");
            continue;
        }
        let mut command = holdup(&scratch);
        command.args(["scale", "--json", "--record", "none", "--warm-up", "0", "-n", "1"]).args(options);
        command.args(["--progress", "place ([0-9]+)", "--progress-is", "rate", "--", "sh", "-c", script]);
        let output = command.output().expect("holdup starts");
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let points = value["scale"]["points"].as_array().expect("points");
        assert!(
            points.iter().all(|point| point["workers"].as_f64() == point["value"].as_f64()),
            "{points:?}"
        );
        assert_eq!(points.len(), options[1].split(',').count());
    }
}

#[test]
fn threads_are_pinned_each_to_one_cpu() {
    let scratch = Scratch::new("pin");
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    if cpus < 2 || !have("python3") {
        println!("skipped: it takes two CPUs and python3");
        return;
    }
    // CPUs that a thread may use, and of two threads together.
    let script = "import os, threading\nseen = []\n\
                  def look(): seen.append(frozenset(os.sched_getaffinity(0)))\n\
                  for _ in range(2):\n    one = threading.Thread(target=look); one.start(); one.join()\n\
                  print('place', 10 * max(map(len, seen)) + len(seen[0] | seen[1]))";
    let value = sweep(&scratch, "pin=none,spread,pack", "1", &["python3", "-c", script]);
    let all = (11 * cpus) as f64;
    assert_eq!(means(&value), [all, 12.0, 12.0], "{}", value["runs"]);
    // Threads that bind themselves, both to the first CPU: the knob goes before.
    let binds = script.replace("seen.append", "os.sched_setaffinity(0, {0}); seen.append");
    let value = sweep(&scratch, "pin=none,spread", "1", &["python3", "-c", &binds]);
    assert_eq!(means(&value), [11.0, 12.0], "{}", value["runs"]);
}

#[test]
fn a_seed_of_the_layout_is_the_same_layout_in_each_run() {
    let scratch = Scratch::new("aslr-seed");
    // Where the C library lies (pages).
    let script = "while read -r range rest; do case $rest in *libc.so*|*libc-*) \
                  echo place $((0x${range%-*} / 4096)); break;; esac; done < /proc/self/maps";
    let value = sweep(&scratch, "aslr-seed=1,2,30", "2", &["sh", "-c", script]);
    let runs = value["runs"].as_array().expect("runs");
    let of = |setting: u64| -> Vec<f64> {
        runs.iter()
            .filter(|run| run["setting"] == setting)
            .filter_map(|run| run["progress"].as_f64())
            .collect()
    };
    let places = [of(0), of(1), of(2)];
    if places.iter().all(Vec::is_empty) {
        println!("skipped: sh has no C library of its own file");
        return;
    }
    assert!(places.iter().all(|place| place.len() == 2 && place[0] == place[1]), "{places:?}");
    assert!(places[0] != places[1] && places[1] != places[2], "{places:?}");
}

#[test]
fn real_time_policies_are_set_where_they_may_be() {
    let scratch = Scratch::new("real-time");
    let may =
        Command::new("chrt").args(["-f", "1", "true"]).output().is_ok_and(|output| output.status.success());
    if !is_root() || !may {
        println!("skipped: this user may set no real-time policy here");
        return;
    }
    let script = "read -r all < /proc/self/stat; set -- $all; echo place $((${41} + 1))";
    let value = sweep(&scratch, "policy=fifo,rr", "1", &["sh", "-c", script]);
    assert_eq!(means(&value), [2.0, 3.0]);
}
