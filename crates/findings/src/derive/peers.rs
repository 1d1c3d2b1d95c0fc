//! For whom threads wait at sockets: how often and how long, by the other end. It judges nothing.
//!
//! Waits count that are for one socket whose name is known: in a call that receives, sends, connects or accepts, or in one that polls for it
//! alone. Connections that a listener accepted are told by its address together, for their other ends are as many as there were clients.
//! Who waits for whatever comes next (epoll, several descriptors) waits for nobody that could be named.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::socket_name::{Side, SocketName};
use holdup_events::tables::ThreadState;
use holdup_events::{ObjectKind, ThreadId, Trace, Wait, WaitReason};

use super::parallel;
use super::sides::Spoken;
use super::socket_sides::SocketSides;

/// Waits at sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    /// By who waits and for whom, those that waited longest first.
    pub rows: Vec<Peer>,
    /// How long threads waited at sockets of which nothing is known (ns).
    pub unnamed_ns: u64,
    /// How long they polled for whatever comes next (ns).
    pub any_ns: u64,
}

/// Whom processes of one name wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// Their name.
    pub process: String,
    /// What the other end is to them.
    pub kind: PeerKind,
    /// Its address; of clients the address at which they came.
    pub address: String,
    /// Threads that waited.
    pub threads: usize,
    /// Connections that they waited at.
    pub connections: usize,
    /// How often.
    pub waits: u64,
    /// How long in all (ns).
    pub ns: u64,
    /// The longest (ns).
    pub longest_ns: u64,
}

/// What the other end of a socket is to who waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKind {
    /// It was connected to.
    Asked,
    /// It connected.
    Client,
    /// Nobody yet: who listens waits for connections.
    Listens,
    /// Which of the two connected is not known.
    #[default]
    Unknown,
}

impl PeerKind {
    /// A word for it, kebab-case.
    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Asked => "asked",
            PeerKind::Client => "client",
            PeerKind::Listens => "listens",
            PeerKind::Unknown => "unknown",
        }
    }
}

/// By who waits, kind and address.
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
    for slice in trace.slices.of(thread).filter(|slice| slice.state == ThreadState::Blocked) {
        let (wait, ns) = (trace.wait(slice.wait), slice.duration().0);
        if wait.object_kind != ObjectKind::Socket {
            // Who polls for a pipe alone does not wait for whatever comes.
            let is_any = matches!(wait.object_kind, ObjectKind::None | ObjectKind::Epoll);
            part.any_ns += if is_any && wait.reason == WaitReason::Multiplex { ns } else { 0 };
            part.unnamed_ns += if wait.reason == WaitReason::Socket { ns } else { 0 };
            continue;
        }
        let Some((kind, address)) = whom(trace, sides, wait) else {
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

/// What is at the other end of a socket that is waited for, and its address.
fn whom<'a>(trace: &'a Trace, sides: &SocketSides, wait: &Wait) -> Option<(PeerKind, &'a str)> {
    let name = SocketName::parse(trace.calls.name_of(ObjectKind::Socket, wait.object))?;
    let (own, is_open) = match name {
        SocketName::Internet { local, peer } => (local, !peer.ends_with(":0")),
        SocketName::Unix { side, address, other_end } => (address, side.is_some() || other_end != 0),
    };
    Some(match sides.of(wait) {
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
