//! Delayed sends: programs that send to a peer, wait for a timeout, and send more without having received a
//! response. The peer waited for the rest. Examples are HTTP clients with `Expect: 100-continue`, and buffers
//! that a timer flushes.

use std::collections::BTreeMap;

use holdup_events::{ProcessId, Timestamp, Trace};

use super::client_server::Spoken;
use super::in_flight::Message;
use crate::charge::Charge;

/// A shorter pause (ns) is a program that is at work.
const PAUSE_MIN_NS: u64 = 5_000_000;
/// The timer ended at most so long (ns) before it spoke on.
const AT_ONCE_NS: u64 = 2_000_000;
/// Minimum number of responses per message of a peer that waits for messages. A peer with fewer only receives
/// notifications.
const ANSWERS_MIN: f64 = 0.25;

/// Messages that one program delayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptBack {
    /// Number of delays.
    pub times: u64,
    /// For how long, in all peers (ns).
    pub ns: u64,
    /// The median (ns).
    pub median_ns: u64,
    /// Program that sent on after the timeout.
    pub by: ProcessId,
    /// One of the peers that waited for it.
    pub from: ProcessId,
}

/// The program with the longest delays, among those with charged timer waits.
pub fn derive(trace: &Trace, charge: &Charge) -> Option<KeptBack> {
    let spoken = Spoken::new(trace);
    let ends = ends(trace, charge);
    let mut pauses: BTreeMap<ProcessId, (Vec<u64>, ProcessId)> = BTreeMap::new();
    for ((one, other), messages) in &spoken.messages {
        for (from, to) in [(*one, *other), (*other, *one)] {
            let Some(ends) = ends.get(&from) else { continue };
            let found = pauses_of(trace, (from, to), (messages, ends));
            if !found.is_empty() {
                let (all, _) = pauses.entry(from).or_insert_with(|| (Vec::new(), to));
                all.extend(found);
            }
        }
    }
    let (by, (mut each, from)) = pauses.into_iter().max_by_key(|(_, (each, _))| each.iter().sum::<u64>())?;
    each.sort_unstable();
    Some(KeptBack {
        times: each.len() as u64,
        ns: each.iter().sum(),
        median_ns: each[each.len() / 2],
        by,
        from,
    })
}

/// End times of each program's charged waits, ascending.
fn ends(trace: &Trace, charge: &Charge) -> BTreeMap<ProcessId, Vec<Timestamp>> {
    let mut ends: BTreeMap<ProcessId, Vec<Timestamp>> = BTreeMap::new();
    for slice in charge.slices(trace) {
        ends.entry(trace.threads[slice.thread.index()].process).or_default().push(slice.end);
    }
    ends.values_mut().for_each(|moments| moments.sort_unstable());
    ends
}

/// Each delay of a message from `from` to `to` (ns).
fn pauses_of(
    trace: &Trace,
    (from, to): (ProcessId, ProcessId),
    (messages, ends): (&[Message], &[Timestamp]),
) -> Vec<u64> {
    let speaks = |message: &Message| trace.threads[message.from.index()].process == from;
    let spoken = messages.iter().filter(|message| speaks(message)).count();
    let answers = messages.len() - spoken;
    if (answers as f64) < ANSWERS_MIN * spoken as f64 || from == to {
        return Vec::new();
    }
    let is_due = |at: Timestamp| {
        let behind = ends.partition_point(|end| *end <= at);
        behind.checked_sub(1).is_some_and(|last| at.since(ends[last]).0 <= AT_ONCE_NS)
    };
    let twice = messages.windows(2).filter(|pair| speaks(&pair[0]) && speaks(&pair[1]));
    let pauses = twice.filter(|pair| is_due(pair[1].at)).map(|pair| pair[1].at.since(pair[0].at).0);
    pauses.filter(|ns| *ns >= PAUSE_MIN_NS).collect()
}
