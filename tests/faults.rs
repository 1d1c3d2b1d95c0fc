//! Page faults and shootdowns: counts are the kernel's own, to the unit.

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use support::{Scratch, bpf_or_skip, have, holdup, report_json, stderr, stdout};

/// Threads touch pages, each a different number, and wait forever. Then the first one prints the numbers of
/// /proc for them.
const TOUCH: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int ready;
static int tids[3];

static void *touch(void *number)
{
	long pages = 500 * (1 + (long)number);

	tids[(long)number] = gettid();
	for (int round = 0; round < 3; round++) {
		char *block = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (long page = 0; page < pages; page++)
			block[page * 4096] = 1;
		munmap(block, pages * 4096);
	}
	ready++;
	for (;;)
		pause();
}

int main(void)
{
	pthread_t threads[3];

	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], 0, touch, (void *)i);
	while (ready < 3)
		usleep(1000);
	usleep(10000);
	for (int i = 0; i < 3; i++) {
		char path[64];
		unsigned long minor, major;
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", tids[i]);
		FILE *stat = fopen(path, "r");
		if (!stat || fscanf(stat, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu", &minor, &major) != 2)
			return 2;
		fclose(stat);
		printf("%d %lu %lu\n", tids[i], minor, major);
	}
	fflush(stdout);
	_exit(0);
}
"#;

/// One thread changes protection, while others run on the other CPUs.
const SEAL: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Atomic int over;

static void *run(void *nothing)
{
	while (!over)
		;
	return nothing;
}

int main(void)
{
	pthread_t other;
	char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_create(&other, 0, run, 0);
	for (int i = 0; i < 2000; i++) {
		page[0] = 1;
		if (mprotect(page, 4096, PROT_READ) || mprotect(page, 4096, PROT_READ | PROT_WRITE))
			return 2;
	}
	over = 1;
	return pthread_join(other, 0);
}
"#;

/// Records a C program. Returns its output and the report.
fn record(scratch: &Scratch, source: &str) -> (String, serde_json::Value) {
    let (code, program, recording) = (scratch.join("p.c"), scratch.join("p"), scratch.join("t.holdup"));
    std::fs::write(&code, source).unwrap();
    let built = Command::new("gcc").args(["-O1", "-pthread", "-o"]).args([&program, &code]).output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    let output = holdup(scratch)
        .args(["run", "--quiet", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    (stdout(&output), report_json(scratch, &recording))
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// By the kernel's number of the thread: its counts.
fn by_tid(report: &serde_json::Value) -> BTreeMap<u64, &serde_json::Value> {
    let faults = report["faults"]["threads"].as_array().expect("threads");
    let threads = report["threads"].as_array().expect("threads");
    let tid = |id: &serde_json::Value| {
        threads.iter().find(|thread| thread["id"] == *id).map(|thread| number(&thread["tid"]))
    };
    faults.iter().filter_map(|row| Some((tid(&row["thread"])?, &row["counts"]))).collect()
}

#[test]
fn page_faults_are_those_of_proc_to_the_unit() {
    let scratch = Scratch::new("faults");
    if !bpf_or_skip(&scratch) || !have("gcc") {
        return;
    }
    let (said, report) = record(&scratch, TOUCH);
    let told = by_tid(&report);
    let lines: Vec<Vec<u64>> =
        said.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect();
    assert_eq!(lines.len(), 3, "{said}");
    for (line, least) in lines.iter().zip([1500, 3000, 4500]) {
        let counts = told.get(&line[0]).unwrap_or_else(|| panic!("{line:?} in {}", report["faults"]));
        assert_eq!((number(&counts["minor"]), number(&counts["major"])), (line[1], line[2]), "{line:?}");
        assert!(line[1] >= least, "{line:?}");
    }
    let faults = &report["faults"];
    let shares: f64 =
        faults["sites"].as_array().unwrap().iter().filter_map(|site| site["share"].as_f64()).sum();
    assert!(number(&faults["sampled"]) == 0 || (shares - 1.0).abs() < 1e-9, "{faults}");
}

#[test]
fn shootdowns_match_the_calls_and_the_interrupts_of_proc() {
    let scratch = Scratch::new("shootdowns");
    if !bpf_or_skip(&scratch) || !have("gcc") {
        return;
    }
    let (_, report) = record(&scratch, SEAL);
    let faults = &report["faults"];
    let sent = faults["sent_in"].as_array().unwrap();
    let by_mprotect: u64 =
        sent.iter().filter(|row| row["name"] == "mprotect").map(|row| number(&row["sent"])).sum();
    // What loads and ends the program changes protection, too, a few times.
    assert!(by_mprotect <= 4_000 + 100, "{faults}");
    let all: u64 = sent.iter().map(|row| number(&row["sent"])).sum();
    assert_eq!(all, number(&faults["all"]["shootdowns_sent"]), "{faults}");
    // /proc/interrupts counts those of other programs, too.
    let interrupts: u64 =
        faults["cpus"].as_array().unwrap().iter().map(|row| number(&row["interrupts"])).sum();
    assert!(number(&faults["all"]["interrupts"]) <= interrupts, "{faults}");
}
