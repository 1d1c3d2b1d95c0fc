//! Who asks another program and waits for the answer, while that one does nothing but wait for the clock or for the outside itself;
//! and how many such waits there were at once. It judges nothing.
//!
//! A wait counts that is for one peer: in a call that receives, or in one that polls a few descriptors. Who waits for whatever
//! comes next (epoll) may have many answers under way, or none: there what passes between the two tells (`in_flight.rs`). A peer on
//! the same machine is known by having ended the wait, and must have been asleep by a clock of its own in the middle of it. Of two,
//! the one that connected to the other asks (`socket_sides.rs`), and the one that accepts connections is asked; where neither is seen, or it
//! may be the way in of one that asks others, the one asks that woke the other first (of a process and its descendant that is no more than a guess). Where neither is seen to accept, and one
//! alone waits for the other's clock, that one asks: the first word may not have been seen. Of one elsewhere, or of a program that is not
//! recorded, nothing is known; whoever accepts connections, or polls, may be waiting for a question.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::socket_name::SocketName;
use holdup_events::tables::Slice;
use holdup_events::{ObjectKind, ProcessId, ThreadId, Timestamp, Trace};

use super::cover::{Cover, Span};
use super::holders::{Basis, Hold, HoldKind, Holders};
use super::in_flight;
use super::sides::Spoken;
use super::syscall_names::{polls_few, receives};
use crate::charge::Charge;

/// Programs of one name that ask one peer.
#[derive(Clone, Debug)]
pub struct Asking {
    /// One of them, the first.
    pub process: ProcessId,
    /// Who is asked; `None`: somebody elsewhere.
    pub peer: Option<ProcessId>,
    /// Of `None`: where, as far as it is known, and how much of `ns` each is (0 to 1), the most first.
    pub addresses: Vec<(String, f64)>,
    /// Threads that asked.
    pub threads: BTreeSet<ThreadId>,
    /// How often.
    pub waits: u64,
    /// How long in all (ns).
    pub ns: u64,
    /// For how long at least one of them waited (ns).
    pub any_ns: u64,
    /// It is known that these ask, and do not wait to be asked.
    pub is_sure: bool,
    /// Most of it is known by messages alone: there may be more, and more at once (`in_flight.rs`).
    pub by_messages: bool,
    /// Their waits.
    pub waited: Charge,
    /// What the peer's threads slept meanwhile.
    pub slept: Charge,
}

impl Asking {
    /// How many of these waits there were at once, on average.
    pub fn at_once(&self) -> f64 {
        self.ns as f64 / self.any_ns.max(1) as f64
    }
}

/// A wait of that kind: its row, and who ended it, if that one slept by a clock meanwhile.
struct Wait {
    row: usize,
    span: (Timestamp, Timestamp),
    thread: ThreadId,
    peer: Option<ThreadId>,
    is_sure: bool,
    by_message: bool,
}

/// Derives them, those that waited longest first.
pub fn derive(trace: &Trace, holders: &Holders, (spoken, directions): &Heard) -> Vec<Asking> {
    let mut groups = Groups::new();
    for thread in trace.target_threads() {
        let process = trace.threads[thread.index()].process;
        for hold in holders.of(thread) {
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
        .map(|(any_ns, (_, peer), waits)| summed((trace, holders), peer, (&waits, any_ns)))
        .collect()
}

/// Programs' waits by who waits and for whom.
type Groups = BTreeMap<(String, Option<ProcessId>), Vec<Wait>>;

/// Adds the questions of threads that poll.
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

/// Who asks whom over the network (who asks, who is asked), and whether that is sure.
pub type Directions = BTreeMap<(ProcessId, ProcessId), bool>;

/// What passed between programs, and who asks whom.
pub type Heard = (Spoken, Directions);

/// Looks at all that passed between programs.
pub fn heard(trace: &Trace, holders: &Holders) -> Heard {
    let spoken = Spoken::new(trace);
    let directions = directions(trace, holders, &spoken);
    (spoken, directions)
}

/// Of all that speak with each other. Of two of which neither is seen to accept, the first word may not have been seen: then who sleeps
/// by a clock before it speaks again is asked.
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

/// Of one who speaks with several of a name that one parent started, a word may have been missed: most of them tell, but of those that
/// are known otherwise.
fn turn_strays(trace: &Trace, directions: &mut Directions, is_known: impl Fn(ProcessId, ProcessId) -> bool) {
    let kind = |id: ProcessId| Some((trace.processes.get(id.index())?.parent, trace.process_name(id)));
    // By those who are alike, and the other: who is asked by them, and who asks them.
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

/// So many times as often one of two waits for the other's clock as that one for its, if it is the one that asks.
const OTHER_SIDE_MIN: usize = 10;

/// The questions of a process that polls for the answers, while its peer slept by a clock.
struct InFlight {
    waits: Vec<Wait>,
    /// Of what came from the peer, most was an answer.
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
        sleeps_meanwhile((trace, holders), one.peer, span).then_some(Wait {
            row,
            span,
            thread,
            peer: Some(one.peer),
            is_sure: false,
            by_message: true,
        })
    });
    InFlight { waits: waits.collect(), is_told: asked.is_told }
}

/// Those behind them wait for less: each has sets of slices of its own, and a server may have a process for each client.
const ASKING_MAX: usize = 16;

fn any_ns(waits: &[Wait]) -> u64 {
    Cover::of(waits.iter().map(|wait| wait.span).collect()).length_ns()
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
        peers.into_iter().map(|(thread, spans)| (thread, Cover::of(spans))).collect();
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

/// To whom the sockets lead that are waited for.
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

/// The rows of what a thread slept by a clock in a span, if only for a part.
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

/// Whether a wait is for an answer for which nobody works: of whom, if that one is on this machine. `is_end`: it is at the end of a
/// connection that was made, not accepted.
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
    // Who polls may wait for anything, but at the end of a connection that it made itself.
    let is_answer = receives(call) || is_end;
    if hold.basis == Basis::Interrupt {
        return is_answer.then_some(None);
    }
    let peer = hold.holder.filter(|_| hold.basis == Basis::Waker)?;
    let of = |thread: ThreadId| trace.threads.get(thread.index()).filter(|thread| thread.target);
    // Of a program that is not recorded nothing is known, either.
    let Some(peers) = of(peer) else { return is_answer.then_some(None) };
    if peers.process == of(slice.thread)?.process {
        return None;
    }
    sleeps_meanwhile((trace, holders), peer, (slice.start, slice.end)).then_some(Some(peer))
}

/// Whether a thread sleeps by a clock in the middle of a span.
pub(super) fn sleeps_meanwhile(
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
    fn whose_first_word_was_missed_asks_as_those_do_that_are_alike() {
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
            // The first question of this one was not seen.
            ((id(1), id(4)), true),
            // And this is another.
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
