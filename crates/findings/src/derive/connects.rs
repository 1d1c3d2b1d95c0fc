//! Connections whose first packet was retransmitted. The connecting thread waits for one or more whole
//! seconds.

use holdup_events::tables::{CountKind, Slice, ThreadState};
use holdup_events::{Trace, WaitReason};

use super::syscall_names::{ACCEPT, CONNECT};
use crate::charge::Charge;

/// As long as a first packet is waited for before it is sent again (ns).
pub const SECOND_NS: u64 = 1_000_000_000;
/// Maximum delay of the response after a retransmission (ns). The kernel retransmits a SYN after one second
/// (RFC 6298; `TCP_TIMEOUT_INIT` in include/net/tcp.h). Later intervals are also one second
/// (`tcp_syn_linear_timeouts`, Linux 6.5), or double each time.
const LATE_NS: u64 = 80_000_000;
/// Maximum time by which the kernel's timers may fire before the full second (ns).
const EARLY_NS: u64 = 10_000_000;
/// Maximum length of such a wait (s). Longer waits have another cause.
const SECONDS_MAX: u64 = 31;
/// Connections with retransmitted first packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connects {
    /// First packets that were sent again, in the network namespace.
    pub sent_again: u64,
    /// Connections that found the queue of a listening socket full, in the network namespace.
    pub overflows: u64,
    /// Which waits these are.
    pub how: How,
    /// Number of waits.
    pub waits: u64,
    /// The waits.
    pub charge: Charge,
}

/// Certainty that a wait is for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Waits in `connect` that ended shortly after a whole second.
    #[default]
    Connects,
    /// Waits for descriptors of any kind that ended shortly after a whole second.
    Looks,
    /// Waits in `accept` while the queue of a listening socket was full. Event loops connect without a
    /// separate wait.
    Accepts,
}

/// Returns the waits with the most certain criterion that has any. Empty if the recording counted no
/// retransmitted SYN.
pub fn derive(trace: &Trace) -> Connects {
    let count = |what: CountKind| -> u64 {
        trace.kernel_counts.iter().filter(|row| row.what == what).map(|row| row.count).sum()
    };
    let (sent_again, overflows) = (count(CountKind::SynRetransmits), count(CountKind::ListenOverflows));
    let mut found = Connects { sent_again, overflows, ..Connects::default() };
    if sent_again == 0 {
        return found;
    }
    for how in [How::Connects, How::Looks, How::Accepts] {
        if found.waits > 0 || how == How::Accepts && overflows == 0 {
            break;
        }
        let charge = Charge::matching(trace, |slice| is_one(trace, slice, how));
        found = Connects { how, waits: charge.slices(trace).count() as u64, charge, ..found };
    }
    found
}

fn is_one(trace: &Trace, slice: &Slice, how: How) -> bool {
    let wait = trace.wait(slice.wait);
    slice.state == ThreadState::Blocked
        && match how {
            How::Connects => {
                wait.reason == WaitReason::Socket && wait.syscall == CONNECT && takes_seconds(trace, slice)
            }
            How::Looks => wait.reason == WaitReason::Multiplex && takes_seconds(trace, slice),
            How::Accepts => ACCEPT.contains(&wait.syscall),
        }
}

/// Whether a wait ended soon after a whole second, and not since its time was up.
fn takes_seconds(trace: &Trace, slice: &Slice) -> bool {
    let ns = slice.duration().0 + EARLY_NS;
    let seconds = ns / SECOND_NS;
    (1..=SECONDS_MAX).contains(&seconds)
        && ns - seconds * SECOND_NS <= EARLY_NS + LATE_NS
        && !trace.timed_out(slice)
}
