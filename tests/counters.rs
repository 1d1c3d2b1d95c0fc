//! Counters read at samples, on what the kernel counts itself on any machine.

mod support;

use support::{Scratch, bpf_or_skip, have, holdup, made, record_json, stderr};

/// One thread touches new pages all the time, the other computes. Both continue until the first one has
/// touched this number of pages.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

static atomic_int done;

static void *touch(void *unused)
{
	for (int round = 0; round < 60; round++) {
		char *pages = mmap(0, 1 << 24, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(pages, 1 << 24, MADV_NOHUGEPAGE);
		for (int at = 0; at < 1 << 24; at += 4096)
			pages[at] = 1;
		munmap(pages, 1 << 24);
	}
	done = 1;
	return unused;
}

static void *compute(void *unused)
{
	volatile unsigned long sum = 0;

	while (!done)
		for (int i = 0; i < 100000; i++)
			sum += i;
	return unused;
}

int main(void)
{
	pthread_t one, other;

	pthread_create(&one, 0, touch, 0);
	pthread_setname_np(one, "touches");
	pthread_create(&other, 0, compute, 0);
	pthread_setname_np(other, "computes");
	pthread_join(one, 0);
	pthread_join(other, 0);
	return 0;
}
"#;
/// Pages that it touches.
const TOUCHED: u64 = 60 << 12;

#[test]
fn counts_belong_to_the_running_thread_and_the_reported_time() {
    let scratch = Scratch::new("counters");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("gcc") {
        return println!("skipped: it takes gcc");
    }
    assert!(made(&scratch, ("touch.c", PROGRAM), &["gcc", "-O1", "-pthread", "-o", "touch", "touch.c"]));
    let program = scratch.join("touch");
    let report = record_json(
        &scratch,
        &["--counters", "minor-faults,cpu-clock", "--freq", "999"],
        &[program.to_str().unwrap()],
    );
    let hardware = &report["hardware"];
    let counter = |of: &serde_json::Value, name: &str| {
        let all = of["counters"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{hardware}"))["count"]
            .as_u64()
            .unwrap()
    };
    let by_thread = hardware["by_thread"].as_array().unwrap_or_else(|| panic!("{report}"));
    let of = |name: &str| {
        let found = by_thread.iter().find(|row| row["thread"]["name"] == name);
        found.map(|row| &row["counts"]).unwrap_or_else(|| panic!("{name}: {hardware}"))
    };
    let faults = ["touches", "computes"].map(|name| counter(of(name), "minor-faults"));
    // All that was counted did happen, and nearly all of it in the thread that did it.
    assert!(
        faults[0] > 100 && faults[0] <= TOUCHED + TOUCHED / 10 && faults[1] < faults[0] / 50,
        "{faults:?}"
    );
    // A second of the CPU clock is a second, whatever else ran. The reported counting time must match the
    // counted one.
    for row in by_thread.iter().filter(|row| row["counts"]["counted_ns"].as_u64() > Some(10_000_000)) {
        let (said, counted) =
            (row["counts"]["counted_ns"].as_u64().unwrap(), counter(&row["counts"], "cpu-clock"));
        assert!(said.abs_diff(counted) < said / 50, "{row}");
    }
    let sum = |rows: &str| -> u64 {
        let rows = hardware[rows].as_array().unwrap().iter();
        rows.map(|row| counter(&row["counts"], "minor-faults")).sum()
    };
    let all = counter(&hardware["all"], "minor-faults");
    assert_eq!((sum("by_class"), sum("by_thread")), (all, all));
    assert!((0.0..=1.0).contains(&hardware["covered"].as_f64().unwrap()));
}

#[test]
fn missing_counters_are_reported_and_the_rest_is_recorded() {
    let scratch = Scratch::new("no-counters");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let report = record_json(&scratch, &["--counters", "cycles,instructions"], &["true"]);
    let sources = report["sources"].as_array().unwrap();
    let counters = sources.iter().find(|source| source["name"] == "hardware-counters").expect("a source");
    let missing = counters["missing"].as_str().unwrap();
    assert_eq!(counters["active"] == true, missing.is_empty(), "{counters}");
    assert!(missing.is_empty() || missing.contains("cycles") && missing.contains("machine"), "{missing}");
    let refused =
        holdup(&scratch).args(["run", "--counters", "no-such-counter", "--", "true"]).output().unwrap();
    assert!(
        refused.status.code() == Some(2) && stderr(&refused).contains("cache-misses"),
        "{}",
        stderr(&refused)
    );
}
