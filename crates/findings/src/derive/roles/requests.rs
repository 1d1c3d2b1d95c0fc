//! Waits with poll(2) and its like for one socket alone by who made the connection: it asked for something, and waits for
//! the answer, as in recv(2). libpq waits so, and Python's requests. Who accepted the connection waits for its next task.

use holdup_events::socket_name::Side;
use holdup_events::{ObjectKind, Trace, Wait, WaitReason};

use crate::derive::socket_sides::SocketSides;

/// Whether each row of the waits is such a one; nothing if there is none that polls for a socket alone.
pub(super) fn await_answers(trace: &Trace) -> Vec<bool> {
    let polls = |wait: &Wait| {
        wait.reason == WaitReason::Multiplex && wait.object_kind == ObjectKind::Socket && wait.object != 0
    };
    if !trace.waits.iter().any(polls) {
        return Vec::new();
    }
    let sides = SocketSides::new(trace);
    trace.waits.iter().map(|wait| polls(wait) && sides.of(wait) == Some(Side::Connected)).collect()
}
