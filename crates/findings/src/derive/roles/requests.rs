//! Waits with poll(2) and similar calls for a single socket, by the side that opened the connection. The
//! opening side sent a request and waits for the response, as in recv(2). libpq and Python's requests wait
//! like this. The accepting side waits for its next request.

use holdup_events::socket_name::Side;
use holdup_events::{ObjectKind, Trace, Wait, WaitReason};

use crate::derive::socket_sides::SocketSides;

/// Per row of the waits: whether it is such a wait for a response. Empty if no thread polls a single socket.
pub(super) fn await_answers(trace: &Trace) -> Vec<bool> {
    let polls = |wait: &Wait| {
        wait.reason == WaitReason::Multiplex && wait.object_kind == ObjectKind::Socket && wait.object != 0
    };
    if !trace.waits.iter().any(polls) {
        return Vec::new();
    }
    let sides = SocketSides::new(trace);
    trace.waits.iter().map(|wait| polls(wait) && sides.side_of(wait) == Some(Side::Connected)).collect()
}
