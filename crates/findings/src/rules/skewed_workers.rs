//! # skewed-workers: of several processes that are alike few have nearly all the work
//!
//! ## What it sees
//! Processes of one name that the same parent started, which all speak with one process (a queue, a broker, whoever hands out the work) and
//! ask another one; how many answers each had, and for how long each was at work.
//!
//! ## Why it hurts
//! The run takes as long as the busiest has to do. The others wait for work that this one has taken, or that can only go to it, and
//! more workers change nothing.
//!
//! ## How it decides
//! One is at work while it runs, and while it waits for what an answer of the service ended. There must be three alike at the least,
//! which do not speak with each other, all of them must speak with the same third process, and the busiest must be at work for half as long again as
//! all are on average, and nearly all the time: one that waits for work as well has no more than there is. Workers that accept connections have one queue
//! of them, and are none; nor is a busiest one that has several questions under way, which may take any number. The gain's upper end is that difference, as far as nothing else went on while they waited for answers; the
//! lower end is none: whether the work can be divided, nothing here tells. It is likely where it is known who asks whom, else
//! a hint.
//!
//! ## What to do
//! Let each take less at a time: the prefetch (`COUNT` of XREADGROUP, `basic.qos`, `max.poll.records`, SQS's maximum number of messages), the
//! batch of a claim, the chunk of a pool's map. See how work is given away: by a hash, a key or a partition of which one has most?
//! More partitions, another key, or taking from one queue (work stealing) divide it.
//!
//! ## Blind spots
//! Threads of one process are load-imbalance's and lone-worker's. Workers that were started with different names, or by different
//! parents, are not known to be alike; services and queues elsewhere are not seen.
//!
//! ## References
//! DeRose, Homer, Johnson: Detecting application load imbalance on high end massively parallel systems (Euro-Par 2007). Dean, Barroso:
//! The tail at scale (CACM 2013).

use holdup_events::ProcessId;

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::skew::Skew;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::Scene;
use crate::wording::{percent, time};

pub(super) const INFO: Info = Info {
    name: "skewed-workers",
    summary: "Of several alike processes few have nearly all the work, and the others wait",
    of_waits_alone: true,
};

/// Fewer answers may be a program's beginning.
const ANSWERS_MIN: u64 = 20;
/// The busiest is at work for so many times as long as all are on average.
const SKEW_MIN: f64 = 1.5;
/// Of the time in which the service answers, the busiest is at work for so much: else it waits for work, too, and there is no more.
const BUSY_MIN: f64 = 0.95;
/// Who waits for more answers at once is at work all the time, however little it has to do.
const AT_ONCE_MAX: f64 = 1.5;
/// Of the run, that must cost this part.
const SHARE_MIN: f64 = 0.1;
/// So many of the busiest are named.
const NAMED_MAX: usize = 3;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    Ok(told(scene).into_iter().map(|(one, share)| finding(scene, one, share)).collect())
}

/// The worst, with the part of the run that would go.
fn told<'a>(scene: &Scene<'a>) -> Option<(&'a Skew, f64)> {
    let skewed = scene.derived.skews.iter().filter(|one| is_skewed(one)).map(|one| (one, share(scene, one)));
    skewed.filter(|(_, share)| *share >= SHARE_MIN).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The waits that are told of.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    told(scene).map(|(one, _)| &one.waited).into_iter()
}

/// Whether it is told of questions to that process.
pub(super) fn tells_of(scene: &Scene, peer: ProcessId) -> bool {
    told(scene).is_some_and(|(one, _)| one.peers.contains(&peer))
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
        subject: format!("{} processes of {who}", one.workers.len()),
        summary: vec![
            format!(
                "{} of {who} ask {} and have their work from {}. Of {} answers {}.",
                one.workers.len(),
                named(peer),
                named(one.source),
                answers(one),
                shares(scene, one),
            ),
            format!(
                "The busiest was at work for {} ({} of the run), all of them for {} on average.",
                time(one.longest_ns()),
                percent(scene.of_wall(one.longest_ns() as f64)),
                time(one.mean_ns()),
            ),
        ],
        cost_ns: one.longest_ns() - one.mean_ns(),
        gain: Gain { low: 0.0, high: share },
        likely: None,
        confidence: scene.confidence(if one.is_sure { Confidence::Medium } else { Confidence::Low }),
        evidence: scene.longest_of(&one.waited, |_| "waits for an answer".to_owned()),
        advice: vec![
            "Let each take less at a time: a smaller prefetch or batch, so that who is free takes the next"
                .into(),
            "Or see how work is given to them: by a hash, a key or a partition of which one has most".into(),
        ],
    };
    Charged { finding, charge: one.waited.clone().and(trace, &one.slept) }
}

/// What part of the answers each of the busiest had, and all others together.
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
