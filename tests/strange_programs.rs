//! Programs that are hard to unwind: replaced or inaccessible while they run, with thousands of mappings, or
//! ten thousand calls deep. Available data is recorded, and missing data is reported.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, holdup, stderr, stdout};

/// The program's first argument selects its preparation and its function.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noipa)) long turning_round(long times)
{
	volatile long sum = 0;
	for (long i = 0; i < times; i++)
		sum += i;
	return sum;
}

__attribute__((noipa)) long going_down(int depth, long times)
{
	return (depth ? going_down(depth - 1, times) : turning_round(times)) + depth;
}

/* Executable pages that do not lie side by side: so many mappings. */
static void map_pages(int count)
{
	for (int i = 0; i < count; i++) {
		char *pair = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pair == MAP_FAILED || mprotect(pair, 4096, PROT_READ | PROT_EXEC))
			exit(3);
	}
}

/* A thread that is not the first becomes the program again. */
static void *become(void *words)
{
	((char **)words)[1] = "again";
	execv(((char **)words)[0], words);
	exit(2);
}

int main(int count, char **words)
{
	long times = atol(words[2]);
	pthread_t other;

	if (!strcmp(words[1], "replaced")) {
		FILE *other;
		if (unlink(words[0]) || !(other = fopen(words[0], "w")))
			return 2;
		fputs("another program\n", other);
		fclose(other);
	}
	if (!strcmp(words[1], "away") && (chdir(words[3]) || chroot(".")))
		return 2;
	if (!strcmp(words[1], "mapped"))
		map_pages(5000);
	if (!strcmp(words[1], "aside") && !pthread_create(&other, 0, become, words))
		pause();
	puts("ready");
	fflush(stdout);
	do
		going_down(strcmp(words[1], "deep") ? 3 : 10000, times ? times : 1000000);
	while (!times);
	return 0;
}
"#;

/// Enough work for some hundred samples.
const TIMES: &str = "300000000";
const OPTIONS: [&str; 4] = ["--freq", "4999", "--stacks", "all"];

/// The program, in the scratch directory.
fn built(scratch: &Scratch) -> Option<PathBuf> {
    if !bpf_or_skip(scratch) || !have("gcc") {
        return None;
    }
    let (source, program) = (scratch.join("strange.c"), scratch.join("strange"));
    fs::write(&source, PROGRAM).expect("a source");
    let options = ["-O2", "-pthread", "-fno-optimize-sibling-calls", "-Wl,--build-id", "-o"];
    let status = Command::new("gcc").args(options).arg(&program).arg(&source).status().expect("gcc");
    assert!(status.success());
    Some(program)
}

/// The report of the program run under holdup with these words.
fn recorded(scratch: &Scratch, words: &[&str]) -> Option<Value> {
    let program = built(scratch)?;
    let recording = scratch.join("t.holdup");
    let mut command = holdup(scratch);
    command.args(["run", "-q", "-o"]).arg(&recording).args(OPTIONS).arg("--").arg(program);
    let output = command.args(words).stdout(Stdio::null()).output().expect("holdup starts");
    assert!(output.status.success(), "{:?} {}", output.status, stderr(&output));
    Some(report(scratch))
}

fn report(scratch: &Scratch) -> Value {
    let mut command = holdup(scratch);
    command.arg("report").arg(scratch.join("t.holdup")).args(["--json", "--min", "0", "--class", "on-cpu"]);
    let output = command.output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Most of the running time is in the function that does the work, with its caller.
fn is_named(report: &Value) {
    let rows = report["stacks"]["functions"].as_array().expect("functions");
    let of = |name: &str, figure: &str| {
        let row = rows.iter().find(|row| row["function"] == name);
        row.unwrap_or_else(|| panic!("no {name}: {rows:#?}"))[figure].as_u64().expect("ns")
    };
    let all: u64 = rows.iter().filter_map(|row| row["own_ns"].as_u64()).sum();
    assert!(of("turning_round", "own_ns") * 2 > all, "{rows:#?}");
    assert!(of("main", "cumulated_ns") * 2 > all, "{rows:#?}");
}

#[test]
fn a_program_that_is_replaced_while_it_runs_is_named_by_what_ran() {
    let scratch = Scratch::new("replaced");
    if let Some(report) = recorded(&scratch, &["replaced", TIMES]) {
        is_named(&report);
    }
}

#[test]
fn a_program_that_sees_no_file_is_named_all_the_same() {
    let scratch = Scratch::new("away");
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root may change the root directory");
        return;
    }
    let empty = scratch.join("empty");
    fs::create_dir_all(&empty).expect("a directory");
    if let Some(report) = recorded(&scratch, &["away", TIMES, empty.to_str().expect("UTF-8")]) {
        is_named(&report);
    }
}

#[test]
fn five_thousand_mappings_leave_those_of_files_their_tables() {
    let scratch = Scratch::new("mapped");
    let Some(report) = recorded(&scratch, &["mapped", TIMES]) else { return };
    is_named(&report);
    let sources = report["sources"].as_array().expect("sources");
    let tables = sources.iter().find(|source| source["name"] == "stack-tables").expect("stack-tables");
    let missing = tables["missing"].as_str().expect("text");
    assert!(missing.contains("more executable mappings"), "{missing}");
}

#[test]
fn ten_thousand_calls_are_truncated_and_marked() {
    let scratch = Scratch::new("deep");
    let Some(report) = recorded(&scratch, &["deep", TIMES]) else { return };
    let ends = &report["stacks"]["completeness"]["on_cpu"]["ends"];
    let stacks = report["stacks"]["completeness"]["on_cpu"]["stacks"].as_u64().expect("stacks");
    assert!(ends["too-deep"].as_u64().expect("a number") * 2 > stacks, "{ends}");
}

#[test]
fn a_thread_that_becomes_another_program_is_followed() {
    let scratch = Scratch::new("aside");
    let Some(report) = recorded(&scratch, &["aside", TIMES]) else { return };
    is_named(&report);
    let (ledger, threads) = (&report["ledger"], report["threads"].as_array().expect("threads"));
    assert_eq!(threads.len(), 2, "the one that began and the one that became it: {threads:#?}");
    let unknown = ledger["classes"]["unknown"].as_u64().expect("ns");
    assert!(unknown * 100 < ledger["total_ns"].as_u64().expect("ns"), "{ledger}");
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_that_was_replaced_before_we_came_is_named_by_what_runs() {
    let scratch = Scratch::new("replaced-before");
    let Some(program) = built(&scratch) else { return };
    let mut child =
        Command::new(program).args(["replaced", "0"]).stdout(Stdio::piped()).spawn().expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let running = Running(child);
    assert_eq!(lines.map_while(Result::ok).next().as_deref(), Some("ready"));
    let mut command = holdup(&scratch);
    command.args(["attach", &running.0.id().to_string(), "--for", "500ms", "-q", "-o"]);
    let output = command.arg(scratch.join("t.holdup")).args(OPTIONS).output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    is_named(&report(&scratch));
}
