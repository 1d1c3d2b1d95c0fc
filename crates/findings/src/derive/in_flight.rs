//! Requests in flight between two programs whose client waits for any event (epoll): send and response time
//! of each request.
//!
//! A message is a wakeup by which a thread of one program ended a network wait in the other. Each response is
//! paired with the last request that has none. The total time does not depend on this choice. A request
//! without a response (a closed connection) stays alone. Unsolicited messages do not count. Messages to a
//! running thread leave no wakeup, but to a peer that mostly sleeps hardly any is missing.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, WaitReason};

use super::syscall_names::polls_few;

/// A request whose response woke a polling thread.
pub(super) struct Answered {
    /// Time of the request and of the response.
    pub span: (Timestamp, Timestamp),
    /// Thread that sent the response.
    pub peer: ThreadId,
    /// Thread that waited for it.
    pub thread: ThreadId,
    /// Row of the slice in which it waited.
    pub row: usize,
}

/// Requests of one program to another.
pub(super) struct Asked {
    /// Requests whose responses woke a polling thread.
    pub answered: Vec<Answered>,
    /// Whether most of the peer's messages were responses.
    pub is_told: bool,
}

/// A wakeup across programs.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub at: Timestamp,
    /// The waker and the woken thread.
    pub from: ThreadId,
    pub to: ThreadId,
    /// Row of the slice that the message ended.
    pub row: u32,
}

/// By two programs, the lower one first: what passed between them, in time order.
pub(super) type Messages = BTreeMap<(ProcessId, ProcessId), Vec<Message>>;

/// A request older than this many mean response times has no response. Applies after at least [`FEW`]
/// responses.
const LONG_MAX: u64 = 10;
/// Minimum number of responses for [`LONG_MAX`] to apply.
const FEW: u64 = 8;
/// Minimum share of the peer's messages that are responses, for requests to be known one by one.
const ANSWERS_MIN: f64 = 0.75;

/// All messages between programs.
pub(super) fn messages(trace: &Trace) -> Messages {
    let mut pairs = Messages::new();
    for to in trace.target_threads() {
        add_messages(trace, to, &mut pairs);
    }
    for messages in pairs.values_mut() {
        messages.sort_unstable_by_key(|message| (message.at, message.to));
    }
    pairs
}

/// Time and sender of the first message.
pub(super) fn first(trace: &Trace, messages: &[Message]) -> Option<(Timestamp, ProcessId)> {
    let message = messages.first()?;
    Some((message.at, trace.threads.get(message.from.index())?.process))
}

/// Adds what ended waits of `to`.
fn add_messages(trace: &Trace, to: ThreadId, pairs: &mut Messages) {
    let process = |thread: ThreadId| {
        trace.threads.get(thread.index()).filter(|thread| thread.target).map(|thread| thread.process)
    };
    let Some(mine) = process(to) else { return };
    let mut near = 0;
    for (row, slice) in trace.slices.rows(to).zip(trace.slices.of_thread(to)) {
        let is_network = matches!(trace.wait(slice.wait).reason, WaitReason::Socket | WaitReason::Multiplex);
        if slice.state != ThreadState::Blocked || !is_network {
            continue;
        }
        let Some(wakeup) = trace.ended_by_near(&slice, &mut near) else { continue };
        let from = wakeup.waker;
        let theirs = process(from).filter(|theirs| *theirs != mine && wakeup.context == WakeContext::Thread);
        if let Some(theirs) = theirs {
            let pair = pairs.entry((mine.min(theirs), mine.max(theirs))).or_default();
            pair.push(Message { at: wakeup.at, from, to, row: row as u32 });
        }
    }
}

/// Requests to `peer`, from all messages between it and the client.
pub(super) fn asked(trace: &Trace, peer: ProcessId, messages: &[Message]) -> Asked {
    let (mut open, mut answered) = (Vec::new(), Vec::new());
    let (mut came, mut answers, mut took_ns) = (0u64, 0u64, 0u64);
    for message in messages {
        if trace.threads[message.to.index()].process == peer {
            open.push(message.at);
            continue;
        }
        came += 1;
        let Some(since) = open.pop() else { continue };
        let ns = message.at.since(since).0;
        if answers >= FEW && ns > LONG_MAX * (took_ns / answers) {
            continue;
        }
        (answers, took_ns) = (answers + 1, took_ns + ns);
        if polls_for(trace, message) {
            let span = (since, message.at);
            answered.push(Answered {
                span,
                peer: message.from,
                thread: message.to,
                row: message.row as usize,
            });
        }
    }
    Asked { answered, is_told: answers as f64 >= ANSWERS_MIN * came as f64 }
}

/// Whether a thread waited for any event when the response came. The start of the wait is the request.
fn polls_for(trace: &Trace, message: &Message) -> bool {
    let wait = trace.wait(trace.slices.at(message.to, message.row as usize).wait);
    wait.reason == WaitReason::Multiplex && !polls_few(wait.syscall)
}
