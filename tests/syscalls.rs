//! `--syscalls` against strace, on a program that makes the same calls each time.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use support::{Scratch, bpf_or_skip, have, made, record_json};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static char bytes[4096];

static void *other(void *zero)
{
	char own[64];
	for (int i = 0; i < 300; i++)
		if (pread(*(int *)zero, own, 33, 0) < 0)
			return zero;
	return 0;
}

int main(void)
{
	int ends[2], sockets[2];
	pthread_t thread;
	int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
	long sum = 0;

	if (pipe2(ends, O_NONBLOCK) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 1;
	pthread_create(&thread, 0, other, &zero);
	for (int i = 0; i < 1000; i++)
		sum += write(null, bytes, 1);
	for (int i = 0; i < 500; i++)
		sum += write(null, bytes, 4096);
	for (int i = 0; i < 200; i++)
		sum += read(ends[0], bytes, 16);
	for (int i = 0; i < 100; i++)
		sum += write(ends[1], bytes, 3) + read(ends[0], bytes, 16);
	for (int i = 0; i < 50; i++)
		sum += close(-1);
	for (int i = 0; i < 70; i++)
		sum += send(sockets[0], bytes, 100, 0) + recv(sockets[1], bytes, 4096, 0);
	pthread_join(thread, 0);
	return sum == 0;
}
"#;

/// Calls and failures by name, as `strace -c -f` counts them.
fn by_strace(text: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, calls) = (words.last()?, words.get(3)?.parse().ok()?);
        let failed = if words.len() > 5 { words.get(4)?.parse().ok()? } else { 0 };
        (*name != "total").then(|| ((*name).to_owned(), (calls, failed)))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn counts_errors_and_sizes_are_those_of_strace() {
    let scratch = Scratch::new("syscalls");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("strace") || !have("gcc") {
        return println!("skipped: it takes strace and gcc");
    }
    let (source, program) = (scratch.join("calls.c"), scratch.join("calls"));
    std::fs::write(&source, PROGRAM).unwrap();
    let built = Command::new("gcc").arg("-pthread").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let table = scratch.join("strace.txt");
    let traced = Command::new("strace")
        .args(["-c", "-f", "-o"])
        .args([&table, &program])
        .stderr(Stdio::null())
        .status();
    if !traced.is_ok_and(|status| status.success()) {
        return println!("skipped: strace may not trace here");
    }
    let expected = by_strace(&std::fs::read_to_string(&table).unwrap());
    let report = record_json(&scratch, &["--syscalls"], &[program.to_str().unwrap()]);
    let calls = &report["calls"];
    assert_eq!(calls["exact"], true);
    let uses = calls["by_syscall"].as_array().unwrap();
    // Whether a thread has to wait for another is not the same each time.
    let ours: BTreeMap<String, (u64, u64)> = uses
        .iter()
        .filter(|used| used["name"] != "futex")
        .map(|used| {
            let name = used["name"].as_str().unwrap().to_owned();
            (name, (used["calls"].as_u64().unwrap(), used["failed"].as_u64().unwrap()))
        })
        .collect();
    let expected: BTreeMap<_, _> = expected.into_iter().filter(|(name, _)| name != "futex").collect();
    // On newer kernels (7.3) a thread can be preempted inside of a program, and calls of others on its CPU are left out.
    let lost = report["loss"]["by_source"]["syscalls"].as_u64().unwrap_or(0);
    if lost > 0 {
        let left_out = |(name, (calls, _)): (&String, &(u64, u64))| {
            let counted = ours.get(name).map_or(0, |(counted, _)| *counted);
            calls.checked_sub(counted).unwrap_or_else(|| panic!("{name}: {counted} of {calls}"))
        };
        let all: u64 = expected.iter().map(left_out).sum();
        println!("{all} calls are missing, {lost} are reported as lost");
        return assert!(all <= lost, "{ours:?}");
    }
    assert_eq!(ours, expected);
    let write = uses.iter().find(|used| used["name"] == "write").unwrap();
    let sizes: Vec<(u64, u64)> = write["asked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| (bin["from"].as_u64().unwrap(), bin["calls"].as_u64().unwrap()))
        .collect();
    assert_eq!(sizes, [(1, 1000), (2, 100), (4096, 500)]);
}

/// Reads of a file, and of other descriptors, in batches of eight.
const RING: &str = r#"
#include "ring.h"

static int taken(void)
{
	uint32_t head = atomic_load(word(completions, params.cq_off.head));
	struct io_uring_cqe *all = (struct io_uring_cqe *)(completions + params.cq_off.cqes);
	int result = all[head & *word(completions, params.cq_off.ring_mask)].res;

	atomic_store(word(completions, params.cq_off.head), head + 1);
	return result;
}

int main(int argc, char **argv)
{
	static _Alignas(BLOCK) char buffers[8][BLOCK];
	int file = made_file(argv[1]);

	if (!set_up())
		return 77;
	for (int batch = 0; batch < 50; batch++) {
		for (int nth = 0; nth < 8; nth++)
			prepare(nth < 6 ? file : -1, buffers[nth], nth, nth);
		enter(8);
		for (int nth = 0; nth < 8; nth++)
			taken();
	}
	return 0;
}
"#;

/// Builds a program that has a ring.
fn ring_program(scratch: &Scratch, text: &str) -> PathBuf {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/shared");
    assert!(made(scratch, ("ring.c", text), &["gcc", "-I", shared, "-w", "-o", "ring", "ring.c"]));
    scratch.join("ring")
}

#[test]
fn operations_of_io_uring_are_counted_apart_from_the_calls_that_submit_them() {
    let scratch = Scratch::new("ring-operations");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("gcc") {
        return println!("skipped: it takes gcc");
    }
    let program = ring_program(&scratch, RING);
    let blocks = scratch.join("blocks");
    if Command::new(&program).arg(&blocks).status().unwrap().code() == Some(77) {
        return println!("skipped: this machine has no io_uring");
    }
    let report =
        record_json(&scratch, &["--syscalls"], &[program.to_str().unwrap(), blocks.to_str().unwrap()]);
    let calls = &report["calls"];
    let [reads] = &calls["ring_operations"].as_array().unwrap()[..] else { panic!("{calls}") };
    let figure = |name: &str| reads[name].as_u64().unwrap();
    assert_eq!((reads["name"].as_str(), figure("calls"), figure("failed")), (Some("read"), 400, 100));
    assert_eq!(reads["errors"][0]["errno"], 9, "EBADF");
    assert_eq!((figure("returned"), figure("timed")), (300 * 4096, 400));
    assert_eq!(calls["requests_each"].as_f64(), Some(8.0));
    let [of_file, of_none] = &calls["ring_by_object"].as_array().unwrap()[..] else { panic!("{calls}") };
    assert_eq!((of_file["calls"].as_u64(), of_file["failed"].as_u64()), (Some(300), Some(0)));
    assert!(blocks.ends_with(of_file["object_name"].as_str().unwrap().trim_start_matches('/')), "{of_file}");
    assert_eq!((of_none["calls"].as_u64(), of_none["object_kind"].as_str()), (Some(100), Some("none")));
    let enters = calls["by_syscall"].as_array().unwrap().iter().find(|used| used["name"] == "io_uring_enter");
    assert_eq!(enters.unwrap()["calls"], 50);
}

/// Polls descriptors of events again and again by one request each: two of a name of their own, then two that share one. Each is
/// taken back at the end. Prints how many answers polls had, and of them how many failed.
const GOES_ON: &str = r#"
#include "ring.h"
#include <sys/eventfd.h>

static long answers, failed;

static void ask(int opcode, int file, uint64_t data, uint64_t which)
{
	struct io_uring_sqe *entry = next_entry(opcode, file, data);

	entry->addr = which;
	if (opcode == IORING_OP_POLL_ADD) {
		entry->len = IORING_POLL_ADD_MULTI;
		entry->poll32_events = 1; /* POLLIN */
	}
	if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
		exit(1);
}

/* Waits for an answer, and takes it. */
static void take(void)
{
	struct io_uring_cqe *all = (struct io_uring_cqe *)(completions + params.cq_off.cqes);
	uint32_t head = atomic_load(word(completions, params.cq_off.head));
	struct io_uring_cqe *one = &all[head & *word(completions, params.cq_off.ring_mask)];

	while (head == atomic_load(word(completions, params.cq_off.tail)))
		syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	if (one->user_data < 100) { /* a poll's */
		answers++;
		failed += one->res < 0;
	}
	atomic_store(word(completions, params.cq_off.head), head + 1);
}

static void happen(int event)
{
	uint64_t number = 1;

	if (write(event, &number, sizeof number) != sizeof number)
		exit(1);
	take();
	if (read(event, &number, sizeof number) != sizeof number)
		exit(1);
}

int main(void)
{
	static const uint64_t names[4] = { 1, 2, 7, 7 };
	int events[4];

	if (!set_up())
		return 77;
	for (int nth = 0; nth < 4; nth++) {
		events[nth] = eventfd(0, 0);
		ask(IORING_OP_POLL_ADD, events[nth], names[nth], 0);
	}
	for (int round = 0; round < 40; round++)
		for (int nth = 0; nth < 4; nth++)
			happen(events[nth]);
	for (int nth = 0; nth < 4; nth++) {
		ask(IORING_OP_POLL_REMOVE, -1, 100, names[nth]);
		take();
		take();
	}
	printf("%ld %ld\n", answers, failed);
	return 0;
}
"#;

#[test]
fn every_answer_of_an_operation_that_goes_on_counts() {
    let scratch = Scratch::new("ring-answers");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("gcc") {
        return println!("skipped: it takes gcc");
    }
    let program = ring_program(&scratch, GOES_ON);
    let alone = Command::new(&program).output().unwrap();
    match alone.status.code() {
        Some(0) => {}
        Some(77) => return println!("skipped: this machine has no io_uring"),
        code => panic!("status {code:?}"),
    }
    let told = String::from_utf8(alone.stdout).unwrap();
    let told: Vec<u64> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(told, [4 * 40 + 4, 4], "what the program itself counts");
    let report = record_json(&scratch, &["--syscalls"], &[program.to_str().unwrap()]);
    let sources = report["sources"].as_array().unwrap();
    if sources.iter().any(|source| source["name"] == "ring-answers" && source["active"] == false) {
        return println!("skipped: this kernel does not tell answers of operations that go on");
    }
    let calls = &report["calls"];
    let all = calls["ring_operations"].as_array().unwrap();
    let polls = all.iter().find(|one| one["name"] == "poll_add").unwrap_or_else(|| panic!("{calls}"));
    let figure = |name: &str| polls[name].as_u64().unwrap();
    // Their times are known when they end.
    assert_eq!((figure("calls"), figure("failed"), figure("timed")), (4 * 40 + 4, 4, 4), "{polls}");
    let by_object = calls["ring_by_object"].as_array().unwrap();
    let polled = |kind: &str| -> u64 {
        let rows = by_object.iter().filter(|row| row["name"] == "poll_add" && row["object_kind"] == kind);
        rows.map(|row| row["calls"].as_u64().unwrap()).sum()
    };
    // Those of a shared name may be of either.
    assert_eq!((polled("eventfd"), polled("none")), (2 * 40 + 4, 2 * 40), "{by_object:?}");
}

/// Calls on more objects than there is room for.
const TOO_MANY: &str = "#include <sys/ioctl.h>
#include <unistd.h>
int main(void) {
	char one;
	for (unsigned i = 0; i < 70000; i++) ioctl(0, 0x10000 + i, 0);
	for (int i = 0; i < 300; i++) pread(0, &one, 1, i);
	return 0;
}
";

#[test]
fn calls_about_more_than_there_is_room_for_are_all_counted() {
    let scratch = Scratch::new("too-many-calls");
    let build = ["gcc", "-O1", "-w", "-o", "many", "many.c"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("many.c", TOO_MANY), &build) {
        return;
    }
    let program = scratch.join("many");
    let report = record_json(&scratch, &["--syscalls"], &[program.to_str().unwrap()]);
    let uses = report["calls"]["by_syscall"].as_array().unwrap();
    let calls =
        |name: &str| uses.iter().find(|used| used["name"] == name).and_then(|used| used["calls"].as_u64());
    assert_eq!(calls("ioctl"), Some(70_000));
    // Those that load the C library come before.
    assert!((300..310).contains(&calls("pread64").unwrap_or(0)), "{:?}", calls("pread64"));
    assert!(report["loss"]["by_source"]["syscalls"].is_null(), "{}", report["loss"]);
}

/// Each call is about something else, as with a connection each, before the first of those that count.
const MANY: &str = "#include <sys/ioctl.h>
#include <unistd.h>
__attribute__((noinline)) static void early(void) { for (unsigned i = 0; i < 24000; i++) ioctl(0, 0x10000 + i, 0); }
__attribute__((noinline)) static void late(void) { char one; for (int i = 0; i < 300; i++) pread(0, &one, 1, i); }
int main(void) { early(); late(); return 0; }
";

#[test]
fn callers_are_recorded_after_many_other_objects() {
    let scratch = Scratch::new("many-calls");
    if !bpf_or_skip(&scratch)
        || !made(&scratch, ("many.c", MANY), &["gcc", "-O1", "-w", "-o", "many", "many.c"])
    {
        return;
    }
    let program = scratch.join("many");
    let report = record_json(&scratch, &["--syscalls", "--stacks", "all"], &[program.to_str().unwrap()]);
    let calls = report["calls"]["by_syscall"].as_array().expect("calls").iter();
    let by_late = calls.filter(|call| call["name"] == "pread64").flat_map(|call| {
        let callers = call["callers"].as_array().expect("callers").iter();
        callers.filter(|caller| caller["function"] == "late").filter_map(|caller| caller["calls"].as_u64())
    });
    let told: u64 = by_late.sum();
    assert!(told >= 200, "{told} of 300 calls have a caller: {}", report["calls"]["by_syscall"]);
    // What had no room is lost once, by whatever it was counted.
    assert!(report["loss"]["by_source"]["syscall-windows"].is_null(), "{}", report["loss"]);
}
