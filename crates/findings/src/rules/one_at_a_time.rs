//! # one-at-a-time: a service is asked once, and nothing else goes on until it has answered
//!
//! ## What it sees
//! Threads that wait for the answer of another program, which itself only waits (for a clock, for the outside) before it answers;
//! how many such questions were under way at once; and for how long none of the program's threads had anything to do but that.
//!
//! ## Why it hurts
//! A service that takes 30 ms to answer answers a hundred questions in 30 ms if it is asked all of them, and in three seconds if it
//! is asked one after the other. No CPU is busy meanwhile, and none makes it faster.
//!
//! ## How it decides
//! Waits count that are in a call which receives from one peer, or polls a few descriptors; of who waits for whatever comes next
//! (epoll) it counts the messages to and from the peer, as wakeups show them. A peer in the recording must be asleep by a clock
//! in the middle of the wait. Of the two, the one that connected to the other asks (a unix socket's address tells, else ports: who
//! connects has one that the kernel chose), and the one that accepts connections is asked; where neither is seen, the one asks that
//! woke the other first. The gain's upper end is the time in which such a wait was all that went on; the lower end is none:
//! whether a question needs the answer to the one before, nothing here tells. Where there were fewer than two at once, on
//! average, or as many as there are threads that ask (however many), and it is known who asks whom, it is likely; else, and of peers elsewhere, it is
//! a hint. Questions that go out in groups are batch-straggler's.
//!
//! ## What to do
//! Ask for several things at once: more worker threads or processes (a server's workers, a pool's core size, a queue's window of
//! messages that are not acknowledged), requests that do not wait for each other (futures, gather, pipelining), or one question
//! for many things. See whether a limit stands in the way: a pool, a semaphore, a setting of one.
//!
//! ## Blind spots
//! Of tasks that share a thread which polls (goroutines, promises), questions of more than one message each look like more than
//! there are, and peers elsewhere are not seen. A peer that works on a CPU is no such peer: lone-worker and wakeup-ping-pong tell
//! those. Of programs that were attached to, who spoke first may be who answered. Event loops that accept connections and ask a
//! service elsewhere are not seen; who waits for messages from elsewhere that come by themselves looks as if it asked for them.
//!
//! ## References
//! Little: A proof for the queuing formula L = λW (1961). Patterson: Latency lags bandwidth (2004).

use holdup_events::ProcessId;

use super::{ChargedVerdict, Info, batch_straggler};
use crate::charge::Charge;
use crate::derive::asking::Asking;
use crate::finding::{Confidence, Finding, Gain};
use crate::known_waits::{self, KnownWait};
use crate::merging::Charged;
use crate::scene::Scene;
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "one-at-a-time",
    summary: "A service is asked one thing at a time, and nothing else goes on meanwhile",
    of_waits_alone: true,
};

/// Fewer questions may be a program's beginning.
const WAITS_MIN: u64 = 10;

/// Of the run such waits must be all that goes on for this part.
const SHARE_MIN: f64 = 0.1;

/// Fewer at once than this are one at a time.
const AT_ONCE_SURE: f64 = 2.0;

/// Of the threads that ask, so many at once are all.
const POOL_MIN: f64 = 0.8;

/// With so many at once, and threads that ask for nothing, the number of threads is not the limit.
const AT_ONCE_MAX: f64 = 8.0;

/// Of the waiting so much is for one address, if that one is told as whom it asks.
const ADDRESS_MIN: f64 = 0.9;

/// Services that are named.
const NAMED_MAX: usize = 3;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    Ok(told(scene).map(|(asking, share)| finding(scene, asking, share)).collect())
}

/// Those that are told of, with the part of the run in which such waits were all that went on.
fn told<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a Asking, f64)> {
    let in_groups = |one: &&Asking| one.peer.is_some_and(|peer| batch_straggler::tells_of(scene, peer));
    let asking = scene.derived.asking.iter().filter(move |one| !in_groups(one));
    let limited =
        asking.filter(|one| one.waits >= WAITS_MIN && (one.at_once() < AT_ONCE_MAX || is_pool(one)));
    limited.map(move |one| (one, alone(scene, one))).filter(|(_, share)| *share >= SHARE_MIN).take(NAMED_MAX)
}

/// The waits that are told of.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    told(scene).map(|(asking, _)| &asking.waited)
}

/// Whether it is told that others wait for that process's answers.
pub(super) fn tells_of(scene: &Scene, peer: ProcessId) -> bool {
    told(scene).any(|(asking, _)| asking.peer == Some(peer))
}

/// Whether all threads that ask do so nearly all the time: their number is the limit, however many they are. A thread that polls may
/// have several questions under way.
fn is_pool(asking: &Asking) -> bool {
    let threads = asking.threads.len() as f64;
    (POOL_MIN * threads..=threads).contains(&asking.at_once())
}

/// Who polls waits longer than for the answer.
fn alone(scene: &Scene, asking: &Asking) -> f64 {
    let quiet_ns = scene.stall_quiet(&asking.waited).saved_ns;
    scene.of_wall(quiet_ns.min(asking.any_ns as f64)).clamp(0.0, 1.0)
}

fn finding(scene: &Scene, asking: &Asking, share: f64) -> Charged {
    let trace = scene.trace;
    let who = trace.process_name(asking.process);
    let peer = asking.peer.map(|peer| trace.process_name(peer));
    let elsewhere = elsewhere(asking);
    let at_once = asking.at_once();
    let times = count(asking.waits, "time");
    let how_often = match peer {
        Some(_) => format!("asked {times} and waited for the answer"),
        // Nobody tells when one of its answers was whole: it may have come in pieces.
        None => format!("waited {times} for answers"),
    };
    let mut summary = vec![
        format!(
            "{} of {who} {how_often}, {} each on average: {at_once:.1} at once{}.",
            count(asking.threads.len() as u64, "thread"),
            time(asking.ns / asking.waits.max(1)),
            if asking.by_messages { ", as far as wakeups show it (there may be more of both)" } else { "" },
        ),
        format!(
            "For {} of the run that was all that went on: no thread of the program had anything to do.",
            percent(share)
        ),
    ];
    if let Some(peer) = peer {
        summary.push(format!("{peer} did not work meanwhile, either: it waited for a clock of its own (something slow behind it, or a limit on its rate)."));
    }
    summary.extend(addresses(asking));
    summary.extend(scene.charged_come_from(&asking.waited));
    let blocking = known_waits::of(scene, &asking.waited, |runtime| &runtime.blocking);
    summary.extend(blocking.iter().map(|one| one.sentence.clone()));
    let sure = match asking.is_sure && (at_once < AT_ONCE_SURE || is_pool(asking)) {
        true => Confidence::Medium,
        false => Confidence::Low,
    };
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{who} asks {}", peer.unwrap_or(&elsewhere)),
        summary,
        cost_ns: asking.ns,
        gain: Gain { low: 0.0, high: share },
        likely: None,
        confidence: scene.confidence(sure),
        evidence: scene.longest_of(&asking.waited, |_| "waits for an answer".to_owned()),
        advice: advice(blocking),
    };
    Charged { finding, charge: asking.waited.clone().and(trace, &asking.slept) }
}

/// A peer elsewhere, by its address if nearly all is for one.
fn elsewhere(asking: &Asking) -> String {
    match asking.addresses.first() {
        Some((address, share)) if *share >= ADDRESS_MIN => address.clone(),
        _ => "a peer elsewhere".to_owned(),
    }
}

/// Several addresses, if none has nearly all.
fn addresses(asking: &Asking) -> Option<String> {
    asking.addresses.first().filter(|(_, share)| *share < ADDRESS_MIN)?;
    let rest = asking.addresses.len().saturating_sub(NAMED_MAX);
    let named = asking.addresses.iter().take(NAMED_MAX);
    let mut named: Vec<String> =
        named.map(|(address, share)| format!("{address} {}", percent(*share))).collect();
    if rest > 0 {
        named.push(format!("{rest} others less each"));
    }
    Some(format!("Of that: {}.", named.join(", ")))
}

fn advice(blocking: Option<KnownWait>) -> Vec<String> {
    let more = "Have more of them under way at once: more workers or threads, requests that do not wait for each other; is there a limit (a pool, permits, a queue's window)?";
    let fewer = "Or ask once for many things, or keep the answers";
    let own = blocking.map(|one| one.advice);
    own.into_iter().chain([more.to_owned(), fewer.to_owned()]).collect()
}
