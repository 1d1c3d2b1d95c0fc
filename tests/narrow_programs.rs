//! A program of 32 bits: its calls have other numbers, their arguments are elsewhere, and times in its memory are half as wide.

mod support;

use std::collections::BTreeSet;

use holdup_events::tables::{StackEnd, ThreadState};
use holdup_events::{ObjectKind, StackId, Trace, WaitReason, recording};
use support::{Scratch, bpf_or_skip, holdup, made, stderr};

/// Without a library: few machines have one of 32 bits. Each wait takes 20 ms.
const PROGRAM: &str = r#"
static int call(int number, int a, int b, int c, int d, int e)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
	return result;
}

static int socketcall(int which, int a, int b, int c, int d, int e)
{
	int words[5] = {a, b, c, d, e};

	return call(102, which, (int)words, 0, 0, 0);
}

static volatile unsigned sum;

__attribute__((noinline)) void computes(void)
{
	for (unsigned i = 0; i < 300000000; i++)
		sum += i;
}

void _start(void)
{
	static int short_time[2] = {0, 20000000}, wide_time[4] = {0, 0, 20000000, 0}, word, ends[2], pair[2];
	static int room_time[2] = {0, 20000};
	struct { int fd; short asked, told; } one = {0, 1, 0};
	char byte;

	call(42, (int)ends, 0, 0, 0, 0);                          /* pipe */
	one.fd = ends[0];
	socketcall(8, 1, 1, 0, (int)pair, 0);                     /* socketpair(AF_UNIX, SOCK_STREAM) */
	socketcall(14, pair[0], 1, 20, (int)room_time, 8);        /* setsockopt(SOL_SOCKET, SO_RCVTIMEO) */
	for (int times = 0; times < 5; times++) {
		call(162, (int)short_time, 0, 0, 0, 0);           /* nanosleep */
		call(407, 1, 0, (int)wide_time, 0, 0);            /* clock_nanosleep_time64(CLOCK_MONOTONIC) */
		call(240, (int)&word, 128, 0, (int)short_time, 0); /* futex(FUTEX_WAIT_PRIVATE) */
		call(422, (int)&word, 128, 0, (int)wide_time, 0); /* futex_time64 */
		call(168, (int)&one, 1, 20, 0, 0);                /* poll */
		socketcall(10, pair[0], (int)&byte, 1, 0, 0);     /* recv */
		if (!call(2, 0, 0, 0, 0, 0)) {                    /* fork */
			call(162, (int)short_time, 0, 0, 0, 0);
			call(4, ends[1], (int)&byte, 1, 0, 0);    /* write */
			call(1, 0, 0, 0, 0, 0);                   /* exit */
		}
		call(3, ends[0], (int)&byte, 1, 0, 0);            /* read */
		call(7, -1, 0, 0, 0, 0);                          /* waitpid */
	}
	computes();
	call(252, 0, 0, 0, 0, 0);                                 /* exit_group */
}
"#;

const EACH_NS: u64 = 20_000_000;

fn recorded(name: &str) -> Option<Trace> {
    let scratch = Scratch::new(&format!("narrow-{name}"));
    let flags = ["-m32", "-O1", "-static", "-nostdlib", "-fno-pic", "-no-pie", "-fno-stack-protector"];
    let build: Vec<&str> = ["gcc"].into_iter().chain(flags).chain(["-o", "narrow", "narrow.c"]).collect();
    if !bpf_or_skip(&scratch) || !made(&scratch, ("narrow.c", PROGRAM), &build) {
        return None;
    }
    let path = scratch.join("t.holdup");
    let mut run = holdup(&scratch);
    run.args(["run", "-q", "--syscalls", "-o"]).arg(&path).arg("--").arg(scratch.join("narrow"));
    let ran = run.output().expect("holdup starts");
    if ran.status.code() == Some(126) {
        println!("skipped: this kernel runs no programs of 32 bits: {}", stderr(&ran));
        return None;
    }
    assert!(ran.status.success(), "{}", stderr(&ran));
    Some(recording::open(&path).expect("a recording"))
}

#[test]
fn calls_of_32_bit_programs_are_identified() {
    let Some(trace) = recorded("waits") else { return };
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let blocked: Vec<_> = slices.filter(|slice| slice.state == ThreadState::Blocked).collect();
    // Call, what the kernel knows of it, by how many of the waits, and whether for how long at most.
    let waits = [
        (35, WaitReason::Sleep, 5, true),
        (230, WaitReason::Sleep, 5, true),
        (202, WaitReason::Park, 10, true),
        (7, WaitReason::Multiplex, 5, true),
        (45, WaitReason::Socket, 5, false),
        (0, WaitReason::Pipe, 3, false),
    ];
    for (syscall, reason, least, has_end) in waits {
        let of = || blocked.iter().filter(|slice| trace.wait(slice.wait).syscall == syscall);
        let told: Vec<WaitReason> = of().map(|slice| trace.wait(slice.wait).reason).collect();
        assert!(told.len() >= least && told.iter().all(|told| *told == reason), "{syscall}: {told:?}");
        let asked = of().filter_map(|slice| Some(trace.due(slice)?.since(slice.start).0));
        let asked: Vec<u64> = asked.filter(|ns| ns.abs_diff(EACH_NS) < EACH_NS / 20).collect();
        assert!(!has_end || asked.len() >= least, "{syscall}: {asked:?} of {}", told.len());
    }
    let known: BTreeSet<i32> = blocked.iter().map(|slice| trace.wait(slice.wait).syscall).collect();
    // 61: wait4, -1: a fault, 57: the new process's beginning, 60 and 231: ends, 1, 22, 53, 59: where it was preempted or began.
    let others: Vec<&i32> = known
        .iter()
        .filter(|call| ![0, 1, 7, 22, 35, 45, 53, 57, 59, 60, 61, 202, 230, 231, -1].contains(*call))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn they_are_counted_with_their_descriptors_and_its_functions_have_names() {
    let Some(trace) = recorded("counts") else { return };
    let of = |syscall: i32| trace.calls.rows.iter().filter(move |row| row.syscall == syscall);
    let times = |syscall: i32| of(syscall).map(|row| row.count).sum::<u64>();
    let counted = [35, 230, 202, 7, 45, 57, 0, 1, 61, 53, 54].map(times);
    assert_eq!(counted, [10, 5, 10, 5, 5, 5, 5, 5, 5, 1, 1]);
    assert!(of(45).all(|row| row.object_kind == ObjectKind::Socket));
    assert!(trace.frames.iter().any(|frame| frame.function == "computes"));
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let naps = slices.filter(|slice| trace.wait(slice.wait).syscall == 35 && slice.stack != StackId::NONE);
    let ends: Vec<StackEnd> = naps.map(|slice| trace.stacks.end(slice.stack)).collect();
    assert!(ends.len() > 4 && ends.iter().all(|end| *end == StackEnd::NoFramePointer), "{ends:?}");
}
