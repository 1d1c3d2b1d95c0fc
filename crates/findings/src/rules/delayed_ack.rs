//! # delayed-ack: small writes wait 40 ms for the peer's acknowledgement
//!
//! ## What it sees
//! Waits on sockets, or on several descriptors at once, of which strikingly many end after 40 ms, by the network
//! code or a timer of the kernel.
//!
//! ## Why it hurts
//! TCP holds back a small segment while an earlier one is not acknowledged (Nagle's algorithm); the receiver
//! holds back its acknowledgement for 40 ms in the hope of data to send it with. A program that writes a request
//! in two small pieces, then waits for the answer, gets 25 answers a second.
//!
//! ## How it decides
//! It counts waits of 39 to 46 ms, and those that are a little shorter. It fires if there are many of the first and hardly
//! any of the others: waits for work or for a slow peer are not that regular, and nothing but the delay is that long at
//! least. (Those a little longer may be the delay and some work of the peer.) The gain is that of the same run replayed without
//! these waits; of recordings too long to replay, as far as CPUs were free.
//!
//! ## What to do
//! Write a message with one call (`writev`, a buffer, `MSG_MORE` or `TCP_CORK`), or set `TCP_NODELAY`. On the
//! receiving side `TCP_QUICKACK` helps where the sender cannot be changed.
//!
//! ## Blind spots
//! The delay is 40 ms at least, up to 200 ms with round trips that are long; such are not seen. A peer that
//! answers after 40 ms of its own work looks the same: a look at its own recording tells.
//!
//! ## References
//! RFC 896, RFC 1122 (4.2.3.2). Linux `tcp(7)`. Minshall et al.: Application performance pitfalls and TCP's Nagle
//! algorithm (1999).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::Slice;
use holdup_events::{ThreadId, Trace, WaitReason};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::finding::{Confidence, Finding};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info =
    Info { name: "delayed-ack", summary: "Small writes wait 40 ms for the peer's delayed acknowledgement" };

/// The kernel's shortest delay is 40 ms, by a timer that is late by up to two ticks of 1 to 4 ms (ns).
const DELAY_NS: std::ops::Range<u64> = 39_000_000..49_000_000;

/// So many waits of one length are no chance.
const WAITS_MIN: u64 = 10;

/// Of waits that are a little shorter there may be this share of those at the peak.
const BESIDE_MAX: f64 = 0.1;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let trace = scene.trace;
    if !trace.waits.iter().any(|wait| may_be_network(wait.reason)) {
        return Ok(Vec::new());
    }
    let charge =
        Charge::of(trace, |slice| DELAY_NS.contains(&slice.duration().0) && is_network(trace, slice));
    if charge.count() < WAITS_MIN || scene.of_wall(charge.ns() as f64) < GAIN_MIN {
        return Ok(Vec::new());
    }
    let width = DELAY_NS.end - DELAY_NS.start;
    let beside = DELAY_NS.start - width..DELAY_NS.start;
    let others = Charge::of(trace, |slice| beside.contains(&slice.duration().0) && is_network(trace, slice));
    if others.count() as f64 > BESIDE_MAX * charge.count() as f64 {
        return Ok(Vec::new());
    }
    let stall = scene.stall(&charge);
    let mut waited: BTreeMap<ThreadId, u64> = BTreeMap::new();
    charge.slices(trace).for_each(|slice| *waited.entry(slice.thread).or_default() += slice.duration().0);
    let most = waited.iter().max_by_key(|(id, ns)| (**ns, Reverse(**id)));
    let subject = most.map_or("sockets".to_owned(), |(worst, _)| thread(trace, *worst));
    let mut summary = vec![format!(
        "{} on sockets took {} on average, {} in all ({} of the run); {} took a little less.",
        count(charge.count(), "wait"),
        time(charge.ns() / charge.count().max(1)),
        time(charge.ns()),
        percent(scene.of_wall(charge.ns() as f64)),
        count(others.count(), "other"),
    )];
    summary.extend(
        scene.waits_come_from(|slice| DELAY_NS.contains(&slice.duration().0) && is_network(trace, slice)),
    );
    let finding = Finding {
        rule: INFO.name,
        subject,
        summary,
        cost_ns: charge.ns(),
        gain: scene.gain_whoever_ran(&stall, |_, waited| waited),
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene
            .longest_of(&charge, |slice| format!("waits {} for the peer", time(slice.duration().0))),
        advice: vec![
            "Write a message with one call (writev, a buffer, MSG_MORE), not in small pieces".into(),
            "Set TCP_NODELAY on the socket that sends".into(),
        ],
    };
    Ok(vec![Charged { finding, charge }])
}

/// A wait for a peer that no thread of this machine ended by itself.
fn is_network(trace: &Trace, slice: &Slice) -> bool {
    let reason = trace.wait(slice.wait).reason;
    let candidate = slice.state == holdup_events::tables::ThreadState::Blocked && may_be_network(reason);
    let ended_by = |slice: &Slice| trace.ended_by(slice).map(|wakeup| wakeup.context);
    // A time-out that the program asked for.
    let timed_out = || trace.due(slice).is_some_and(|due| slice.end >= due);
    candidate
        && match ended_by(slice) {
            // A time-out of 40 ms that a program asks for ends by the timer itself.
            Some(WakeContext::Timer) => reason != WaitReason::Multiplex,
            Some(WakeContext::SoftIrq | WakeContext::Irq) => !timed_out(),
            _ => false,
        }
}

fn may_be_network(reason: WaitReason) -> bool {
    Class::of_wait(reason) == Class::NetWait || reason == WaitReason::Multiplex
}
