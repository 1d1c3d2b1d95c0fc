//! Threads that wait for a peer on the same machine are woken by the sender.

mod support;

use holdup_events::event::WakeContext;
use holdup_events::tables::ThreadState;
use holdup_events::{Trace, WaitReason, recording};
use support::{Scratch, bpf_or_skip, holdup, made, stderr};

/// One asks, the other answers, 400 times over TCP and 400 over UDP. Both rest before they send: the peer sleeps by then.
const ASKING: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2][2];

static struct sockaddr_in loopback(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void stream(void)
{
	struct sockaddr_in address = loopback();
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	bind(listener, (void *)&address, length);
	listen(listener, 1);
	getsockname(listener, (void *)&address, &length);
	ends[0][0] = socket(AF_INET, SOCK_STREAM, 0);
	connect(ends[0][0], (void *)&address, length);
	ends[0][1] = accept(listener, 0, 0);
	for (int end = 0; end < 2; end++)
		setsockopt(ends[0][end], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void datagrams(void)
{
	struct sockaddr_in address[2] = {loopback(), loopback()};
	socklen_t length = sizeof(address[0]);

	for (int end = 0; end < 2; end++) {
		ends[1][end] = socket(AF_INET, SOCK_DGRAM, 0);
		bind(ends[1][end], (void *)&address[end], length);
		getsockname(ends[1][end], (void *)&address[end], &length);
	}
	for (int end = 0; end < 2; end++)
		connect(ends[1][end], (void *)&address[!end], length);
}

static void *answer(void *unused)
{
	char byte;

	pthread_setname_np(pthread_self(), "answers");
	for (int kind = 0; kind < 2; kind++) {
		for (int times = 0; times < 400; times++) {
			read(ends[kind][1], &byte, 1);
			usleep(300);
			write(ends[kind][1], &byte, 1);
		}
	}
	return unused;
}

int main(void)
{
	pthread_t thread;
	char byte = 0;

	stream();
	datagrams();
	pthread_create(&thread, 0, answer, 0);
	for (int kind = 0; kind < 2; kind++) {
		for (int times = 0; times < 400; times++) {
			usleep(300);
			send(ends[kind][0], &byte, 1, 0);
			recv(ends[kind][0], &byte, 1, 0);
		}
	}
	pthread_join(thread, 0);
	return 0;
}
"#;

/// Waits for the peer, and those of them that the other thread ended.
fn waits(trace: &Trace) -> (usize, usize) {
    let (mut all, mut by_peer) = (0, 0);
    for id in trace.target_threads() {
        for slice in trace.slices.of_thread(id).filter(|slice| slice.state == ThreadState::Blocked) {
            if trace.wait(slice.wait).reason != WaitReason::Socket {
                continue;
            }
            let Some(wakeup) = trace.ended_by(&slice) else { continue };
            let is_peer = trace.threads[wakeup.waker.index()].target && wakeup.waker != id;
            all += 1;
            by_peer += usize::from(wakeup.context == WakeContext::Thread && is_peer);
        }
    }
    (all, by_peer)
}

#[test]
fn a_local_sender_is_recorded_as_the_waker() {
    let scratch = Scratch::new("senders");
    if !bpf_or_skip(&scratch)
        || !made(&scratch, ("asking.c", ASKING), &["gcc", "-O1", "-pthread", "-o", "asking", "asking.c"])
    {
        return;
    }
    let path = scratch.join("t.holdup");
    let ran = holdup(&scratch)
        .args(["run", "-q", "-o"])
        .arg(&path)
        .arg("--")
        .arg(scratch.join("asking"))
        .output()
        .expect("holdup starts");
    assert!(ran.status.success(), "{}", stderr(&ran));
    let (all, by_peer) = waits(&recording::open(&path).expect("a recording"));
    assert!(all >= 100, "{all} waits for the peer");
    // Wakeups in a device's interrupt have no known waker, and a busy machine has many.
    assert!(by_peer * 2 >= all, "the peer ended {by_peer} of {all} waits");
}
