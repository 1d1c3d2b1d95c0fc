//! The peers for which threads wait at sockets.

use holdup_events::tables::CallObject;
use holdup_events::{ObjectKind, Trace};
use holdup_findings::analyse;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::peers::{Peer, PeerKind, Peers};
use holdup_testkit::check::trace_of_lanes;

/// The picture, in which waits in these calls are for sockets of these names.
fn waited(picture: &str, named: &[(i32, &str)]) -> Peers {
    let (_, mut trace) = trace_of_lanes(picture);
    for (number, (syscall, name)) in (1..).zip(named) {
        name_socket(&mut trace, *syscall, (number, name));
    }
    analyse(&trace).derived.peers
}

fn name_socket(trace: &mut Trace, syscall: i32, (object, name): (u64, &str)) {
    for wait in trace.waits.iter_mut().filter(|wait| wait.syscall == syscall) {
        (wait.object_kind, wait.object) = (ObjectKind::Socket, object);
    }
    trace.calls.objects.push(CallObject { kind: ObjectKind::Socket, object, name: name.to_owned() });
}

fn fields(peer: &Peer) -> (&str, PeerKind, &str, u64, u64) {
    (&peer.process, peer.kind, &peer.address, peer.waits, peer.ns / 1_000_000)
}

#[test]
fn each_wait_is_for_the_other_end_of_its_socket() {
    let peers = waited(
        "@cpus 2\n@q socket 45\n@e socket 47\n@f multiplex 7\n@g multiplex 232\n@h socket 44\n\
         A  0qqqqqq0eeee0ff0ggg0h0qqq0\n",
        &[
            (45, "10.0.0.1:40912 → 10.0.0.2:5432"),
            (47, "10.0.0.1:80 → 10.0.0.9:50001"),
            (7, "unix at /run/own.sock"),
        ],
    );
    let rows: Vec<_> = peers.rows.iter().map(fields).collect();
    let expected = [
        ("A", PeerKind::Asked, "10.0.0.2:5432", 2, 9),
        ("A", PeerKind::Client, "10.0.0.1:80", 1, 4),
        ("A", PeerKind::Listens, "/run/own.sock", 1, 2),
    ];
    assert_eq!(rows, expected);
    assert_eq!((peers.any_ns, peers.unnamed_ns), (3_000_000, 1_000_000));
    assert_eq!((peers.rows[0].connections, peers.rows[0].longest_ns), (1, 6_000_000));
}

/// A server has as many peers as clients. They are identified by the port to which they connected.
#[test]
fn clients_of_one_listener_are_one_row() {
    let peers = waited(
        "@cpus 2\n@q socket 45\n@e socket 47\nA  0qqqqqq0\nB  1eeee111\n",
        &[(45, "unix ← @queue, other end socket:[7]"), (47, "unix ← @queue, other end socket:[8]")],
    );
    assert_eq!(peers.rows.len(), 1, "{peers:#?}");
    let row = &peers.rows[0];
    assert_eq!(fields(row), ("A", PeerKind::Client, "@queue", 2, 10));
    assert_eq!((row.threads, row.connections), (2, 2));
}

#[test]
fn a_pair_of_sockets_has_no_address() {
    let peers = waited("@cpus 2\n@q socket 45\nA  0qqqqqq0\n", &[(45, "unix, other end socket:[7]")]);
    assert_eq!(peers.rows.iter().map(fields).collect::<Vec<_>>(), [("A", PeerKind::Unknown, "", 1, 6)]);
}

/// A poll for a single pipe waits neither at a socket nor for arbitrary descriptors.
#[test]
fn polls_for_one_pipe_are_none_of_it() {
    let (_, mut trace) = trace_of_lanes("@cpus 2\n@f multiplex 7\nA  0ffff0\n");
    assert_eq!(analyse(&trace).derived.peers.any_ns, 4_000_000);
    for wait in trace.waits.iter_mut().filter(|wait| wait.syscall == 7) {
        (wait.object_kind, wait.object) = (ObjectKind::Pipe, 7);
    }
    assert_eq!(analyse(&trace).derived.peers, Peers::default());
}

/// libpq polls for its connection alone: it waits for the server's answer. A server that polls for its client has nothing to do.
#[test]
fn a_poll_for_a_servers_response_is_a_network_wait() {
    let class_of = |name: &str| {
        let (_, mut trace) = trace_of_lanes("@cpus 2\n@f multiplex 7\nA  0ffff0\n");
        name_socket(&mut trace, 7, (1, name));
        let classes = analyse(&trace).derived.ledger.classes;
        let found = [Class::NetWait, Class::WorkWait].into_iter().find(|class| classes[*class as usize] > 0);
        found.expect("a wait")
    };
    assert_eq!(class_of("10.0.0.1:40912 → 10.0.0.2:5432"), Class::NetWait);
    assert_eq!(class_of("10.0.0.2:5432 → 10.0.0.1:40912"), Class::WorkWait);
    assert_eq!(class_of("unix, other end socket:[7]"), Class::WorkWait, "it is not known who asks");
}
