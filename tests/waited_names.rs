//! What the files and sockets are called that threads wait for.

mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use holdup_events::socket_name::{Side, SocketName};
use holdup_events::tables::ThreadState;
use holdup_events::{ObjectKind, Trace, WaitReason, recording};
use support::{Scratch, bpf_or_skip, have, is_on_disk, record_json};

const SYNC: &str = r#"
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)
for _ in range(50):
    os.write(file, os.urandom(8192))
    os.fdatasync(file)
"#;

const FDATASYNC: i32 = 75;

#[test]
fn a_file_that_is_synced_over_and_over_is_named() {
    let scratch = Scratch::new("waited-files");
    if !bpf_or_skip(&scratch) || !have("python3") || !is_on_disk(&scratch) {
        return;
    }
    let program = scratch.join("sync.py");
    std::fs::write(&program, SYNC).expect("a file");
    let file = scratch.join("ledger.db");
    let words = ["python3", program.to_str().expect("a name"), file.to_str().expect("a name")];
    record_json(&scratch, &[], &words);
    let trace = recording::open(&scratch.join("t.holdup")).expect("it opens");
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let blocked = slices.filter(|slice| slice.state == ThreadState::Blocked);
    let syncs = blocked.map(|slice| trace.wait(slice.wait)).filter(|wait| wait.syscall == FDATASYNC);
    let objects: Vec<(ObjectKind, u64)> = syncs.map(|wait| (wait.object_kind, wait.object)).collect();
    if objects.is_empty() {
        println!("skipped: this disk answers at once, nobody waited for it");
        return;
    }
    for (kind, object) in objects {
        let name = trace.calls.name_of(kind, object);
        assert!(kind == ObjectKind::File && name.ends_with("/ledger.db"), "{kind:?} {object}: {name:?}");
    }
}

/// Sends requests to one service by the network, and to another by a unix socket, with a receiving and a
/// polling call. A separate thread waits for data on an accepted connection.
const ASK: &str = r#"
import select, socket, sys, threading
def connect(family, address):
    connection = socket.socket(family)
    connection.connect(address)
    return connection
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[3])
listener.listen()
def listen():
    connection, _ = listener.accept()
    while connection.recv(1):
        pass
waits = threading.Thread(target=listen)
waits.start()
own = connect(socket.AF_UNIX, sys.argv[3])
for service in [connect(socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), connect(socket.AF_UNIX, sys.argv[2])]:
    poll = select.poll()
    poll.register(service, select.POLLIN)
    for number in range(20):
        service.send(b"?")
        if number % 2:
            poll.poll()
        service.recv(1)
        own.send(b"!")
own.close()
waits.join()
"#;

/// Answers each byte of one connection, not at once.
fn answer(mut connection: impl Read + Write) {
    let mut byte = [0];
    while connection.read_exact(&mut byte).is_ok() {
        thread::sleep(Duration::from_millis(2));
        if connection.write_all(&byte).is_err() {
            return;
        }
    }
}

/// Calls in which threads waited for sockets, and the sockets' names.
fn waited_sockets(trace: &Trace) -> BTreeSet<(i32, &str)> {
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let blocked = slices.filter(|slice| slice.state == ThreadState::Blocked);
    let waits = blocked.map(|slice| trace.wait(slice.wait));
    let sockets = waits.filter(|wait| wait.object_kind == ObjectKind::Socket);
    sockets.map(|wait| (wait.syscall, trace.calls.name_of(ObjectKind::Socket, wait.object))).collect()
}

const POLL: i32 = 7;
const RECVFROM: i32 = 45;

#[test]
fn awaited_sockets_are_named_by_their_ends() {
    let scratch = Scratch::new("waited-sockets");
    if !bpf_or_skip(&scratch) || !have("python3") {
        return;
    }
    let program = scratch.join("ask.py");
    std::fs::write(&program, ASK).expect("a file");
    let (service, own) = (scratch.join("service.sock"), scratch.join("own.sock"));
    let [service, own, program] = [&service, &own, &program].map(|path| path.to_str().expect("a name"));
    let network = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = network.local_addr().expect("an address").port();
    let local = UnixListener::bind(service).expect("a socket");
    thread::spawn(move || answer(network.accept().expect("a connection").0));
    thread::spawn(move || answer(local.accept().expect("a connection").0));
    record_json(&scratch, &[], &["python3", program, &port.to_string(), service, own]);
    let trace = recording::open(&scratch.join("t.holdup")).expect("it opens");
    let waited = waited_sockets(&trace);
    let is_waited = |syscall: i32, is: &dyn Fn(SocketName) -> bool| {
        waited.iter().any(|(call, name)| *call == syscall && SocketName::parse(name).is_some_and(is))
    };
    let end = format!("127.0.0.1:{port}");
    let unix = |name: SocketName, whose: &str, which: Side| match name {
        SocketName::Unix { side, address, .. } => side == Some(which) && address == whose,
        SocketName::Internet { .. } => false,
    };
    for call in [POLL, RECVFROM] {
        let by_network = |name: SocketName| matches!(name, SocketName::Internet { peer, .. } if peer == end);
        assert!(is_waited(call, &by_network), "{call}: {waited:?}");
        assert!(is_waited(call, &|name| unix(name, service, Side::Connected)), "{call}: {waited:?}");
    }
    assert!(is_waited(RECVFROM, &|name| unix(name, own, Side::Accepted)), "{waited:?}");
    let polls = trace.waits.iter().filter(|wait| wait.syscall == POLL);
    assert!(polls.into_iter().all(|wait| wait.reason == WaitReason::Multiplex));
}
