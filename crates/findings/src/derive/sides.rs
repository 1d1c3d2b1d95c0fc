//! Of two programs that speak with each other: which one asks. It judges nothing.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::socket_name::Side;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, Wait};

use super::children::ancestors;
use super::in_flight::{self, Message, Messages};
use super::socket_sides::SocketSides;
use super::syscall_names::is_accept;

/// What passed between programs, and who asks whom.
pub struct Spoken {
    pub(super) messages: Messages,
    pub(super) sides: Sides,
}

impl Spoken {
    /// Looks at all wakeups between programs.
    pub fn new(trace: &Trace) -> Spoken {
        let messages = in_flight::messages(trace);
        Spoken { sides: Sides::new(trace, &messages), messages }
    }

    /// What passed between two, in time order.
    pub(super) fn between(&self, one: ProcessId, other: ProcessId) -> Option<&[Message]> {
        self.messages.get(&(one.min(other), one.max(other))).map(Vec::as_slice)
    }
}

/// Which of two processes asks the other, if they speak over the network and that is sure.
pub fn who_asks(trace: &Trace, (one, other): (ProcessId, ProcessId)) -> Option<ProcessId> {
    let Spoken { messages, sides } = Spoken::new(trace);
    messages.get(&(one.min(other), one.max(other)))?;
    let asks = |process, peer| sides.asks(trace, process, Some(peer)) == Some(true);
    match (asks(one, other), asks(other, one)) {
        (true, false) => Some(one),
        (false, true) => Some(other),
        _ => None,
    }
}

/// Who asks whom.
pub(super) struct Sides {
    /// Processes that accept connections.
    accepting: BTreeSet<ProcessId>,
    /// Processes that were there before the recording.
    older: BTreeSet<ProcessId>,
    /// Which end their sockets are.
    sockets: SocketSides,
    /// Of two processes, which of them connected to the other.
    connected: BTreeMap<(ProcessId, ProcessId), ProcessId>,
    /// Of two processes, when one woke the other first, and which: who asks speaks first, the other answers.
    first: BTreeMap<(ProcessId, ProcessId), (Timestamp, ProcessId)>,
}

impl Sides {
    /// What passes by the network goes before other wakeups: who starts a server may wait for its word that it listens.
    pub(super) fn new(trace: &Trace, messages: &Messages) -> Sides {
        let mut first: BTreeMap<(ProcessId, ProcessId), (Timestamp, ProcessId)> = BTreeMap::new();
        let process = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
        for woken in trace.target_threads() {
            for wakeup in trace.wakeups.of(woken).iter().filter(|one| one.context == WakeContext::Thread) {
                let (Some(from), Some(to)) = (process(wakeup.waker), process(woken)) else { continue };
                if from != to {
                    let entry = first.entry((from.min(to), from.max(to))).or_insert((wakeup.at, from));
                    *entry = (*entry).min((wakeup.at, from));
                }
            }
        }
        let by_network =
            messages.iter().filter_map(|(pair, between)| Some((*pair, in_flight::first(trace, between)?)));
        first.extend(by_network);
        let older = trace.threads.iter().filter(|thread| thread.began_before).map(|thread| thread.process);
        let sockets = SocketSides::new(trace);
        let connected = sockets.of_pairs(trace, messages);
        Sides { accepting: accepting(trace), older: older.collect(), sockets, connected, first }
    }

    /// Which end sockets are.
    pub(super) fn sockets(&self) -> &SocketSides {
        &self.sockets
    }

    /// Whether one waits for connections to accept.
    pub(super) fn accepts(&self, process: ProcessId) -> bool {
        self.accepting.contains(&process)
    }

    /// Whether it is known which of two connected to the other.
    pub(super) fn is_by_connection(&self, one: ProcessId, other: ProcessId) -> bool {
        self.connected.contains_key(&(one.min(other), one.max(other)))
    }

    /// Whether one of two is known to accept connections: then that tells.
    pub(super) fn accepts_any(&self, one: ProcessId, other: ProcessId) -> bool {
        self.accepts(one) || self.accepts(other) || self.is_by_connection(one, other)
    }

    /// Whether a wait is at the end of a connection that was made, not accepted.
    pub(super) fn is_connected(&self, wait: &Wait) -> bool {
        self.sockets.of(wait) == Some(Side::Connected)
    }

    /// Whether a wait of a process is for an answer of that peer, and whether that is sure; `None`: it is not.
    pub(super) fn asks_by(
        &self,
        trace: &Trace,
        (process, wait): (ProcessId, &Wait),
        peer: Option<ProcessId>,
    ) -> Option<bool> {
        match self.sockets.of(wait) {
            Some(Side::Accepted) => None,
            // Of one elsewhere it is not known what it does.
            Some(Side::Connected) => Some(peer.is_some()),
            None => self.asks(trace, process, peer),
        }
    }

    /// Whether a process asks that peer, and whether that is sure; `None`: it does not.
    pub(super) fn asks(&self, trace: &Trace, process: ProcessId, peer: Option<ProcessId>) -> Option<bool> {
        let Some(peer) = peer else { return (!self.accepts(process)).then_some(false) };
        if let Some(connected) = self.connected.get(&(process.min(peer), process.max(peer))) {
            return (*connected == process).then_some(true);
        }
        match (self.accepts(process), self.accepts(peer)) {
            // Who accepts may ask others in turn (a proxy): seen from its beginning, who spoke first tells.
            (true, false) if self.older.contains(&process) || self.older.contains(&peer) => None,
            (false, true) => Some(true),
            _ => {
                let (_, spoke) = self.first.get(&(process.min(peer), process.max(peer)))?;
                (*spoke == process).then(|| {
                    !ancestors(trace, process).contains(&peer) && !ancestors(trace, peer).contains(&process)
                })
            }
        }
    }
}

/// Processes that accept connections: they wait for questions, too.
fn accepting(trace: &Trace) -> BTreeSet<ProcessId> {
    trace.waits.iter().filter(|wait| is_accept(wait.syscall)).map(|wait| wait.process).collect()
}
