//! Questions under way between two programs of which the one that asks polls for whatever comes next (epoll): when each was asked and
//! answered. It judges nothing.
//!
//! A message is a wakeup by which a thread of one program ended a wait for the network in the other. Each answer is taken to be for the
//! last question that has none: how long all took together does not depend on it, and a question that is never answered (a connection that
//! ends) stays by itself. What comes unasked is none. Messages to who is awake leave no wakeup: of a peer that sleeps most of the time
//! hardly any is missing.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace, WaitReason};

use super::syscall_names::polls_few;

/// A question that was answered to a thread that polls.
pub(super) struct Answered {
    /// When it was asked, and when the answer came.
    pub span: (Timestamp, Timestamp),
    /// Who answered.
    pub peer: ThreadId,
    /// Who waited for it, and in which slice.
    pub thread: ThreadId,
    /// Row of that slice.
    pub row: usize,
}

/// What one of two programs asked the other.
pub(super) struct Asked {
    /// Those questions whose answers came to who polls.
    pub answered: Vec<Answered>,
    /// Of what came from the peer, most was an answer.
    pub is_told: bool,
}

/// A wakeup across programs.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub at: Timestamp,
    /// Who woke whom.
    pub from: ThreadId,
    pub to: ThreadId,
    /// Of the slice that it ended.
    pub row: u32,
}

/// By two programs, the lower one first: what passed between them, in time order.
pub(super) type Messages = BTreeMap<(ProcessId, ProcessId), Vec<Message>>;

/// A question that is so many times as old as answers took on average, of so many at least, never had one.
const LONG_MAX: u64 = 10;
/// See there.
const FEW: u64 = 8;
/// Of what came, so much is an answer, if questions are seen one by one.
const ANSWERS_MIN: f64 = 0.75;

/// All that passed between programs.
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

/// When the first of them was sent, and by whom.
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
    for (row, slice) in trace.slices.rows(to).zip(trace.slices.of(to)) {
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

/// What was asked of `peer`, of all that passed between it and who asks.
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

/// Whether a thread polled for the answer, or for whatever comes: since when, the question says.
fn polls_for(trace: &Trace, message: &Message) -> bool {
    let wait = trace.wait(trace.slices.at(message.to, message.row as usize).wait);
    wait.reason == WaitReason::Multiplex && !polls_few(wait.syscall)
}
