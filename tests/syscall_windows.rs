//! Syscalls counted in windows against a program whose calls are known. No timing is asserted: the rate is
//! compared to the calls over the time that the same run took, within the error that holdup states.

mod support;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, record_json};

/// One read and one write a byte: some seconds of them.
const BYTES: u64 = 6_000_000;

fn dd(scratch: &Scratch, options: &[&str]) -> Value {
    let count = format!("count={BYTES}");
    record_json(scratch, options, &["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"])
}

fn syscall<'a>(report: &'a Value, name: &str) -> &'a Value {
    let calls = report["syscalls"].as_array().expect("syscalls");
    calls.iter().find(|call| call["name"] == name).unwrap_or_else(|| panic!("no {name}: {calls:?}"))
}

/// Returns a report with enough windows for a meaningful error. The recorder may be preempted whenever a
/// window is due, but not in every run.
fn enough_windows(scratch: &Scratch) -> Option<(Value, u64)> {
    const RUNS: usize = 5;
    let mut all = 0;
    for _ in 0..RUNS {
        let report = dd(scratch, &["--budget", "5"]);
        let windows = report["syscall_windows"]["count"].as_u64().expect("windows");
        all += windows;
        if windows >= 3 {
            return Some((report, windows));
        }
    }
    assert!(all > 0, "no window could be opened in {RUNS} runs");
    println!("skipped: {all} windows in {RUNS} runs");
    None
}

#[test]
fn a_known_number_of_calls_is_found_within_the_stated_error() {
    let scratch = Scratch::new("syscall-windows");
    if !bpf_or_skip(&scratch) || !have("dd") {
        return;
    }
    // Windows only count the calls inside of them. If other programs alternate on the CPUs, a single run may
    // have too few.
    let mut inside = [0; 2];
    for run in 0..3 {
        let Some((report, windows)) = enough_windows(&scratch) else { return };
        for (inside, name) in inside.iter_mut().zip(["read", "write"]) {
            *inside += u32::from(is_within_error(&report, name, windows));
        }
        // In the windows, they are exact: read and write take turns, so no window holds two more of one.
        let [reads, writes] =
            ["read", "write"].map(|name| syscall(&report, name)["counted"].as_i64().expect("counted"));
        assert!((reads - writes).unsigned_abs() <= windows + 50, "{reads} reads, {writes} writes");
        assert!(report["loss"]["by_source"].get("syscall-windows").is_none(), "{}", report["loss"]);
        if run == 1 && inside == [2, 2] {
            break;
        }
    }
    assert!(
        inside.iter().all(|inside| *inside >= 2),
        "of three runs {inside:?} told reads and writes within their errors"
    );
}

/// Whether the actual number of calls is within twice the reported error.
fn is_within_error(report: &Value, name: &str, windows: u64) -> bool {
    let wall_s = report["wall_ns"].as_u64().expect("wall") as f64 / 1e9;
    let call = syscall(report, name);
    let rate = call["per_second"].as_f64().expect("rate");
    let error = call["error_per_second"].as_f64().expect("error");
    let truth = BYTES as f64 / wall_s;
    println!("{name}: {rate:.0} ± {error:.0}, true {truth:.0}, {windows} windows");
    assert!(error > 0.0, "{name}: {rate} ± {error}");
    (rate - truth).abs() <= 2.0 * error
}

#[test]
fn without_a_budget_nothing_is_counted() {
    let scratch = Scratch::new("no-syscall-windows");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let report = record_json(&scratch, &["--budget", "0"], &["sleep", "0.2"]);
    assert_eq!(report["syscall_windows"]["count"], 0);
    assert!(report["syscalls"].as_array().expect("syscalls").iter().all(|call| call["counted"].is_null()));
}
