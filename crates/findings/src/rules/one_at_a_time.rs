//! # one-at-a-time: one request is sent to a service, and no other work is done until it responds
//!
//! ## Symptoms
//! Threads that wait for the response of another program, which itself only waits (for a clock, for the
//! outside) before it responds. It reports the number of concurrent requests, and the time in which no thread
//! of the program had other work.
//!
//! ## Why it hurts
//! A service that responds after 30 ms handles a hundred concurrent requests in 30 ms. It takes three seconds
//! if they are sent one after another. No CPU is busy during that time, and no CPU makes it faster.
//!
//! ## How it decides
//! Waits count if they are in a call that receives from one peer, or polls a few descriptors. For a thread
//! that waits for arbitrary events (epoll), the rule counts the messages to and from the peer, as wakeups
//! show them. A recorded peer must be asleep by a clock in the middle of the wait.
//!
//! The end that connected is the client, and the end that accepts connections is the server. A unix socket's
//! address shows which one connected. For other sockets the ports do, because the kernel chose the client's
//! port. If neither is seen, the client is the one that woke the other first. The upper bound of the gain is
//! the time in which such a wait was the only activity. The lower bound is 0, because a request may need the
//! previous response.
//!
//! The finding is likely if client and server are known and concurrency is low. Low is fewer than two
//! requests on average, or as many as there are requesting threads. Otherwise, and for peers that were not
//! recorded, it is a hint. batch-straggler reports requests in groups.
//!
//! There is one exception: short round trips to a peer that was not recorded. The program opened the
//! connection, and sends about one short message per response, one at a time. At least half of the round trips
//! are shorter than a millisecond. If the peer is on this machine, it also ran for less than half of that time.
//! Then the round trips take the time, not the peer's work, and the finding is likely. The upper bound of the
//! gain also includes the kernel time of these messages.
//!
//! ## What to do
//! Send several requests at once: more worker threads or processes (a server's workers, a pool's core size, a
//! queue's prefetch window). Or use requests that do not wait for each other (futures, gather, pipelining),
//! or one request for many items. Check whether a limit prevents this: a pool, a semaphore, a setting of one.
//! For short commands to a store (Redis, memcached, SQL), send many commands per round trip: pipelining,
//! multi-key commands, batches.
//!
//! ## Blind spots
//! For tasks that share a polling thread (goroutines, promises), requests of several messages look like more
//! requests than there are. Their peers on other machines are not seen. A peer that works on a CPU is not
//! counted: lone-worker and wakeup-ping-pong report those. In attached programs, the first sender may be the
//! server. Event loops that accept connections and send requests to another machine are not seen. A thread
//! that receives unsolicited messages from another machine looks as if it requested them.
//!
//! ## References
//! Little: A proof for the queuing formula L = λW (1961). Patterson: Latency lags bandwidth (2004).

use holdup_events::tables::SampleRow;
use holdup_events::{ObjectKind, ProcessId};

use super::batch_straggler;
use crate::charge::Charge;
use crate::derive::asking::Asking;
use crate::derive::calls::CallUse;
use crate::derive::ledger::ThreadLedger;
use crate::derive::samples_of;
use crate::derive::syscall_names::{polls_few, receives, sends};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::known_waits::{self, KnownWait};
use crate::rule::{Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::Scene;
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    explains: &[
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::oversleep::INFO),
        Explains::shared(&super::poll_loop::INFO),
    ],
    ..Info::new("one-at-a-time", "Requests to a service go out one at a time while nothing else runs")
};

/// Fewer questions may be a program's beginning.
const WAITS_MIN: u64 = 10;

/// Minimum share of the run in which such waits are the only activity.
const SHARE_MIN: f64 = 0.1;

/// Fewer at once than this are one at a time.
const AT_ONCE_SURE: f64 = 2.0;

/// Minimum share of the requesting threads with a concurrent request, to count as all of them.
const POOL_MIN: f64 = 0.8;

/// Minimum concurrency, with threads without a request, at which the number of threads is not the limit.
const AT_ONCE_MAX: f64 = 8.0;

/// Minimum share of the waiting for one address, for this address to be reported as the peer.
const ADDRESS_MIN: f64 = 0.9;

/// Maximum median length (ns) of a round trip that is mostly transport. A network round trip within a data
/// centre takes about half of it, and a longer response is the peer's work.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000;

/// Minimum and maximum number of messages sent per message received, if each response has its request. Some
/// clients check a socket before the response is there, and some send a command in two parts.
const SENT_EACH: std::ops::RangeInclusive<f64> = 0.4..=2.5;

/// Maximum mean length (bytes) of a message with one command: a name, a key and a short value. Longer messages
/// are several commands, or carry data.
const COMMAND_MAX: u64 = 256;

/// Services that are named.
const NAMED_MAX: usize = 3;

pub(super) struct OneAtATime;

impl Rule for OneAtATime {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        Ok(reported(scene).map(|(asking, share)| finding(scene, asking, share)).collect())
    }
}

/// The reported requests, with the share of the run in which such waits were the only activity.
fn reported<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a Asking, f64)> {
    let in_groups =
        |one: &&Asking| one.peer.is_some_and(|peer| batch_straggler::reports_requests_to(scene, peer));
    let asking = scene.derived.asking.iter().filter(move |one| !in_groups(one));
    let limited =
        asking.filter(|one| one.waits >= WAITS_MIN && (one.at_once() < AT_ONCE_MAX || is_pool(one)));
    limited.map(move |one| (one, alone(scene, one))).filter(|(_, share)| *share >= SHARE_MIN).take(NAMED_MAX)
}

/// The reported waits.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    reported(scene).map(|(asking, _)| &asking.waited)
}

/// Whether the rule reports waits for that process's responses.
pub(super) fn reports_waits_for(scene: &Scene, peer: ProcessId) -> bool {
    reported(scene).any(|(asking, _)| asking.peer == Some(peer))
}

/// Whether all threads that ask do so nearly all the time: their number is the limit, however many they are. A thread that polls may
/// have several questions under way.
fn is_pool(asking: &Asking) -> bool {
    let threads = asking.threads.len() as f64;
    (POOL_MIN * threads..=threads).contains(&asking.at_once())
}

/// A polling thread waits longer than for the response.
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
        Some(_) => format!("sent {times} and waited for the response"),
        // It is not known when a response was complete. It may have arrived in pieces.
        None => format!("waited {times} for responses"),
    };
    let mut summary = vec![
        format!(
            "{} of {who} {how_often}, {} each on average, {at_once:.1} in flight{}.",
            count(asking.threads.len() as u64, "thread"),
            time(asking.ns / asking.waits.max(1)),
            if asking.by_messages { ", as far as wakeups show it (both may be more)" } else { "" },
        ),
        format!(
            "For {} of the run nothing else happened: no thread of the program was runnable.",
            percent(share)
        ),
    ];
    if let Some(peer) = peer {
        summary.push(format!("{peer} did not run during these waits either: it waited for a timer of its own (a slow dependency, or a rate limit)."));
    }
    let are_short = are_short_round_trips(scene, asking);
    if are_short {
        summary.push(round_trips(asking));
    }
    summary.extend(addresses(asking));
    summary.extend(scene.charged_come_from(&asking.waited));
    let blocking = known_waits::find(scene, &asking.waited, |runtime| &runtime.blocking);
    summary.extend(blocking.iter().map(|one| one.sentence.clone()));
    let sure = match are_short || asking.is_sure && (at_once < AT_ONCE_SURE || is_pool(asking)) {
        true => Confidence::Medium,
        false => Confidence::Low,
    };
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{who} asks {}", peer.unwrap_or(&elsewhere)),
        summary,
        cost_ns: asking.ns,
        gain: Gain {
            low: 0.0,
            high: (share + if are_short { of_messages(scene, asking) } else { 0.0 }).min(1.0),
        },
        likely: None,
        confidence: scene.confidence(sure),
        evidence: scene.longest_of(&asking.waited, |_| "waits for a response".to_owned()),
        advice: if are_short { advice_for_commands() } else { advice(blocking) },
    };
    Charged { finding, charge: asking.waited.clone().and(trace, &asking.slept) }
}

/// Whether these are short round trips to an unrecorded peer, in which the peer does little.
fn are_short_round_trips(scene: &Scene, asking: &Asking) -> bool {
    asking.peer.is_none()
        && asking.is_connected
        && asking.at_once() < AT_ONCE_SURE
        && asking.median_ns <= ROUND_TRIP_MAX_NS
        && 2 * asking.peer_ran_ns <= asking.ns
        && are_commands(scene, asking)
}

/// Whether about one short message is sent per message received on the sockets of these waits, in the windows in
/// which calls were counted.
fn are_commands(scene: &Scene, asking: &Asking) -> bool {
    let of_them =
        |used: &&CallUse| used.object_kind == ObjectKind::Socket && asking.sockets.contains(&used.object);
    let sums = |is_one: fn(i32) -> bool| {
        let calls = scene.derived.calls.by_object.iter().filter(of_them);
        calls.filter(|used| is_one(used.syscall)).fold((0, 0), |(count, bytes), used| {
            (count + used.count.saturating_sub(used.errors), bytes + used.returned)
        })
    };
    let ((sent, bytes), (received, _)) = (sums(sends), sums(receives));
    let each = sent as f64 / received.max(1) as f64;
    received > 0 && SENT_EACH.contains(&each) && bytes <= COMMAND_MAX * sent
}

fn round_trips(asking: &Asking) -> String {
    format!(
        "{} over {}, median {}: each response has its own request, and the peer does little for it.",
        count(asking.waits, "short round trip"),
        count(asking.sockets.len() as u64, "connection"),
        time(asking.median_ns),
    )
}

/// Upper bound of the gain, as a share of the run, of the kernel time in calls that send and receive (sampled).
fn of_messages(scene: &Scene, asking: &Asking) -> f64 {
    let of_message = |sample: &&SampleRow| {
        sample.in_kernel && (sends(sample.syscall) || receives(sample.syscall) || polls_few(sample.syscall))
    };
    let of_thread = |thread: &&ThreadLedger| asking.threads.contains(&thread.thread);
    let kernel_ns = |thread: &ThreadLedger| {
        let samples = samples_of(scene.trace, thread.thread);
        let part = samples.iter().filter(of_message).count() as f64 / samples.len().max(1) as f64;
        part * thread.running_ns() as f64
    };
    let threads = scene.derived.ledger.threads.iter().filter(of_thread);
    scene.of_wall_if_run(threads.map(kernel_ns).sum())
}

fn advice_for_commands() -> Vec<String> {
    vec![
        "Send many commands per round trip: pipelining, multi-key commands (MGET, a batch insert), or one request for many items".to_owned(),
        "Or keep several requests in flight: parallel connections, an asynchronous client, more worker threads"
            .to_owned(),
        "Or cache the responses in the program".to_owned(),
    ]
}

/// A peer elsewhere, by its address if nearly all is for one.
fn elsewhere(asking: &Asking) -> String {
    match asking.addresses.first() {
        Some((address, share)) if *share >= ADDRESS_MIN => address.clone(),
        _ => "a remote peer".to_owned(),
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
        named.push(format!("{rest} more with less each"));
    }
    Some(format!("Of that: {}.", named.join(", ")))
}

fn advice(blocking: Option<KnownWait>) -> Vec<String> {
    let more = "Keep more requests in flight: more workers or threads, or requests that do not wait for each other. Check for a limit (a pool, permits, a queue's window)";
    let fewer = "Or combine several requests into one, or cache the responses";
    let own = blocking.map(|one| one.advice);
    own.into_iter().chain([more.to_owned(), fewer.to_owned()]).collect()
}
