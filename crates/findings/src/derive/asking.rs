//! Clients that wait for another program's response while that program only waits for a clock or for an
//! outside event. Also the number of such waits in parallel.
//!
//! A wait counts if it is for one peer: in a call that receives, or that polls a few descriptors. A thread
//! that waits for any event (epoll) may have many requests in flight or none. For such threads the messages
//! between the two programs decide (`in_flight.rs`).
//!
//! A peer on this machine is known because it ended the wait. It must have slept by a timer of its own in the
//! middle of the wait. These rules decide the direction:
//!
//! - The process that connected to the other is the client (`socket_sides.rs`), and the one that accepts
//!   connections is the service.
//! - If neither is recorded, the first to wake the other is the client. The same applies if the peer may be
//!   the front end of a service that is itself a client. For a process and its descendant this is only a
//!   guess.
//! - If no accept is recorded and only one process waits for the other's timer, that one is the client. The
//!   first message may be missing.
//!
//! A peer on another host, or in a program that was not recorded, is unknown. A process that accepts
//! connections, or polls, may then be waiting for a request.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::socket_name::SocketName;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ObjectKind, ProcessId, ThreadId, Timestamp, Trace};

use super::client_server::Spoken;
use super::cover::{Cover, Span};
use super::holders::{Basis, Hold, HoldKind, Holders};
use super::in_flight;
use super::syscall_names::{polls_few, receives};
use crate::charge::Charge;

/// Clients with one name, and the process that they wait for.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The first of the client processes.
    pub process: ProcessId,
    /// The service. `None` for another host or an unrecorded program.
    pub peer: Option<ProcessId>,
    /// If `peer` is `None`: known addresses with their share of `ns` (0 to 1), largest first.
    pub addresses: Vec<(String, f64)>,
    /// Threads that sent requests.
    pub threads: BTreeSet<ThreadId>,
    /// Number of waits.
    pub waits: u64,
    /// Total wait time (ns).
    pub ns: u64,
    /// For how long at least one of them waited (ns).
    pub any_ns: u64,
    /// Whether it is certain that these processes are the clients.
    pub is_sure: bool,
    /// Whether most waits are known only from messages. The true number, in total and in parallel, may then
    /// be higher (`in_flight.rs`).
    pub by_messages: bool,
    /// Median length of a wait (ns).
    pub median_ns: u64,
    /// Whether all waits are on connections that the clients opened.
    pub is_connected: bool,
    /// The sockets of these waits, by inode.
    pub sockets: BTreeSet<u64>,
    /// Running time, during the waits, of the threads that ended them, for an unrecorded program on this machine
    /// (ns).
    pub peer_ran_ns: u64,
    /// Waits of the clients.
    pub waited: Charge,
    /// Sleeps of the peer's threads during these waits.
    pub slept: Charge,
}

impl Asking {
    /// Mean number of these waits in parallel.
    pub fn at_once(&self) -> f64 {
        self.ns as f64 / self.any_ns.max(1) as f64
    }
}

/// One such wait: its row, and the thread that ended it, if that thread slept by a timer during the wait.
struct Wait {
    row: usize,
    span: (Timestamp, Timestamp),
    thread: ThreadId,
    peer: Option<ThreadId>,
    /// The thread of an unrecorded program on this machine that ended it.
    unrecorded: Option<ThreadId>,
    is_sure: bool,
    by_message: bool,
}

/// Derives them, those that waited longest first.
pub fn derive(trace: &Trace, holders: &Holders, (spoken, directions): &Heard) -> Vec<Asking> {
    let mut groups = Groups::new();
    for thread in trace.target_threads() {
        let process = trace.threads[thread.index()].process;
        for hold in holders.of_thread(thread) {
            let slice = trace.slices.at(thread, hold.row as usize);
            let is_end = spoken.sides.is_connected(trace.wait(slice.wait));
            let Some(peer) = asked((trace, holders), (&slice, is_end), &hold) else { continue };
            let of_peer = peer.map(|thread| trace.threads[thread.index()].process);
            let by = (process, trace.wait(slice.wait));
            let Some(is_sure) = spoken.sides.asks_by(trace, by, of_peer) else { continue };
            let key = (trace.process_name(process).to_owned(), of_peer);
            let wait = Wait {
                row: hold.row as usize,
                span: (slice.start, slice.end),
                thread,
                peer,
                unrecorded: hold.holder.filter(|_| peer.is_none() && hold.basis == Basis::Waker),
                is_sure,
                by_message: false,
            };
            groups.entry(key).or_default().push(wait);
        }
    }
    add_in_flight((trace, holders), (spoken, directions), &mut groups);
    let mut longest: Vec<_> = groups.into_iter().map(|(key, waits)| (any_ns(&waits), key, waits)).collect();
    longest.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    longest.truncate(ASKING_MAX);
    longest
        .into_iter()
        .map(|(any_ns, (_, peer), waits)| {
            let asking = summed((trace, holders), peer, (&waits, any_ns));
            let is_end = |wait: &Wait| {
                spoken.sides.is_connected(trace.wait(trace.slices.at(wait.thread, wait.row).wait))
            };
            Asking { is_connected: waits.iter().all(is_end), ..asking }
        })
        .collect()
}

/// Waits by waiting program and awaited process.
type Groups = BTreeMap<(String, Option<ProcessId>), Vec<Wait>>;

/// Adds the requests of threads that poll.
fn add_in_flight(
    (trace, holders): (&Trace, &Holders),
    (spoken, directions): (&Spoken, &Directions),
    groups: &mut Groups,
) {
    for ((process, peer), is_sure) in directions {
        let Some(between) = spoken.between(*process, *peer) else { continue };
        let InFlight { waits, is_told } = in_flight_of((trace, holders), *peer, between);
        if !waits.is_empty() {
            let key = (trace.process_name(*process).to_owned(), Some(*peer));
            let sure = |wait: Wait| Wait { is_sure: *is_sure && is_told, ..wait };
            groups.entry(key).or_default().extend(waits.into_iter().map(sure));
        }
    }
}

/// Client and service of each pair of processes, and whether that is certain.
pub type Directions = BTreeMap<(ProcessId, ProcessId), bool>;

/// Messages between programs, and their clients and services.
pub type Heard = (Spoken, Directions);

/// Collects all messages between programs.
pub fn heard(trace: &Trace, holders: &Holders) -> Heard {
    let spoken = Spoken::new(trace);
    let directions = directions(trace, holders, &spoken);
    (spoken, directions)
}

/// Client and service for all pairs of processes with messages. If no accept is recorded, the first message
/// may be missing. The process that sleeps by a timer before its messages is then the service.
fn directions(trace: &Trace, holders: &Holders, spoken: &Spoken) -> Directions {
    let mut directions = Directions::new();
    for ((one, other), between) in &spoken.messages {
        let waits = |peer| in_flight_of((trace, holders), peer, between).waits.len();
        let pairs = [(*one, *other), (*other, *one)];
        let by_clock = (!spoken.sides.accepts_any(*one, *other)).then(|| {
            let (there, back) = (waits(*other), waits(*one));
            let is_seen = |waits: usize, opposite: usize| opposite * OTHER_SIDE_MIN < waits;
            [is_seen(there, back), is_seen(back, there)]
        });
        for (number, pair) in pairs.into_iter().enumerate() {
            let said = spoken.sides.asks(trace, pair.0, Some(pair.1));
            let is_sure = match by_clock.filter(|seen| seen.contains(&true)) {
                Some(seen) => seen[number].then_some(said == Some(true)),
                None => said,
            };
            directions.extend(is_sure.map(|is_sure| (pair, is_sure)));
        }
    }
    turn_strays(trace, &mut directions, |one, other| spoken.sides.is_by_connection(one, other));
    directions
}

/// Corrects single directions. For a process that communicates with several like-named children of one
/// parent, a message may be missing. The direction of most of them then applies to all, except pairs that are
/// known otherwise.
fn turn_strays(trace: &Trace, directions: &mut Directions, is_known: impl Fn(ProcessId, ProcessId) -> bool) {
    let kind = |id: ProcessId| Some((trace.processes.get(id.index())?.parent, trace.process_name(id)));
    // By the similar processes and their peer: processes that are clients, and processes that are services.
    let mut votes: BTreeMap<_, [Vec<ProcessId>; 2]> = BTreeMap::new();
    for (one, other) in directions.keys() {
        votes.entry((kind(*one), *other)).or_default()[0].push(*one);
        votes.entry((kind(*other), *one)).or_default()[1].push(*other);
    }
    for ((_, other), [asking, asked]) in votes {
        for (few, most, is_asking) in [(&asked, &asking, true), (&asking, &asked, false)] {
            let few: Vec<&ProcessId> = few.iter().filter(|one| !is_known(**one, other)).collect();
            if most.len() < ALIKE_MIN || few.len() >= most.len() {
                continue;
            }
            for one in few {
                let pairs = [(*one, other), (other, *one)];
                directions.remove(&pairs[usize::from(is_asking)]);
                directions.insert(pairs[usize::from(!is_asking)], false);
            }
        }
    }
}

/// Fewer that are alike may differ.
const ALIKE_MIN: usize = 2;

/// Minimum ratio of waits for the other's timer in one direction to those in the other direction, for a
/// client.
const OTHER_SIDE_MIN: usize = 10;

/// Requests of a process that polls for the responses while its peer sleeps by a timer.
struct InFlight {
    waits: Vec<Wait>,
    /// Whether most of the peer's messages were responses.
    is_told: bool,
}

fn in_flight_of(
    (trace, holders): (&Trace, &Holders),
    peer: ProcessId,
    between: &[in_flight::Message],
) -> InFlight {
    let asked = in_flight::asked(trace, peer, between);
    let waits = asked.answered.iter().filter_map(|one| {
        let (row, span, thread) = (one.row, one.span, one.thread);
        sleeps_during((trace, holders), one.peer, span).then_some(Wait {
            row,
            span,
            thread,
            peer: Some(one.peer),
            unrecorded: None,
            is_sure: false,
            by_message: true,
        })
    });
    InFlight { waits: waits.collect(), is_told: asked.is_told }
}

/// Maximum number of results. The rest waits for less. Each result has its own sets of slices, and a server
/// may have a process per client.
const ASKING_MAX: usize = 16;

fn any_ns(waits: &[Wait]) -> u64 {
    Cover::from_spans(waits.iter().map(|wait| wait.span).collect()).length_ns()
}

fn summed(
    (trace, holders): (&Trace, &Holders),
    peer: Option<ProcessId>,
    (waits, any_ns): (&[Wait], u64),
) -> Asking {
    let mut waited: BTreeMap<ThreadId, BTreeSet<usize>> = BTreeMap::new();
    let mut peers: BTreeMap<ThreadId, Vec<Span>> = BTreeMap::new();
    for wait in waits {
        waited.entry(wait.thread).or_default().insert(wait.row);
        if let Some(peer) = wait.peer {
            peers.entry(peer).or_default().push(wait.span);
        }
    }
    let meanwhile: BTreeMap<ThreadId, Cover> =
        peers.into_iter().map(|(thread, spans)| (thread, Cover::from_spans(spans))).collect();
    let process = waits.iter().map(|wait| trace.threads[wait.thread.index()].process).min();
    Asking {
        process: process.unwrap_or_default(),
        peer,
        addresses: if peer.is_none() { addresses(trace, waits) } else { Vec::new() },
        threads: waits.iter().map(|wait| wait.thread).collect(),
        waits: waits.len() as u64,
        ns: waits.iter().map(|wait| wait.span.1.since(wait.span.0).0).sum(),
        any_ns,
        is_sure: waits.iter().all(|wait| wait.is_sure),
        median_ns: median_ns(waits),
        is_connected: false,
        sockets: sockets(trace, waits),
        peer_ran_ns: waits.iter().map(|wait| ran_ns(trace, wait)).sum(),
        by_messages: 2 * waits.iter().filter(|wait| wait.by_message).count() > waits.len(),
        waited: Charge::of_rows(trace, |thread, take| {
            waited.get(&thread).into_iter().flatten().for_each(|row| take(*row));
        }),
        slept: Charge::of_rows(trace, |thread, take| {
            let Some(cover) = meanwhile.get(&thread) else { return };
            for (from, to) in cover.spans() {
                slept_within((trace, holders), thread, (*from, *to)).for_each(&mut *take);
            }
        }),
    }
}

fn median_ns(waits: &[Wait]) -> u64 {
    let mut lengths: Vec<u64> = waits.iter().map(|wait| wait.span.1.since(wait.span.0).0).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

fn sockets(trace: &Trace, waits: &[Wait]) -> BTreeSet<u64> {
    let objects = waits.iter().map(|wait| trace.wait(trace.slices.at(wait.thread, wait.row).wait));
    objects.filter(|one| one.object_kind == ObjectKind::Socket).map(|one| one.object).collect()
}

/// Running time during a wait of the unrecorded thread that ended it (ns).
fn ran_ns(trace: &Trace, wait: &Wait) -> u64 {
    let Some(thread) = wait.unrecorded else { return 0 };
    let (from, to) = wait.span;
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, from).unwrap_or_else(|| {
        rows.start + rows.clone().take_while(|row| trace.slices.span(thread, *row).end <= from).count()
    });
    (first..rows.end)
        .map(|row| trace.slices.at(thread, row))
        .take_while(|slice| slice.start < to)
        .filter(|slice| slice.state == ThreadState::Running)
        .map(|slice| slice.end.min(to).since(slice.start.max(from)).0)
        .sum()
}

/// Remote addresses of the sockets in these waits.
fn addresses(trace: &Trace, waits: &[Wait]) -> Vec<(String, f64)> {
    let mut by_address: BTreeMap<&str, u64> = BTreeMap::new();
    for wait in waits {
        let thing = trace.wait(trace.slices.at(wait.thread, wait.row).wait);
        // Files have inodes of the same numbers.
        if thing.object_kind != ObjectKind::Socket {
            continue;
        }
        let Some(name) = SocketName::parse(trace.calls.name_of(thing.object_kind, thing.object)) else {
            continue;
        };
        *by_address.entry(name.other()).or_default() += wait.span.1.since(wait.span.0).0;
    }
    let all: u64 = waits.iter().map(|wait| wait.span.1.since(wait.span.0).0).sum();
    let mut longest: Vec<(&str, u64)> = by_address.into_iter().filter(|(name, _)| !name.is_empty()).collect();
    longest.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    longest.into_iter().map(|(name, ns)| (name.to_owned(), ns as f64 / all.max(1) as f64)).collect()
}

/// Rows of a thread's timer sleeps that overlap with a span.
pub(super) fn slept_within<'a>(
    (trace, holders): (&'a Trace, &'a Holders),
    thread: ThreadId,
    (from, to): Span,
) -> impl Iterator<Item = usize> + 'a {
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, from).unwrap_or(rows.start);
    (first..rows.end)
        .take_while(move |row| trace.slices.span(thread, *row).start < to)
        .filter(move |row| sleeps_by_clock(holders, thread, *row))
}

/// Whether a wait is for a response while the peer sleeps. The inner value is the peer's thread if it is on
/// this machine. `is_end`: the wait is on a connection that this process opened.
fn asked(
    (trace, holders): (&Trace, &Holders),
    (slice, is_end): (&Slice, bool),
    hold: &Hold,
) -> Option<Option<ThreadId>> {
    let call = trace.wait(slice.wait).syscall;
    let is_one = match hold.kind {
        HoldKind::Socket => receives(call),
        HoldKind::Poll => polls_few(call),
        _ => false,
    };
    if !is_one {
        return None;
    }
    // A polling thread may wait for any event, unless it polls a connection that it opened itself.
    let is_answer = receives(call) || is_end;
    if hold.basis == Basis::Interrupt {
        return is_answer.then_some(None);
    }
    let peer = hold.holder.filter(|_| hold.basis == Basis::Waker)?;
    let of = |thread: ThreadId| trace.threads.get(thread.index()).filter(|thread| thread.target);
    // A program that was not recorded is unknown too.
    let Some(peers) = of(peer) else { return is_answer.then_some(None) };
    if peers.process == of(slice.thread)?.process {
        return None;
    }
    sleeps_during((trace, holders), peer, (slice.start, slice.end)).then_some(Some(peer))
}

/// Whether a thread sleeps by a timer in the middle of a span.
pub(super) fn sleeps_during(
    (trace, holders): (&Trace, &Holders),
    thread: ThreadId,
    (start, end): Span,
) -> bool {
    let middle = Timestamp(start.0 + end.since(start).0 / 2);
    trace.slices.covering(thread, middle).is_some_and(|row| sleeps_by_clock(holders, thread, row))
}

fn sleeps_by_clock(holders: &Holders, thread: ThreadId, row: usize) -> bool {
    holders.at(thread, row).is_some_and(|one| one.kind == HoldKind::Sleep || one.basis == Basis::Timer)
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::Process;

    use super::*;

    #[test]
    fn a_process_with_a_missed_first_request_has_its_siblings_direction() {
        let mut trace = Trace::default();
        for (pid, name) in (1..).zip(["parent", "service", "worker", "worker", "worker", "client", "worker"])
        {
            let parent = (pid > 1).then_some(ProcessId(0));
            trace.processes.push(Process { pid, name: name.to_owned(), target: true, parent });
        }
        let id = |number: u32| ProcessId(number);
        let mut directions: Directions = [
            ((id(2), id(1)), true),
            ((id(3), id(1)), true),
            // The first request of this process was not recorded.
            ((id(1), id(4)), true),
            // A process with another name.
            ((id(1), id(5)), true),
            // It connected to this one.
            ((id(1), id(6)), true),
        ]
        .into();
        let known = |one: ProcessId, other: ProcessId| (one, other) == (id(6), id(1));
        turn_strays(&trace, &mut directions, known);
        let turned: Directions = [
            ((id(2), id(1)), true),
            ((id(3), id(1)), true),
            ((id(4), id(1)), false),
            ((id(1), id(5)), true),
            ((id(1), id(6)), true),
        ]
        .into();
        assert_eq!(directions, turned);
    }
}
