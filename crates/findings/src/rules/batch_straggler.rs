//! # batch-straggler: requests are sent in groups, and each group waits for its slowest response
//!
//! ## Symptoms
//! A program that sends many requests to a service, waits for all responses, and only then sends the next
//! requests. It reports the number of such groups, their mean duration, and the mean duration of a response.
//!
//! ## Why it hurts
//! A group may get 31 of 32 responses within 10 ms. The next 32 requests wait for the slowest one. Until then
//! one request is outstanding instead of 32, and the service and the CPUs are idle.
//!
//! ## How it decides
//! Requests and responses are wakeups across processes that end waits for the network. A group begins with
//! three or more requests in a row without a response between them. At most a fifth of all requests may come
//! otherwise. A clock, or another program's message, must hardly ever begin the client's next group.
//!
//! The size of groups is that of the largest tenth. Responses that were not seen count as arrived with the
//! first one. With the same number of requests outstanding all the time, a group would take its mean response
//! time, or the client's running time for it. The rest is the upper bound of the gain, as far as no other
//! activity overlapped. If it is less than a third of the groups' time, there is no finding. The lower bound
//! is 0, because the next requests may need the last responses. The finding is likely if client and server
//! are known, otherwise a hint.
//!
//! ## What to do
//! Keep as many requests outstanding as a group has: send the next request as soon as any response arrives.
//! Use workers that take from one iterator, a semaphore, p-limit, `asyncio.as_completed`, `FuturesUnordered`
//! or `buffer_unordered`, a completion service, or errgroup's SetLimit. They replace groups that are awaited
//! as a whole (Promise.all, gather, invokeAll, a WaitGroup for each chunk). A timeout with a retry bounds the
//! slowest request.
//!
//! ## Blind spots
//! A message to an awake thread leaves no wakeup. So groups look smaller than they are, and groups of two are
//! not seen. Services on other machines are not seen. Neither are services behind an unrecorded proxy that
//! serves several processes. A response in pieces looks like several.
//!
//! ## References
//! Dean, Barroso: The tail at scale (CACM 2013). Little: A proof for the queuing formula L = λW (1961).

use holdup_events::ProcessId;

use crate::charge::Charge;
use crate::derive::asked_in_groups::InGroups;
use crate::finding::{About, Confidence, Finding, Gain};
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
    ..Info::new(
        "batch-straggler",
        "Requests are sent in groups, and each group waits for its slowest response",
    )
};

/// Minimum share of the run that such waits cost.
const SHARE_MIN: f64 = 0.05;

/// Minimum share of the groups' time that is waiting for the slowest response. Below it, the low number of
/// outstanding requests is the better explanation.
const IDLE_MIN: f64 = 1.0 / 3.0;

/// Services that are named.
const NAMED_MAX: usize = 3;

pub(super) struct BatchStraggler;

impl Rule for BatchStraggler {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        Ok(reported(scene).map(|(asked, share)| finding(scene, asked, share)).collect())
    }
}

/// The reported groups, with the share of the run that they cost.
fn reported<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a InGroups, f64)> {
    let asked = scene.derived.asked_in_groups.iter();
    let asked = asked.filter(|one| one.idle_ns as f64 >= IDLE_MIN * one.took_ns as f64);
    let asked = asked.map(move |one| (one, share(scene, one)));
    asked.filter(|(_, share)| *share >= SHARE_MIN).take(NAMED_MAX)
}

/// The reported waits.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    reported(scene).map(|(asked, _)| &asked.waited)
}

/// Whether the rule reports requests to that process.
pub(super) fn reports_requests_to(scene: &Scene, peer: ProcessId) -> bool {
    reported(scene).any(|(asked, _)| asked.peers.contains(&peer))
}

fn share(scene: &Scene, asked: &InGroups) -> f64 {
    let quiet_ns = scene.stall_quiet(&asked.waited).saved_ns;
    scene.of_wall(quiet_ns.min(asked.idle_ns as f64)).clamp(0.0, 1.0)
}

fn finding(scene: &Scene, asked: &InGroups, share: f64) -> Charged {
    let trace = scene.trace;
    let (who, peer) = (
        trace.process_name(asked.process),
        asked.peers.first().map_or("?", |peer| trace.process_name(*peer)),
    );
    let each = |ns: u64| time(ns / asked.groups);
    let mut summary = vec![
        format!(
            "{who} asked {peer} in {}: at least {:.0} requests in a row on average, then none until the whole group had its responses.",
            count(asked.groups, "group"),
            asked.asks as f64 / asked.groups as f64,
        ),
        format!(
            "A group took {} until the next. Its responses came after at least {} on average. With the same number always in flight, up to {} of the run would be saved.",
            each(asked.took_ns),
            each(asked.answered_ns),
            percent(share),
        ),
    ];
    summary.extend(scene.charged_come_from(&asked.waited));
    let sure = if asked.is_sure { Confidence::Medium } else { Confidence::Low };
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{who} asks {peer}"),
        summary,
        cost_ns: asked.idle_ns,
        gain: Gain { low: 0.0, high: share },
        likely: None, confidence: scene.confidence(sure),
        evidence: scene.longest_of(&asked.waited, |_| "waits for the rest of a group".to_owned()),
        advice: vec![
            "Send the next request as soon as any response arrives (workers that share a queue, or a limit of requests in flight). Do not await whole groups (Promise.all, gather, invokeAll, a WaitGroup per chunk)".into(),
            "Find out why a few responses take much longer than the rest. A timeout with a second attempt bounds them".into(),
        ],
    };
    Charged { finding, charge: asked.waited.clone().and(trace, &asked.slept) }
}
