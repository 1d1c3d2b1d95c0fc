//! `--allocs` on programs with known allocations. With a sampling interval of one byte, every allocation is
//! sampled, and figures are exact.

mod support;

use std::process::Command;

use holdup_events::recording;
use holdup_events::tables::AllocationRow;
use support::{Scratch, bpf_or_skip, have, holdup, record_json, stderr, stdout};

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <malloc.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))
#define CHECK(what) do { if (!(what)) { printf("wrong: %s\n", #what); exit(3); } } while (0)
static void *passed[100];

KEEP static void *by_malloc(size_t size) { void *it = malloc(size); memset(it, 1, size); return it; }
KEEP static unsigned char *by_calloc(size_t size) { return calloc(size / 8, 8); }
KEEP static unsigned char *by_realloc(void *it, size_t size) { return realloc(it, size); }
KEEP static void *by_memalign(size_t to, size_t size) { void *it = 0; CHECK(!posix_memalign(&it, to, size)); return it; }
KEEP static void *by_reallocarray(void *it) { return reallocarray(it, 9, 23); }

static void *other(void *nothing)
{
	for (int i = 0; i < 100; i++)
		free(passed[i]);
	return nothing;
}

int main(void)
{
	for (int i = 0; i < 1000; i++)
		free(by_malloc(4801));
	for (int i = 0; i < 100; i++)
		passed[i] = by_malloc(1003);
	for (int i = 0; i < 10; i++) {
		unsigned char *it = by_calloc(40968);
		for (int at = 0; at < 40968; at++)
			CHECK(it[at] == 0);
		CHECK(malloc_usable_size(it) >= 40968);
		free(it);
	}
	unsigned char *grown = 0;
	for (size_t size = 16; size <= 1 << 20; size *= 2) {
		grown = by_realloc(grown, size + 3);
		CHECK((uintptr_t)grown % 16 == 0);
		for (size_t at = 0; at < size / 2 && size > 16; at += 7)
			CHECK(grown[at] == (unsigned char)(at * 31));
		for (size_t at = 0; at < size; at++)
			grown[at] = (unsigned char)(at * 31);
	}
	free(by_reallocarray(grown));
	for (size_t to = 8; to <= 65536; to *= 2) {
		unsigned char *it = by_memalign(to, 1007);
		CHECK((uintptr_t)it % to == 0);
		memset(it, 5, 1007);
		it = by_realloc(it, 3001);
		CHECK(it[1006] == 5);
		free(it);
	}
	volatile size_t much = (size_t)-1;
	CHECK(malloc(much) == 0 && calloc(much, 16) == 0 && realloc(0, much) == 0);
	void *none;
	CHECK(posix_memalign(&none, 3, 8) != 0);
	free(0);
	pthread_t thread;
	pthread_create(&thread, 0, other, 0);
	pthread_join(thread, 0);
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 30; i++)
			free(by_malloc(5003));
		_exit(0);
	}
	waitpid(child, 0, 0);
	for (int i = 0; i < 20; i++)
		by_malloc(6007);
	puts("right");
	return 0;
}
"#;

fn build(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Option<String> {
    let (file, program) = (scratch.join(&format!("{name}.c")), scratch.join(name));
    std::fs::write(&file, source).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(&file).args(flags);
    compiler.status().is_ok_and(|status| status.success()).then(|| program.to_str().unwrap().to_owned())
}

/// Allocations of this size: total number, number freed, number freed by another thread.
fn of_bytes(rows: &[AllocationRow], bytes: u64) -> [usize; 3] {
    let rows: Vec<&AllocationRow> = rows.iter().filter(|row| row.bytes == bytes).collect();
    let freed = rows.iter().filter(|row| row.freed.is_some());
    let elsewhere = rows.iter().filter(|row| row.freed_by.is_some_and(|by| by != row.thread));
    [rows.len(), freed.count(), elsewhere.count()]
}

#[test]
fn what_is_all_drawn_is_what_the_program_allocated() {
    let scratch = Scratch::new("allocations");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("gcc") {
        return println!("skipped: it takes gcc");
    }
    let program = build(&scratch, "allocates", PROGRAM, &[]).expect("it builds");
    let report = record_json(&scratch, &["--allocs=1"], &[&program]);
    let source = report["sources"].as_array().unwrap().iter().find(|source| source["name"] == "allocations");
    let source = source.expect("a source");
    assert_eq!((source["missing"].as_str(), source["lost"].as_u64()), (Some(""), Some(0)), "{source}");
    let rows = recording::open(&scratch.join("t.holdup")).expect("it opens").allocations;
    assert!(rows.iter().all(|row| row.every_bytes == 1));
    // Sizes that no other code in the process allocates, so that they are identified without stacks.
    assert_eq!(of_bytes(&rows, 4801), [1000, 1000, 0], "malloc");
    assert_eq!(of_bytes(&rows, 1003), [100, 100, 100], "freed by another thread");
    assert_eq!(of_bytes(&rows, 40968), [10, 10, 0], "calloc");
    for power in 4..=20 {
        assert_eq!(of_bytes(&rows, (1 << power) + 3), [1, 1, 0], "realloc to 2^{power} + 3");
    }
    assert_eq!(of_bytes(&rows, 207), [1, 1, 0], "reallocarray");
    assert_eq!(of_bytes(&rows, 1007), [14, 14, 0], "posix_memalign");
    assert_eq!(of_bytes(&rows, 3001), [14, 14, 0], "what that was made longer to");
    assert_eq!(of_bytes(&rows, 5003), [30, 30, 0], "of the child");
    assert_eq!(of_bytes(&rows, 6007), [20, 0, 0], "kept");
    let all = &report["allocations"]["all"];
    assert_eq!(
        (all["sampled"].as_u64(), all["objects"].as_u64()),
        (Some(rows.len() as u64), Some(rows.len() as u64))
    );
    assert_eq!(all["bytes"].as_u64(), Some(rows.iter().map(|row| row.bytes).sum()));
    assert_eq!(all["bytes_error"].as_u64(), Some(0));
}

#[test]
fn a_program_that_nothing_can_be_loaded_into_is_recorded_without() {
    let scratch = Scratch::new("allocations-static");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let source = "#include <stdlib.h>\nint main(void) { free(malloc(64)); return 7; }\n";
    let Some(program) = build(&scratch, "static", source, &["-static"]) else {
        return println!("skipped: it takes gcc and a static C library");
    };
    let recording = scratch.join("static.holdup");
    let recording = recording.to_str().unwrap();
    let output =
        holdup(&scratch).args(["run", "--allocs", "-q", "-o", recording, "--", &program]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the program's own");
    assert!(stderr(&output).contains("statically linked"), "{}", stderr(&output));
    let report = holdup(&scratch).args(["report", recording, "allocs"]).output().unwrap();
    assert!(stdout(&report).contains("statically linked"), "{}", stdout(&report));
}
