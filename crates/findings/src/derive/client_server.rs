//! Client and service of two programs that exchange messages.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::socket_name::Side;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, Wait};

use super::children::ancestors;
use super::in_flight::{self, Message, Messages};
use super::socket_sides::SocketSides;
use super::syscall_names::is_accept;

/// Messages between programs, and the sides of each pair.
pub struct Spoken {
    pub(super) messages: Messages,
    pub(super) sides: Sides,
}

impl Spoken {
    /// Evaluates all wakeups between programs.
    pub fn new(trace: &Trace) -> Spoken {
        let messages = in_flight::messages(trace);
        Spoken { sides: Sides::new(trace, &messages), messages }
    }

    /// Messages between two processes, in time order.
    pub(super) fn between(&self, one: ProcessId, other: ProcessId) -> Option<&[Message]> {
        self.messages.get(&(one.min(other), one.max(other))).map(Vec::as_slice)
    }
}

/// The client of two processes, if they exchange messages over the network and the side is certain.
pub fn client_of(trace: &Trace, (one, other): (ProcessId, ProcessId)) -> Option<ProcessId> {
    let Spoken { messages, sides } = Spoken::new(trace);
    messages.get(&(one.min(other), one.max(other)))?;
    let asks = |process, peer| sides.asks(trace, process, Some(peer)) == Some(true);
    match (asks(one, other), asks(other, one)) {
        (true, false) => Some(one),
        (false, true) => Some(other),
        _ => None,
    }
}

/// Client and service of each pair of processes.
pub(super) struct Sides {
    /// Processes that accept connections.
    accepting: BTreeSet<ProcessId>,
    /// Processes that were there before the recording.
    older: BTreeSet<ProcessId>,
    /// Which end their sockets are.
    sockets: SocketSides,
    /// For two processes: the one that connected to the other.
    connected: BTreeMap<(ProcessId, ProcessId), ProcessId>,
    /// For two processes: time and sender of the first wakeup. The client sends first, and the service
    /// responds.
    first: BTreeMap<(ProcessId, ProcessId), (Timestamp, ProcessId)>,
}

impl Sides {
    /// Network messages take precedence over other wakeups. A process that starts a server may wait for its
    /// readiness message.
    pub(super) fn new(trace: &Trace, messages: &Messages) -> Sides {
        let mut first: BTreeMap<(ProcessId, ProcessId), (Timestamp, ProcessId)> = BTreeMap::new();
        let process = |thread: ThreadId| trace.threads.get(thread.index()).map(|thread| thread.process);
        for woken in trace.target_threads() {
            for wakeup in
                trace.wakeups.of_thread(woken).iter().filter(|one| one.context == WakeContext::Thread)
            {
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

    /// Whether accepts or connections decide the sides of these two processes.
    pub(super) fn accepts_any(&self, one: ProcessId, other: ProcessId) -> bool {
        self.accepts(one) || self.accepts(other) || self.is_by_connection(one, other)
    }

    /// Whether a wait is at the end of a connection that was made, not accepted.
    pub(super) fn is_connected(&self, wait: &Wait) -> bool {
        self.sockets.side_of(wait) == Some(Side::Connected)
    }

    /// Whether a process's wait is for a response of that peer. The inner value is whether that is certain.
    /// `None` if it is not.
    pub(super) fn asks_by(
        &self,
        trace: &Trace,
        (process, wait): (ProcessId, &Wait),
        peer: Option<ProcessId>,
    ) -> Option<bool> {
        match self.sockets.side_of(wait) {
            Some(Side::Accepted) => None,
            // The activity of a peer on another host is unknown.
            Some(Side::Connected) => Some(peer.is_some()),
            None => self.asks(trace, process, peer),
        }
    }

    /// Whether a process is the client of that peer. The inner value is whether that is certain. `None` if it
    /// is not.
    pub(super) fn asks(&self, trace: &Trace, process: ProcessId, peer: Option<ProcessId>) -> Option<bool> {
        let Some(peer) = peer else { return (!self.accepts(process)).then_some(false) };
        if let Some(connected) = self.connected.get(&(process.min(peer), process.max(peer))) {
            return (*connected == process).then_some(true);
        }
        match (self.accepts(process), self.accepts(peer)) {
            // A process that accepts connections may itself be a client (a proxy). If both were recorded from
            // their start, the first message decides.
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

/// Processes that accept connections, and therefore also wait for requests.
fn accepting(trace: &Trace) -> BTreeSet<ProcessId> {
    trace.waits.iter().filter(|wait| is_accept(wait.syscall)).map(|wait| wait.process).collect()
}
