//! Waits at sockets by the other end: number and total time.
//!
//! A wait counts if it is for one socket with a known name. The call receives, sends, connects or accepts, or
//! it polls only this socket. Connections accepted by one listener are reported together under its address,
//! because each client has another address. A wait for any event (epoll, several descriptors) has no single
//! peer.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::socket_name::{Side, SocketName};
use holdup_events::tables::ThreadState;
use holdup_events::{ObjectKind, ThreadId, Trace, Wait, WaitReason};

use super::client_server::Spoken;
use super::parallel;
use super::socket_sides::SocketSides;

/// Waits at sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    /// By waiting program and peer, longest wait time first.
    pub rows: Vec<Peer>,
    /// Wait time at sockets without a known name (ns).
    pub unnamed_ns: u64,
    /// Wait time of polls for any event (ns).
    pub any_ns: u64,
}

/// Peer that processes with one name wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// Name of the waiting processes.
    pub process: String,
    /// Role of the other end.
    pub kind: PeerKind,
    /// Address of the peer. For clients, the address that they connected to.
    pub address: String,
    /// Threads that waited.
    pub threads: usize,
    /// Connections that they waited at.
    pub connections: usize,
    /// Number of waits.
    pub waits: u64,
    /// Total wait time (ns).
    pub ns: u64,
    /// The longest (ns).
    pub longest_ns: u64,
}

/// Role of a socket's other end for the waiting process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKind {
    /// The process connected to it.
    Asked,
    /// The peer connected to the process.
    Client,
    /// No peer yet: the process waits for connections.
    Listens,
    /// Which of the two connected is not known.
    #[default]
    Unknown,
}

impl PeerKind {
    /// Stable name, kebab-case.
    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Asked => "asked",
            PeerKind::Client => "client",
            PeerKind::Listens => "listens",
            PeerKind::Unknown => "unknown",
        }
    }
}

/// Waiting program, role and address.
type Key<'a> = (&'a str, PeerKind, &'a str);

#[derive(Default)]
struct Sums {
    threads: BTreeSet<ThreadId>,
    connections: BTreeSet<u64>,
    waits: u64,
    ns: u64,
    longest_ns: u64,
}

#[derive(Default)]
struct Part<'a> {
    by_peer: BTreeMap<Key<'a>, Sums>,
    unnamed_ns: u64,
    any_ns: u64,
}

/// Derives them.
pub fn derive(trace: &Trace, spoken: &Spoken) -> Peers {
    let sides = spoken.sides.sockets();
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut part = Part::default();
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.for_each(|thread| add((trace, sides), thread, &mut part));
        part
    });
    let mut all = Part::default();
    for part in parts {
        all.unnamed_ns += part.unnamed_ns;
        all.any_ns += part.any_ns;
        for (key, more) in part.by_peer {
            let sums = all.by_peer.entry(key).or_default();
            sums.threads.extend(more.threads);
            sums.connections.extend(more.connections);
            sums.waits += more.waits;
            sums.ns += more.ns;
            sums.longest_ns = sums.longest_ns.max(more.longest_ns);
        }
    }
    let mut rows: Vec<Peer> = all.by_peer.into_iter().map(|(key, sums)| peer(key, &sums)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
    Peers { rows, unnamed_ns: all.unnamed_ns, any_ns: all.any_ns }
}

fn add<'a>((trace, sides): (&'a Trace, &SocketSides), thread: ThreadId, part: &mut Part<'a>) {
    for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
        let (wait, ns) = (trace.wait(slice.wait), slice.duration().0);
        if wait.object_kind != ObjectKind::Socket {
            // A poll for a single pipe is not a wait for any event.
            let is_any = matches!(wait.object_kind, ObjectKind::None | ObjectKind::Epoll);
            part.any_ns += if is_any && wait.reason == WaitReason::Multiplex { ns } else { 0 };
            part.unnamed_ns += if wait.reason == WaitReason::Socket { ns } else { 0 };
            continue;
        }
        let Some((kind, address)) = peer_of(trace, sides, wait) else {
            part.unnamed_ns += ns;
            continue;
        };
        let sums = part.by_peer.entry((trace.process_name(wait.process), kind, address)).or_default();
        sums.threads.insert(thread);
        sums.connections.insert(wait.object);
        sums.waits += 1;
        sums.ns += ns;
        sums.longest_ns = sums.longest_ns.max(ns);
    }
}

/// Role and address of a socket's other end.
fn peer_of<'a>(trace: &'a Trace, sides: &SocketSides, wait: &Wait) -> Option<(PeerKind, &'a str)> {
    let name = SocketName::parse(trace.calls.name_of(ObjectKind::Socket, wait.object))?;
    let (own, is_open) = match name {
        SocketName::Internet { local, peer } => (local, !peer.ends_with(":0")),
        SocketName::Unix { side, address, other_end } => (address, side.is_some() || other_end != 0),
    };
    Some(match sides.side_of(wait) {
        _ if !is_open => (PeerKind::Listens, own),
        Some(Side::Connected) => (PeerKind::Asked, name.other()),
        Some(Side::Accepted) => (PeerKind::Client, own),
        None => (PeerKind::Unknown, name.other()),
    })
}

fn peer((process, kind, address): Key, sums: &Sums) -> Peer {
    Peer {
        process: process.to_owned(),
        kind,
        address: address.to_owned(),
        threads: sums.threads.len(),
        connections: sums.connections.len(),
        waits: sums.waits,
        ns: sums.ns,
        longest_ns: sums.longest_ns,
    }
}
