//! Connections whose first packet had to be sent again: who makes them waits for a whole second, or several. It judges nothing.

use holdup_events::tables::{CountKind, Slice, ThreadState};
use holdup_events::{Trace, WaitReason};

use crate::charge::Charge;

const SECOND_NS: u64 = 1_000_000_000;
/// The kernel sends a first packet again after a second (RFC 6298; `TCP_TIMEOUT_INIT` in include/net/tcp.h), then after as long again
/// (`tcp_syn_linear_timeouts`, Linux 6.5) or twice as long: an answer ends the wait soon after one of these.
const LATE_NS: u64 = 80_000_000;
/// Its timers may fire that much before the wait has lasted for so long.
const EARLY_NS: u64 = 10_000_000;
/// Who waits for longer than so many seconds waits for something else.
const SECONDS_MAX: u64 = 31;
/// `connect` of x86-64.
const CONNECT: i32 = 42;
/// `accept` and `accept4`.
const ACCEPT: [i32; 2] = [43, 288];

/// What is known of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connects {
    /// First packets that were sent again, in the network namespace.
    pub sent_again: u64,
    /// Connections that found the queue of a listening socket full, in the network namespace.
    pub overflows: u64,
    /// Waits that such a packet ended; where there are none, but a queue was full, those of who accepts, ...
    pub charge: Charge,
    /// ... which is so, ...
    pub accepts: bool,
    /// ... how many, ...
    pub waits: u64,
    /// ... and how many of them in `connect` itself. The others wait for a descriptor that may be anything's.
    pub sure: u64,
}

/// Of a recording that counted no such packet, nothing.
pub fn derive(trace: &Trace) -> Connects {
    let count = |what: CountKind| -> u64 {
        trace.kernel_counts.iter().filter(|row| row.what == what).map(|row| row.count).sum()
    };
    let (sent_again, overflows) = (count(CountKind::SynRetransmits), count(CountKind::ListenOverflows));
    if sent_again == 0 {
        return Connects { overflows, ..Connects::default() };
    }
    let is_one = |slice: &Slice| how(trace, slice).is_some();
    let charge = Charge::of(trace, is_one);
    let (mut waits, mut sure) = (0, 0);
    for slice in charge.slices(trace) {
        waits += 1;
        sure += u64::from(how(trace, &slice) == Some(How::Connects));
    }
    if waits > 0 || overflows == 0 {
        return Connects { sent_again, overflows, charge, accepts: false, waits, sure };
    }
    // Event loops connect without a wait of its own. Who would accept waits as long.
    let charge = Charge::of(trace, |slice| accepts(trace, slice));
    let waits = charge.slices(trace).count() as u64;
    Connects { sent_again, overflows, charge, accepts: true, waits, sure: 0 }
}

fn accepts(trace: &Trace, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked && ACCEPT.contains(&trace.wait(slice.wait).syscall)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Connects,
    Looks,
}

/// Whether a wait ended soon after a whole second, by a packet.
fn how(trace: &Trace, slice: &Slice) -> Option<How> {
    if slice.state != ThreadState::Blocked || trace.timed_out(slice) {
        return None;
    }
    let ns = slice.duration().0;
    let seconds = (ns + EARLY_NS) / SECOND_NS;
    if seconds == 0 || seconds > SECONDS_MAX || ns + EARLY_NS - seconds * SECOND_NS > EARLY_NS + LATE_NS {
        return None;
    }
    let wait = trace.wait(slice.wait);
    match wait.reason {
        WaitReason::Socket if wait.syscall == CONNECT => Some(How::Connects),
        WaitReason::Multiplex => Some(How::Looks),
        _ => None,
    }
}
