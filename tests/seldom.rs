//! A budget too small for the stack of each block is spent on threads that block often. Threads that block
//! rarely get their stacks nevertheless.

mod support;

use holdup_events::recording;
use holdup_events::tables::ThreadState;
use support::{Scratch, bpf_or_skip, holdup, made, stderr};

/// Two threads pass a token to each other, with occasional pauses. All their events fit into the ring even if
/// it is read late. The third thread blocks, forty times.
const RESTING: &str = r#"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic int token;

static void *hand(void *own)
{
	int who = (long)own, seen;

	for (long times = 0;; times++) {
		if (who == 0 && times % 16 == 0)
			usleep(200);
		while ((seen = atomic_load(&token)) != who)
			syscall(SYS_futex, &token, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
		atomic_store(&token, !who);
		syscall(SYS_futex, &token, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	}
	return own;
}

static void *rest(void *unused)
{
	pthread_setname_np(pthread_self(), "seldom");
	for (int i = 0; i < 40; i++)
		usleep(20000);
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, hand, (void *)0);
	pthread_create(&thread, 0, hand, (void *)1);
	pthread_create(&thread, 0, rest, 0);
	pthread_join(thread, 0);
	_exit(0);
}
"#;

#[test]
fn a_rarely_blocking_thread_has_all_its_stacks_among_busy_ones() {
    let scratch = Scratch::new("seldom");
    if !bpf_or_skip(&scratch)
        || !made(&scratch, ("resting.c", RESTING), &["gcc", "-O1", "-pthread", "-o", "resting", "resting.c"])
    {
        return;
    }
    let path = scratch.join("t.holdup");
    let ran = holdup(&scratch)
        .args(["run", "-q", "--budget", "0.2", "-o"])
        .arg(&path)
        .arg("--")
        .arg(scratch.join("resting"))
        .output()
        .expect("holdup starts");
    assert!(ran.status.success(), "{}", stderr(&ran));
    let trace = recording::open(&path).expect("a recording");
    let (mut drawn, mut rests, mut with_stack) = (0, 0, 0);
    for id in trace.target_threads() {
        let is_resting = trace.threads[id.index()].name == "seldom";
        for slice in trace.slices.rows(id).map(|row| trace.slices.at(id, row)) {
            if slice.state != ThreadState::Blocked || slice.stack_every == 0 {
                continue;
            }
            if is_resting {
                rests += 1;
                with_stack += u32::from(slice.stack_every == 1);
            } else {
                drawn += u32::from(slice.stack_every > 1);
            }
        }
    }
    assert!(drawn > 100, "the budget lasted for all: {drawn} of the others' blocks were drawn");
    assert!(rests >= 40, "{rests}");
    // Others of the machine do not count, but its first moments may, in which a budget is not known yet.
    assert!(with_stack * 10 >= rests * 9, "{with_stack} of {rests}");
}
