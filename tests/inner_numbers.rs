//! A program in a PID namespace of its own, as in a container: the TIDs in its memory differ from the
//! kernel's.

mod support;

use holdup_events::tables::Thread;
use holdup_events::{Trace, Wait, WaitReason, recording};
use support::{Scratch, bpf_or_skip, have, holdup, made, stderr};

/// One thread holds a lock until the other waits for it, and both are joined.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *word = (int *)&lock;

static void *holds(void *unused)
{
	pthread_mutex_lock(&lock);
	while (__atomic_load_n(word, __ATOMIC_RELAXED) != 2) /* locked, with waiters */
		usleep(1000);
	usleep(300000);
	pthread_mutex_unlock(&lock);
	return 0;
}

static void *waits(void *unused)
{
	while (!__atomic_load_n(word, __ATOMIC_RELAXED))
		usleep(1000);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return 0;
}

int main(void)
{
	pthread_t holder, waiter;

	pthread_create(&holder, 0, holds, 0);
	pthread_create(&waiter, 0, waits, 0);
	pthread_join(waiter, 0);
	pthread_join(holder, 0);
	return 0;
}
"#;

fn threads(trace: &Trace) -> Vec<&Thread> {
    let is_of_it = |thread: &&Thread| trace.processes[thread.process.index()].name == "locks";
    trace.threads.iter().filter(is_of_it).collect()
}

#[test]
fn owners_and_joins_are_known_in_a_namespace_of_its_own() {
    let scratch = Scratch::new("inner-numbers");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !have("unshare")
        || !made(&scratch, ("locks.c", PROGRAM), &["gcc", "-pthread", "-o", "locks", "locks.c"])
    {
        return println!("skipped: it takes unshare and gcc");
    }
    let (path, program) = (scratch.join("t.holdup"), scratch.join("locks"));
    let inside = ["unshare", "--pid", "--fork", "--mount-proc"];
    let mut words = vec!["run", "-o", path.to_str().unwrap(), "--"];
    words.extend(inside);
    words.push(program.to_str().unwrap());
    let output = holdup(&scratch).args(&words).output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let trace = recording::open(&path).expect("it loads");
    let threads = threads(&trace);
    let [main, holder, _] = threads[..] else { panic!("{threads:?}") };
    let of_it = |wait: &&Wait| wait.process == main.process;
    let waits: Vec<&Wait> = trace.waits.iter().filter(of_it).collect();
    let locks: Vec<&&Wait> = waits.iter().filter(|wait| wait.reason == WaitReason::Lock).collect();
    assert_eq!(locks.iter().map(|wait| wait.owner_tid).collect::<Vec<_>>(), [holder.tid], "{waits:?}");
    let shared = waits.iter().filter(|wait| wait.op & 0x7f == 9 && wait.op & 128 == 0);
    assert!(
        shared.clone().count() > 0 && shared.clone().all(|wait| wait.reason == WaitReason::Join),
        "{waits:?}"
    );
}
