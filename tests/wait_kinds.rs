//! Reasons and wakers of waits for which the thread's syscall is misleading, or over already.

mod support;

use std::process::Stdio;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::wait::Wait;
use holdup_events::{ObjectKind, ThreadId, Trace, WaitReason, recording};
use support::{Scratch, bpf_or_skip, holdup, made, stderr};

/// The first argument selects its activity.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char bytes[1 << 20];
static int listener, there, here;

static void listens(struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	bind(listener, (void *)address, length);
	listen(listener, 1);
	getsockname(listener, (void *)address, &length);
}

static int connects(struct sockaddr_in *address)
{
	int end = socket(AF_INET, SOCK_STREAM, 0);

	return connect(end, (void *)address, sizeof(*address)) ? -1 : end;
}

static void begin(const char *name, void *(*what)(void *))
{
	pthread_t thread;

	pthread_create(&thread, 0, what, (void *)name);
	pthread_detach(thread);
}

static void *writes(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (int times = 0; times < 20; times++)
		send(there, bytes, sizeof(bytes), 0);
	shutdown(there, SHUT_WR);
	return 0;
}

/* The other end's buffer is full most of the time: what it waits for is that this thread receives. */
static void full(void)
{
	struct sockaddr_in address;
	int room = 65536;

	listens(&address);
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	there = connects(&address);
	setsockopt(there, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	here = accept(listener, 0, 0);
	begin("writes", writes);
	while (recv(here, bytes, room, 0) > 0)
		usleep(300);
}

/* Processes that end: their connections are closed by that. */
static void ending(void)
{
	struct sockaddr_in address;

	listens(&address);
	for (int times = 0; times < 40; times++) {
		if (!fork()) {
			connects(&address);
			usleep(3000);
			_exit(0);
		}
		here = accept(listener, 0, 0);
		recv(here, bytes, 1, 0);
		close(here);
		wait(0);
	}
}

/* Nothing ever comes. */
static void timeouts(void)
{
	struct timeval time = {.tv_usec = 12000};
	int ends[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	for (int times = 0; times < 30; times++)
		recv(ends[0], bytes, 1, 0);
}

static void *sends_file(void *name)
{
	int ends[2], file = memfd_create("file", 0);

	pthread_setname_np(pthread_self(), name);
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	write(file, bytes, sizeof(bytes));
	for (off_t at = 0;; at = 0)
		sendfile(ends[0], file, &at, sizeof(bytes));
}

static void *splices_memory(void *name)
{
	struct iovec all = {bytes, sizeof(bytes)};
	int ends[2];

	pthread_setname_np(pthread_self(), name);
	pipe(ends);
	for (;;)
		vmsplice(ends[1], &all, 1, 0);
}

static void *tees(void *name)
{
	int from[2], to[2];

	pthread_setname_np(pthread_self(), name);
	pipe(from);
	pipe(to);
	for (;;)
		tee(from[0], to[1], 1, 0);
}

static void *reads(void *name)
{
	struct iovec one = {bytes, 1};
	int ends[2];

	pthread_setname_np(pthread_self(), name);
	pipe(ends);
	preadv2(ends[0], &one, 1, -1, 0);
	return 0;
}

static void *writes_more(void *name)
{
	struct iovec all = {bytes, sizeof(bytes)};
	int ends[2];

	pthread_setname_np(pthread_self(), name);
	pipe(ends);
	for (;;)
		pwritev2(ends[1], &all, 1, -1, 0);
}

static void descriptors(void)
{
	begin("sendfile", sends_file);
	begin("vmsplice", splices_memory);
	begin("tee", tees);
	begin("preadv2", reads);
	begin("pwritev2", writes_more);
	usleep(100000);
	_exit(0);
}

/* Longer than any machine needs to stop and continue the threads. The process exits before. */
static const struct timespec minute = {60, 0};

static void *naps(void *name)
{
	struct timespec left;

	pthread_setname_np(pthread_self(), name);
	syscall(SYS_nanosleep, &minute, *(char *)name == 'n' ? &left : 0);
	return 0;
}

static void *naps_by_clock(void *name)
{
	pthread_setname_np(pthread_self(), name);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &minute, 0);
	return 0;
}

static void *polls(void *name)
{
	int ends[2];
	struct pollfd one = {.events = POLLIN};

	pthread_setname_np(pthread_self(), name);
	pipe(ends);
	one.fd = ends[0];
	syscall(SYS_poll, &one, 1, 60000);
	return 0;
}

static void *polls_nothing(void *name)
{
	pthread_setname_np(pthread_self(), name);
	syscall(SYS_poll, 0, 0, 60000);
	return 0;
}

static void *parks(void *name)
{
	static int word;

	pthread_setname_np(pthread_self(), name);
	syscall(SYS_futex, &word, 128, 0, &minute, 0, 0);
	return 0;
}

/* Waits until all threads of a process are in this state (S: sleeping, T: stopped), except the calling thread. */
static void until_all_are(char state, pid_t process)
{
	char path[64], line[512];
	struct dirent *entry;
	int others;

	do {
		usleep(1000);
		snprintf(path, sizeof(path), "/proc/%d/task", process);
		DIR *tasks = opendir(path);

		for (others = 0; (entry = readdir(tasks));) {
			if (!atoi(entry->d_name) || atoi(entry->d_name) == gettid())
				continue;
			snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, atoi(entry->d_name));
			FILE *stat = fopen(path, "r");

			others += !stat || !fgets(line, sizeof(line), stat) || strrchr(line, ')')[2] != state;
			if (stat)
				fclose(stat);
		}
		closedir(tasks);
	} while (others);
}

/* All threads are stopped for a while, and continue. */
static void stopped(void)
{
	begin("nap", naps);
	begin("Nap", naps);
	begin("clock", naps_by_clock);
	begin("poll", polls);
	begin("nothing", polls_nothing);
	begin("park", parks);
	until_all_are('S', getpid());
	pid_t parent = getpid();
	if (!fork()) {
		kill(parent, SIGSTOP);
		until_all_are('T', parent);
		kill(parent, SIGCONT);
		_exit(0);
	}
	wait(0);
	until_all_are('S', getpid());
}

/* Whoever ends with it waits until the kernel is done with what it watched. */
static void watches(void)
{
	for (int times = 0; times < 10; times++) {
		if (!fork()) {
			inotify_add_watch(inotify_init(), "/", IN_CREATE);
			_exit(0);
		}
		wait(0);
	}
}

/* One descriptor a thread, which the kernel finds where the recorder has something else. */
static struct pollfd *asked_about;

static void *polls_there(void *which)
{
	poll(&asked_about[(long)which * 512], 1, -1);
	return 0;
}

static void before(void)
{
	int ends[2];
	char *from = (char *)0x555555554000;

	pipe(ends);
	asked_about = mmap(from, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (asked_about != (void *)from)
		_exit(9);
	for (long which = 0; which < 64; which++) {
		pthread_t thread;

		asked_about[which * 512] = (struct pollfd){.fd = ends[0], .events = POLLIN};
		pthread_create(&thread, 0, polls_there, (void *)which);
	}
	usleep(100000);
	puts("polls");
	fflush(stdout);
	pause();
}

/* SCHED_DEADLINE (6), 2 ms every 20 ms, for 20 ms of CPU time: ten periods. */
static void *throttled(void *name)
{
	struct {
		unsigned size, policy;
		unsigned long long flags;
		int nice;
		unsigned priority;
		unsigned long long runtime, deadline, period;
	} wanted = {48, 6, 0, 0, 0, 2000000, 20000000, 20000000};
	struct timespec used = {0, 0};

	pthread_setname_np(pthread_self(), name);
	if (syscall(SYS_sched_setattr, 0, &wanted, 0)) {
		puts("refused");
		return 0;
	}
	while (used.tv_nsec < 20000000)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return 0;
}

static void deadline(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, throttled, "throttled");
	pthread_join(thread, 0);
}

int main(int count, char **words)
{
	static const struct { const char *name; void (*does)(void); } all[] = {
		{"full", full}, {"ending", ending}, {"timeouts", timeouts}, {"descriptors", descriptors},
		{"stopped", stopped}, {"watches", watches}, {"before", before},
		{"deadline", deadline},
	};

	for (int i = 0; count > 1 && i < 8; i++)
		if (!strcmp(words[1], all[i].name))
			all[i].does();
	return 0;
}
"#;

fn program(scratch: &Scratch) -> bool {
    let build = ["gcc", "-O1", "-no-pie", "-pthread", "-w", "-o", "kinds", "kinds.c"];
    bpf_or_skip(scratch) && made(scratch, ("kinds.c", PROGRAM), &build)
}

fn recorded(what: &str) -> Option<Trace> {
    let scratch = Scratch::new(&format!("wait-kinds-{what}"));
    if !program(&scratch) {
        return None;
    }
    let path = scratch.join("t.holdup");
    let mut run = holdup(&scratch);
    run.args(["run", "-q", "-o"]).arg(&path).arg("--").arg(scratch.join("kinds")).arg(what);
    let ran = run.output().expect("holdup starts");
    assert!(ran.status.success(), "{}", stderr(&ran));
    if ran.stdout.starts_with(b"refused") {
        println!("skipped: this machine gives no thread the policy that {what} needs");
        return None;
    }
    Some(recording::open(&path).expect("a recording"))
}

/// The blocked thread, its wait, its waker, and the kind of wakeup.
struct Blocked<'a> {
    who: ThreadId,
    name: &'a str,
    wait: &'a Wait,
    ended: Option<(WakeContext, ThreadId)>,
}

fn blocked(trace: &Trace) -> Vec<Blocked<'_>> {
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let blocked = slices.filter(|slice| slice.state == ThreadState::Blocked);
    let told = blocked.map(|slice| Blocked {
        who: slice.thread,
        name: trace.threads[slice.thread.index()].name.as_str(),
        wait: trace.wait(slice.wait),
        ended: trace.ended_by(&slice).map(|wakeup| (wakeup.context, wakeup.waker)),
    });
    told.collect()
}

/// The number of these waits ended by another thread of the program.
fn ended_by_own_threads(trace: &Trace, waits: &[&Blocked<'_>]) -> usize {
    let ended = |one: &&&Blocked<'_>| {
        one.ended.is_some_and(|(context, waker)| {
            context == WakeContext::Thread && waker != one.who && trace.threads[waker.index()].target
        })
    };
    waits.iter().filter(ended).count()
}

#[test]
fn a_receiver_wakes_the_writer_that_waits_for_space() {
    let Some(trace) = recorded("full") else { return };
    let all = blocked(&trace);
    let of_writer = all.iter().filter(|one| one.name == "writes" && one.wait.reason == WaitReason::Socket);
    let waits: Vec<&Blocked<'_>> = of_writer.collect();
    assert!(waits.len() >= 20, "{} waits for room", waits.len());
    let told = ended_by_own_threads(&trace, &waits);
    // Some answers come later, by a timer.
    assert!(told * 2 >= waits.len(), "the reader ended {told} of {} waits", waits.len());
}

#[test]
fn an_exiting_process_wakes_its_peer() {
    let Some(trace) = recorded("ending") else { return };
    let all = blocked(&trace);
    const RECVFROM: i32 = 45;
    let waits: Vec<&Blocked<'_>> = all.iter().filter(|one| one.wait.syscall == RECVFROM).collect();
    assert!(waits.len() >= 20, "{} waits for the peer", waits.len());
    let told = ended_by_own_threads(&trace, &waits);
    assert!(told * 2 >= waits.len(), "the peer ended {told} of {} waits", waits.len());
}

#[test]
fn the_end_of_a_sockets_time_is_a_timers() {
    let Some(trace) = recorded("timeouts") else { return };
    let all = blocked(&trace);
    let waits: Vec<&Blocked<'_>> = all.iter().filter(|one| one.wait.reason == WaitReason::Socket).collect();
    assert!(waits.len() >= 20, "{} waits", waits.len());
    // Some interrupts are invisible to programs (docs/kernel-notes.md), so the wakers of these waits are
    // unknown.
    let told: Vec<_> = waits.iter().filter_map(|one| one.ended).collect();
    assert!(told.len() >= 20, "{} of {} ends are told", told.len(), waits.len());
    assert!(told.iter().all(|(context, _)| *context == WakeContext::Timer), "{told:?}");
}

#[test]
fn calls_that_move_bytes_wait_for_what_they_are_about() {
    let Some(trace) = recorded("descriptors") else { return };
    let all = blocked(&trace);
    let pipe = (WaitReason::Pipe, ObjectKind::Pipe);
    let calls = [
        ("sendfile", 40, (WaitReason::Socket, ObjectKind::Socket)),
        ("vmsplice", 278, pipe),
        ("tee", 276, pipe),
        ("preadv2", 327, pipe),
        ("pwritev2", 328, pipe),
    ];
    for (name, syscall, expected) in calls {
        let of = all.iter().filter(|one| one.name == name && one.wait.syscall == syscall);
        let told: Vec<_> = of.map(|one| (one.wait.reason, one.wait.object_kind)).collect();
        assert!(!told.is_empty() && told.iter().all(|told| *told == expected), "{name}: {told:?}");
    }
}

#[test]
fn what_a_stop_interrupted_goes_on_as_what_it_was() {
    let Some(trace) = recorded("stopped") else { return };
    let all = blocked(&trace);
    let calls = [
        ("nap", 35, WaitReason::Sleep),
        ("Nap", 35, WaitReason::Sleep),
        ("clock", 230, WaitReason::Sleep),
        ("poll", 7, WaitReason::Multiplex),
        ("nothing", 7, WaitReason::Multiplex),
        ("park", 202, WaitReason::Park),
    ];
    for (name, syscall, reason) in calls {
        let of: Vec<&Blocked<'_>> = all.iter().filter(|one| one.name == name).collect();
        let stop = of.iter().position(|one| one.wait.reason == WaitReason::Stopped);
        let Some(stop) = stop else { panic!("{name} was not stopped") };
        let behind = &of[stop + 1..];
        let told: Vec<_> = behind.iter().map(|one| (one.wait.syscall, one.wait.reason)).collect();
        // A wait for a page may come between. Waits after the call are not checked.
        let same = told.iter().position(|told| *told == (syscall, reason));
        let Some(same) = same else { panic!("{name} waits on: {told:?}") };
        assert!(told[..same].iter().all(|(call, _)| *call == syscall), "{name}: {told:?}");
    }
    let polled = all.iter().filter(|one| one.name == "poll" && one.wait.syscall == 7);
    assert!(polled.into_iter().all(|one| one.wait.object_kind == ObjectKind::Pipe), "the same object");
}

#[test]
fn what_an_end_waits_for_is_no_page_fault() {
    let Some(trace) = recorded("watches") else { return };
    let all = blocked(&trace);
    const EXIT_GROUP: i32 = 231;
    let told: Vec<_> = all.iter().map(|one| (one.wait.syscall, one.wait.reason)).collect();
    assert!(told.contains(&(EXIT_GROUP, WaitReason::Kernel)), "{told:?}");
    assert!(!told.contains(&(-1, WaitReason::Fault)), "{told:?}");
}

/// Another process's polled address is in its own memory: the recorder's memory at the same address must not
/// be read instead.
#[test]
fn polled_descriptors_are_not_read_from_the_recorders_memory() {
    let scratch = Scratch::new("wait-kinds-before");
    if !program(&scratch) || !support::have("setarch") {
        return;
    }
    use std::io::BufRead;
    let mut polls = std::process::Command::new(scratch.join("kinds"));
    let mut polls = polls.arg("before").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = std::io::BufReader::new(polls.stdout.take().expect("a pipe")).lines();
    if lines.next().is_none() {
        polls.wait().expect("it ended");
        return println!("skipped: the address is taken");
    }
    let path = scratch.join("t.holdup");
    // Without address randomization, the recorder's own code is at the address that the program polls.
    let mut attach = std::process::Command::new("setarch");
    attach.env("XDG_STATE_HOME", scratch.join("state")).args(["-R", env!("CARGO_BIN_EXE_holdup")]);
    attach.args(["attach", "-q", "--for", "300ms", "-o"]).arg(&path).arg(polls.id().to_string());
    let ran = attach.output();
    polls.kill().expect("killed");
    polls.wait().expect("gone");
    let ran = ran.expect("setarch starts");
    assert!(ran.status.success(), "{}", stderr(&ran));
    let trace = recording::open(&path).expect("a recording");
    let all = blocked(&trace);
    let of_polls: Vec<&Blocked<'_>> = all.iter().filter(|one| one.wait.syscall == 7).collect();
    assert!(of_polls.len() >= 64, "{} polls", of_polls.len());
    let told = of_polls.iter().filter(|one| one.wait.object_kind != ObjectKind::None);
    let told: Vec<_> = told.map(|one| (one.wait.object_kind, one.wait.object)).collect();
    assert!(told.is_empty(), "{told:?}");
}

/// A SCHED_DEADLINE thread that has used its runtime stays runnable: the scheduler's own flag shows the
/// throttling.
#[test]
fn a_deadline_thread_without_runtime_is_throttled() {
    let Some(trace) = recorded("deadline") else { return };
    let thread = trace.threads.iter().position(|thread| thread.name == "throttled").expect("the thread");
    let thread = ThreadId(u32::try_from(thread).expect("few threads"));
    let throttled = |slice: &Slice| slice.state == ThreadState::Throttled;
    let (times, ns) = trace
        .slices
        .of_thread(thread)
        .filter(throttled)
        .fold((0, 0), |(times, ns), slice| (times + 1, ns + slice.duration().0));
    // 2 ms of every 20 ms: at least nine periods end with the rest of them.
    assert!(times >= 5 && ns >= 90_000_000, "{times} times, {ns} ns");
}
