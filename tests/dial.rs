//! Compares the ledger with a program that measures itself. The reference values are the dial's own clocks
//! and the kernel's schedstat, never the requested amounts. A busy machine therefore changes both sides
//! alike.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use holdup_events::recording;
use holdup_events::tables::ThreadState;
use serde_json::Value;
use support::{Scratch, backend_here, holdup, report_json, stderr};

/// How far a class may be from the truth, in parts of all thread time.
const POINTS: f64 = 0.02;

/// The program, built by cargo next to this test: Cargo only gives paths to binaries of the test's own
/// package.
fn dial() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let folder = test.parent().and_then(Path::parent).expect("target/debug/deps/test");
    let path = folder.join("holdup-dial");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "holdup-testkit", "--bin", "holdup-dial"]);
    if folder.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(built.success() && path.is_file(), "{} cannot be built", path.display());
    path
}

/// Runs the dial under holdup. Returns the report and the dial's output.
fn record(scratch: &Scratch, backend: &str, phases: &str) -> (Value, Value) {
    let recording = scratch.join(&format!("{backend}.holdup"));
    let output = holdup(scratch)
        .args(["run", "--quiet", "--backend", backend, "-o"])
        .arg(&recording)
        .arg("--")
        .arg(dial())
        .args(phases.split(' '))
        .arg("--dir")
        .arg(&scratch.0)
        .stderr(Stdio::piped())
        .output()
        .expect("holdup starts");
    assert!(output.status.success(), "{backend}: {}", stderr(&output));
    let truth = serde_json::from_slice(&output.stdout).expect("the dial prints JSON");
    (report_json(scratch, &recording), truth)
}

/// Class → ns, of all threads, as the dial measured them. `running` is useful, kernel and spin together.
fn truth_of(dial: &Value) -> BTreeMap<&'static str, u64> {
    let mut classes = BTreeMap::new();
    let ns = |value: &Value, key: &str| value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"));
    for thread in dial["threads"].as_array().expect("threads") {
        *classes.entry("running").or_default() += ns(&thread["schedstat"], "run_ns");
        *classes.entry("run-queue").or_default() += ns(&thread["schedstat"], "queue_ns");
        for (phase, class) in [
            ("sleep", "sleep"),
            ("lock", "lock-wait"),
            ("pipe", "pipe-wait"),
            ("disk", "io-wait"),
            ("join", "join-wait"),
        ] {
            let sum = &thread["phases"][phase];
            if sum.is_object() {
                let busy = ns(sum, "cpu_ns") + ns(sum, "queue_ns");
                *classes.entry(class).or_default() += ns(sum, "wall_ns").saturating_sub(busy);
            }
        }
    }
    classes
}

/// The ledger, with running time in one class as in [`truth_of`].
fn ledger_of(report: &Value) -> BTreeMap<String, u64> {
    let mut classes = BTreeMap::new();
    for (class, ns) in report["ledger"]["classes"].as_object().expect("classes") {
        let class = if matches!(class.as_str(), "useful" | "kernel" | "spin") { "running" } else { class };
        *classes.entry(class.to_owned()).or_default() += ns.as_u64().expect("ns");
    }
    classes
}

/// Every class that `tells` accepts is within [`POINTS`] of the truth.
fn agrees(report: &Value, dial: &Value, tells: &dyn Fn(&str) -> bool) {
    let (ledger, truth) = (ledger_of(report), truth_of(dial));
    let total = report["ledger"]["total_ns"].as_u64().expect("total") as f64;
    let share = |class: &str| ledger.get(class).copied().unwrap_or(0) as f64 / total;
    // Thread time outside of the dial's measurements (exec, libraries, exit) can be of any class. On a busy
    // machine it includes waits for a CPU. For losses, and for the limits of other backends, the ledger
    // reports the unknown amount.
    let dialled = truth.values().sum::<u64>() as f64 / total;
    let complete = report["backend"] == "bpf" && report["loss"]["events"] == 0;
    let unseen = (1.0 - dialled).max(0.0) + if complete { 0.0 } else { share("unknown") };
    for (class, ns) in truth {
        if !tells(class) {
            continue;
        }
        let said = ledger.get(class).copied().unwrap_or(0);
        let off = (said as f64 - ns as f64).abs() / total;
        // The dial's clocks cannot separate steal time from waiting. Running and queueing have counters.
        let by_counters = report["backend"] != "perf" && matches!(class, "running" | "run-queue");
        let unknown = unseen + if by_counters { 0.0 } else { share("stolen") };
        println!("{} {class}: {said} ns, by the dial {ns} ns (unknown {unknown:.4})", report["backend"]);
        assert!(off <= POINTS + unknown, "{class} is {off:.4} of all off: {said} ns, by the dial {ns} ns");
    }
}

/// Everything that the dial can do, in shares that differ.
const EVERYTHING: &str =
    "--threads 2 --seconds 2 --compute 5 --lock 10 --sleep 7 --pipe 6 --disk 8 --runqueue 8 --spin 3";

#[test]
fn every_class_is_what_the_program_did() {
    let scratch = Scratch::new("dial-bpf");
    if !support::bpf_or_skip(&scratch) {
        return;
    }
    for lock in ["pthread", "std"] {
        let (report, dial) = record(&scratch, "bpf", &format!("{EVERYTHING} --lock-kind {lock}"));
        agrees(&report, &dial, &|_| true);
    }
}

#[test]
fn each_class_alone_is_what_the_program_did() {
    let scratch = Scratch::new("dial-alone");
    if !support::bpf_or_skip(&scratch) {
        return;
    }
    for phase in ["--compute 5", "--sleep 5", "--lock 5", "--pipe 5", "--disk 5", "--runqueue 10", "--spin 5"]
    {
        let (report, dial) = record(&scratch, "bpf", &format!("--threads 2 --seconds 1.5 {phase}"));
        agrees(&report, &dial, &|_| true);
    }
}

#[test]
fn the_split_of_running_time_is_what_the_program_did() {
    let scratch = Scratch::new("dial-split");
    if !support::bpf_or_skip(&scratch) {
        return;
    }
    let (report, dial) = record(&scratch, "bpf", "--threads 2 --seconds 2 --compute 20 --sleep 1");
    let cpu: u64 = dial["threads"]
        .as_array()
        .expect("threads")
        .iter()
        .filter_map(|t| t["phases"]["compute"]["cpu_ns"].as_u64())
        .sum();
    let ledger = &report["ledger"];
    let useful = ledger["classes"]["useful"].as_f64().expect("useful");
    // Sampled: its own 95 % error, half as much again, on top.
    let slack = POINTS * ledger["total_ns"].as_f64().expect("total")
        + 1.5 * ledger["split_error_ns"].as_f64().expect("error");
    assert!((useful - cpu as f64).abs() <= slack, "useful {useful} ns ± {slack}, by the dial {cpu} ns");
}

/// Perf events: running times are exact. Reasons of waits are polled, so only long waits are all known.
#[test]
fn perf_events_measure_running_and_long_waits() {
    let scratch = Scratch::new("dial-perf");
    if backend_here(&scratch) == "proc" {
        println!("skipped: perf_event_open is not allowed here");
        return;
    }
    let (report, dial) = record(&scratch, "perf", EVERYTHING);
    agrees(&report, &dial, &|class| class == "running");
    let (report, dial) =
        record(&scratch, "perf", "--threads 1 --seconds 2 --lock 200 --sleep 300 --pipe 250");
    agrees(&report, &dial, &|_| true);
}

/// Polling: the kernel's own totals make running and run-queue times exact. Reasons of waits are sampled.
#[test]
fn polling_measures_running_and_long_waits() {
    let scratch = Scratch::new("dial-proc");
    let (report, dial) = record(&scratch, "proc", EVERYTHING);
    agrees(&report, &dial, &|class| matches!(class, "running" | "run-queue"));
    let (report, dial) =
        record(&scratch, "proc", "--threads 1 --seconds 2 --lock 200 --sleep 300 --pipe 250");
    agrees(&report, &dial, &|class| class != "io-wait");
}

/// At first, tracepoints at each timer show that a timer woke a thread. Soon the kernel's own state does
/// (`bpf/sched.h`).
#[test]
fn timers_wake_sleepers_and_threads_wake_their_waiters() {
    let scratch = Scratch::new("dial-contexts");
    if !support::bpf_or_skip(&scratch) {
        return;
    }
    let (report, _) = record(&scratch, "bpf", "--threads 2 --seconds 2 --sleep 2 --lock 2 --pipe 2");
    let trace = recording::open(&scratch.join("bpf.holdup")).expect("it opens");
    let mut contexts: BTreeMap<_, usize> = BTreeMap::new();
    for slice in trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread)) {
        if slice.state == ThreadState::Blocked
            && let Some(wakeup) = trace.ended_by(&slice)
        {
            let reason = trace.wait(slice.wait).reason;
            *contexts.entry((reason.name(), format!("{:?}", wakeup.context))).or_default() += 1;
        }
    }
    let count = |reason: &str, by: &dyn Fn(&str) -> bool| -> usize {
        contexts
            .iter()
            .filter(|((of, context), _)| *of == reason && by(context))
            .map(|(_, count)| count)
            .sum()
    };
    println!("{contexts:?}");
    assert!(count("sleep", &|by| by == "Timer") > 20, "{contexts:?}");
    assert_eq!(count("sleep", &|by| by != "Timer"), 0, "{contexts:?}");
    for reason in ["lock", "pipe"] {
        assert_eq!(count(reason, &|by| by != "Thread"), 0, "{contexts:?}");
    }
    assert!(count("pipe", &|by| by == "Thread") > 20, "{contexts:?}");
    let wakeups =
        report["sources"].as_array().expect("sources").iter().find(|source| source["name"] == "sched");
    let told =
        wakeups.and_then(|source| source["events"].as_u64()).expect("switches and wakeups are counted");
    assert!(told as usize >= trace.wakeups.len(), "{told}");
}

/// With all stacks recorded, each wakeup by a thread of the program has its stack, which names the waking
/// function. The partner unlocks in `hold`, and writes its response in `serve`.
#[test]
fn wakers_are_named() {
    let scratch = Scratch::new("dial-wakers");
    if !support::bpf_or_skip(&scratch) {
        return;
    }
    let recording = scratch.join("wakers.holdup");
    let recorded = holdup(&scratch)
        .args(["run", "--quiet", "--stacks", "all", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(dial())
        .args("--threads 2 --seconds 1 --lock 10 --lock-kind pthread --pipe 10".split(' '))
        .stdout(Stdio::null())
        .output()
        .expect("holdup starts");
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let report = |class: &str| -> Value {
        let output = holdup(&scratch)
            .arg("report")
            .arg(&recording)
            .args(["--wakers", "--json", "--min", "0", "--class", class])
            .output()
            .expect("holdup starts");
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    for (class, function) in [("lock-wait", "::hold"), ("pipe-wait", "partner::serve")] {
        let report = report(class);
        let stacks = &report["stacks"];
        let wakers = stacks["wakers"].as_u64().expect("wakers");
        assert!(wakers > 0, "{class}: {stacks}");
        assert_eq!(stacks["wakers_sampled"], false, "{class}");
        if report["loss"]["events"] == 0 {
            assert_eq!(stacks["wakers_with_stack"], wakers, "{class}");
        }
        assert!(
            woken_in(&stacks["tree"], function),
            "{class}: {function} wakes nobody in {:#}",
            stacks["tree"]
        );
    }
}

/// A path of the tree has a frame like that above its waker's name.
fn woken_in(tree: &Value, function: &str) -> bool {
    let mut woken_at: Option<u64> = None;
    tree.as_array().expect("tree").iter().any(|row| {
        let depth = row["depth"].as_u64().expect("depth");
        let name = row["function"].as_str().expect("function");
        woken_at = woken_at.filter(|at| depth > *at);
        if name.starts_with("(woken by ") {
            woken_at.get_or_insert(depth);
        }
        woken_at.is_some() && name.contains(function)
    })
}
