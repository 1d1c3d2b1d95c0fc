//! # skewed-workers: among several similar processes few have nearly all the work
//!
//! ## Symptoms
//! Processes of one name that the same parent started. They all communicate with one process (a queue, a
//! broker, a distributor of work), and send requests to another one. It reports the number of responses and
//! the busy time of each.
//!
//! ## Why it hurts
//! The run takes as long as the busiest process. The others wait for work that this process has taken, or
//! that can only go to it. More workers change nothing.
//!
//! ## How it decides
//! A process is busy while it runs, and while it waits for responses of the service. There must be at least
//! three similar processes that do not communicate with each other. All of them must communicate with the
//! same third process. The busiest must be busy for at least 1.5 times the mean, and nearly all the time. A
//! process that also waits for work has no backlog.
//!
//! Workers that accept connections share one queue of them, and are left out. So is a busiest process with
//! several outstanding requests, which may take any number. The upper bound of the gain is that difference,
//! as far as no other activity overlapped with the waits for responses. The lower bound is 0, because it is
//! not known whether the work can be divided. The finding is likely if client and server are known, otherwise
//! a hint.
//!
//! ## What to do
//! Let each process take less at a time: the prefetch (`COUNT` of XREADGROUP, `basic.qos`,
//! `max.poll.records`, SQS's maximum number of messages). Or make the batch of a claim, or the chunk of a
//! pool's map, smaller. Check how work is distributed: by a hash, a key or a partition that is larger than
//! the others? More partitions, another key, or one shared queue (work stealing) divide it.
//!
//! ## Blind spots
//! load-imbalance and lone-worker report threads of one process. Workers with different names, or with
//! different parents, are not recognised as similar. Services and queues on other machines are not seen.
//!
//! ## References
//! DeRose, Homer, Johnson: Detecting application load imbalance on high end massively parallel systems
//! (Euro-Par 2007). Dean, Barroso: The tail at scale (CACM 2013).

use holdup_events::ProcessId;

use crate::charge::Charge;
use crate::derive::skew::Skew;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Explains, Info, Rule};
use crate::scene::Scene;
use crate::wording::{percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    explains: &[
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
        Explains::shared(&super::oversleep::INFO),
        Explains::shared(&super::poll_loop::INFO),
    ],
    ..Info::new(
        "skewed-workers",
        "A few of several equal processes have nearly all the work, and the others wait",
    )
};

/// Fewer answers may be a program's beginning.
const ANSWERS_MIN: u64 = 20;
/// Minimum busy time of the busiest process, as a multiple of the mean.
const SKEW_MIN: f64 = 1.5;
/// Minimum share of the service's responding time in which the busiest process is busy. Otherwise it also
/// waits for work, and there is no backlog.
const BUSY_MIN: f64 = 0.95;
/// Maximum mean number of outstanding requests. A process with more is busy all the time, however little work
/// it has.
const AT_ONCE_MAX: f64 = 1.5;
/// Minimum share of the run that this must cost.
const SHARE_MIN: f64 = 0.1;
/// Maximum number of the busiest processes that are named.
const NAMED_MAX: usize = 3;

pub(super) struct SkewedWorkers;

impl Rule for SkewedWorkers {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        Ok(reported(scene).into_iter().map(|(one, share)| finding(scene, one, share)).collect())
    }
}

/// The worst, with the part of the run that would go.
fn reported<'a>(scene: &Scene<'a>) -> Option<(&'a Skew, f64)> {
    let skewed = scene.derived.skews.iter().filter(|one| is_skewed(one)).map(|one| (one, share(scene, one)));
    skewed.filter(|(_, share)| *share >= SHARE_MIN).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The reported waits.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    reported(scene).map(|(one, _)| &one.waited).into_iter()
}

/// Whether the rule reports requests to that process.
pub(super) fn reports_requests_to(scene: &Scene, peer: ProcessId) -> bool {
    reported(scene).is_some_and(|(one, _)| one.peers.contains(&peer))
}

fn is_skewed(one: &Skew) -> bool {
    let longest_ns = one.longest_ns() as f64;
    answers(one) >= ANSWERS_MIN
        && longest_ns >= SKEW_MIN * one.mean_ns() as f64
        && longest_ns >= BUSY_MIN * one.span_ns as f64
        && one.workers[0].at_once <= AT_ONCE_MAX
}

fn answers(one: &Skew) -> u64 {
    one.workers.iter().map(|worker| worker.answers).sum()
}

fn share(scene: &Scene, one: &Skew) -> f64 {
    let quiet_ns = scene.stall_quiet(&one.waited).saved_ns;
    scene.of_wall(quiet_ns.min((one.longest_ns() - one.mean_ns()) as f64)).clamp(0.0, 1.0)
}

fn finding(scene: &Scene, one: &Skew, share: f64) -> Charged {
    let trace = scene.trace;
    let busiest = &one.workers[0];
    let peer = one.peers.first().copied().unwrap_or_default();
    let named = |id: ProcessId| {
        let pid = trace.processes.get(id.index()).map_or(0, |process| process.pid);
        format!("{} (pid {pid})", trace.process_name(id))
    };
    let who = trace.process_name(busiest.process);
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{} processes of {who}", one.workers.len()),
        summary: vec![
            format!(
                "{} of {who} send requests to {} and get their work from {}. {} responses: {}.",
                one.workers.len(),
                named(peer),
                named(one.source),
                answers(one),
                shares(scene, one),
            ),
            format!(
                "The busiest worked for {} ({} of the run), all of them for {} on average.",
                time(one.longest_ns()),
                percent(scene.of_wall(one.longest_ns() as f64)),
                time(one.mean_ns()),
            ),
        ],
        cost_ns: one.longest_ns() - one.mean_ns(),
        gain: Gain { low: 0.0, high: share },
        likely: None,
        confidence: scene.confidence(if one.is_sure { Confidence::Medium } else { Confidence::Low }),
        evidence: scene.longest_of(&one.waited, |_| "waits for a response".to_owned()),
        advice: vec![
            "Let each take less at a time: a smaller prefetch or batch, so that an idle process takes the next item"
                .into(),
            "Or check how work is assigned: one hash value, key or partition may have most of it".into(),
        ],
    };
    Charged { finding, charge: one.waited.clone().and(trace, &one.slept) }
}

/// The share of the responses of each of the busiest processes, and of all others together.
fn shares(scene: &Scene, one: &Skew) -> String {
    let all = answers(one).max(1) as f64;
    let part = |answers: u64| percent(answers as f64 / all);
    let named = one.workers.iter().take(NAMED_MAX).take_while(|worker| worker.answers > 0);
    let mut parts: Vec<String> = named
        .map(|worker| {
            let pid = scene.trace.processes[worker.process.index()].pid;
            format!("{} in pid {pid}", part(worker.answers))
        })
        .collect();
    let rest = &one.workers[parts.len()..];
    match rest.iter().map(|worker| worker.answers).sum() {
        _ if rest.is_empty() => {}
        0 => parts.push(format!("none in the other {}", rest.len())),
        answers => parts.push(format!("{} in the other {}", part(answers), rest.len())),
    }
    parts.join(", ")
}
