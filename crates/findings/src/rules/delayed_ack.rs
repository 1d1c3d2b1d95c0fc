//! # delayed-ack: small writes wait 40 ms for the peer's acknowledgement
//!
//! ## Symptoms
//! Waits on sockets, or on several descriptors at once, of which unusually many end after 40 ms. The network
//! code or a timer of the kernel ends them.
//!
//! ## Why it hurts
//! TCP delays a small segment while an earlier one is not acknowledged (Nagle's algorithm). The receiver
//! delays its acknowledgement for 40 ms, to send it together with data. A program that writes a request in
//! two small pieces, then waits for the response, gets 25 responses per second.
//!
//! ## How it decides
//! It counts waits of 39 to 49 ms, and waits that are slightly shorter. A finding needs many of the first and
//! hardly any of the second. Waits for work or for a slow peer are not that regular, and only the delay has
//! this minimum. (Slightly longer waits may contain some work of the peer.) If the peer is recorded on the
//! same machine, a wait counts from its start until the network woke the peer. The peer's work after that
//! does not count. The gain is that of the same run replayed without these waits. For recordings that are too
//! long to replay, it is limited by the free CPUs.
//!
//! ## What to do
//! Write a message with one call (`writev`, a buffer, `MSG_MORE` or `TCP_CORK`), or set `TCP_NODELAY`. On the
//! receiving side `TCP_QUICKACK` helps if the sender cannot be changed.
//!
//! ## Blind spots
//! The delay is at least 40 ms, and up to 200 ms with long round trips. Such delays are not seen. A peer that
//! responds after 40 ms of its own work looks the same. A recording of the peer shows the difference.
//!
//! ## References
//! RFC 896, RFC 1122 (4.2.3.2). Linux `tcp(7)`. Minshall et al.: Application performance pitfalls and TCP's
//! Nagle algorithm (1999).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::finding::{About, Confidence, Finding};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    explains: &[
        // A clock that all wait for.
        Explains::shared(&super::oversleep::INFO),
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
    ],
    ..Info::new("delayed-ack", "Small writes wait 40 ms for the peer's delayed acknowledgement")
};

/// The kernel's shortest delay is 40 ms, by a timer that is late by up to two ticks of 1 to 4 ms (ns).
const DELAY_NS: Range<u64> = 39_000_000..49_000_000;

/// Minimum number of waits of one length. Fewer may be chance.
const WAITS_MIN: u64 = 10;

/// Maximum number of slightly shorter waits, as a share of those at the peak.
const BESIDE_MAX: f64 = 0.1;

/// A peer's threads hand an answer's making on so often, ...
const HOPS_MAX: usize = 4;
/// ... and maximum number of slices between a wait and its effect.
const LOOK_BACK: usize = 32;

pub(super) struct DelayedAck;

impl Rule for DelayedAck {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let trace = scene.trace;
        if !trace.waits.iter().any(|wait| may_be_network(wait.reason)) {
            return Ok(Vec::new());
        }
        let lasted = |slice: &Slice, range: &Range<u64>| {
            let ended = ended_by_network(trace, slice, range.start);
            ended.is_some_and(|wait| range.contains(&wait.end.since(slice.start).0))
        };
        let charge = Charge::matching(trace, |slice| lasted(slice, &DELAY_NS));
        if charge.count() < WAITS_MIN || scene.of_wall(charge.ns() as f64) < GAIN_MIN {
            return Ok(Vec::new());
        }
        let width = DELAY_NS.end - DELAY_NS.start;
        let beside = DELAY_NS.start - width..DELAY_NS.start;
        let others = Charge::matching(trace, |slice| lasted(slice, &beside)).count();
        if others as f64 > BESIDE_MAX * charge.count() as f64 {
            return Ok(Vec::new());
        }
        let stall = scene.stall(&charge);
        let mut waited: BTreeMap<ThreadId, u64> = BTreeMap::new();
        charge.slices(trace).for_each(|slice| *waited.entry(slice.thread).or_default() += slice.duration().0);
        let most = waited.iter().max_by_key(|(id, ns)| (**ns, Reverse(**id)));
        let mut summary = vec![format!(
            "{} on sockets took {} on average, {} in total ({} of the run). {} were slightly shorter.",
            count(charge.count(), "wait"),
            time(charge.ns() / charge.count().max(1)),
            time(charge.ns()),
            percent(scene.of_wall(charge.ns() as f64)),
            count(others, "other"),
        )];
        summary.extend(scene.waits_come_from(|slice| lasted(slice, &DELAY_NS)));
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: most.map_or("sockets".to_owned(), |(worst, _)| thread(trace, *worst)),
            summary,
            cost_ns: charge.ns(),
            gain: scene.gain_whoever_ran(&stall, |_, waited| waited),
            likely: None,
            confidence: scene.confidence(Confidence::Medium),
            evidence: scene
                .longest_of(&charge, |slice| format!("waits {} for the peer", time(slice.duration().0))),
            advice: vec![
                "Write a message with one call (writev, a buffer, MSG_MORE) instead of small pieces".into(),
                "Set TCP_NODELAY on the sending socket".into(),
            ],
        };
        let peers = peers_waits(trace, &charge);
        Ok(vec![Charged { finding, charge: charge.and(trace, &peers) }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        Removal::slices(cause.charge)
    }
}

/// Waits of peers during the charged waits, until the network ended them. Without the delay these waits would
/// not exist either.
fn peers_waits(trace: &Trace, charge: &Charge) -> Charge {
    let ended = charge.slices(trace).filter_map(|slice| ended_by_network(trace, &slice, DELAY_NS.start));
    let waits: BTreeSet<(ThreadId, Timestamp)> = ended.map(|wait| (wait.thread, wait.start)).collect();
    Charge::matching(trace, |slice| waits.contains(&(slice.thread, slice.start)))
}

/// The wait that the network ended so that this wait for a peer ended. It is the wait itself, or a wait of
/// the peer on this machine before it responded. Waits of less than `least_ns` are ignored.
fn ended_by_network(trace: &Trace, slice: &Slice, least_ns: u64) -> Option<Slice> {
    let reason = trace.wait(slice.wait).reason;
    if slice.state != ThreadState::Blocked || !may_be_network(reason) || slice.duration().0 < least_ns {
        return None;
    }
    let wakeup = trace.ended_by(slice)?;
    // A time-out that the program asked for.
    let timed_out = || trace.due(slice).is_some_and(|due| slice.end >= due);
    match wakeup.context {
        // A time-out of 40 ms that a program asks for ends by the timer itself.
        WakeContext::Timer => (reason != WaitReason::Multiplex).then_some(*slice),
        WakeContext::SoftIrq | WakeContext::Irq => (!timed_out()).then_some(*slice),
        WakeContext::Thread => peers_wait(trace, (wakeup.waker, wakeup.at), slice.start),
    }
}

/// The wait ended by the network, not before `from`, after which this thread did its work at `at`. It may
/// also be a wait of the thread's waker.
fn peers_wait(trace: &Trace, who: (ThreadId, Timestamp), from: Timestamp) -> Option<Slice> {
    let (mut thread, mut at) = who;
    for _ in 0..HOPS_MAX {
        let here = trace.slices.covering(thread, at)?;
        let first = trace.slices.rows(thread).start.max((here + 1).saturating_sub(LOOK_BACK));
        let mut before = (first..=here).rev().map(|row| trace.slices.at(thread, row));
        let wait = before.find(|slice| slice.state == ThreadState::Blocked && slice.end <= at)?;
        let wakeup = trace.ended_by(&wait).filter(|_| wait.end > from)?;
        match wakeup.context {
            WakeContext::SoftIrq if may_be_network(trace.wait(wait.wait).reason) => return Some(wait),
            WakeContext::Thread if wakeup.waker != thread => (thread, at) = (wakeup.waker, wakeup.at),
            _ => return None,
        }
    }
    None
}

fn may_be_network(reason: WaitReason) -> bool {
    Class::of_wait(reason) == Class::NetWait || reason == WaitReason::Multiplex
}
