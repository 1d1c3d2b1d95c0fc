//! # batch-straggler: questions go out in groups, and each group waits for its slowest answer
//!
//! ## What it sees
//! A program that asks a service many things one after the other, waits for all the answers, and only then asks the next ones; how
//! many such groups there were, how long each took, and how long its answers took on average.
//!
//! ## Why it hurts
//! Of 32 questions 31 may be answered in 10 ms: the next 32 go out when the slowest is, too. Until then one question is under way where
//! there could be 32, and neither the service nor the CPUs have anything to do.
//!
//! ## How it decides
//! Questions and answers are wakeups across processes that end waits for the network. A group begins with three or more questions
//! that were seen in a row, with no answer between them; of all questions at most a fifth comes otherwise, and of who asks, a
//! clock or another program's word hardly ever begins the next group. Groups are taken to be as large as the largest tenth, and answers
//! that were not seen to come with the first. With as many under way all the time a group would take as long as
//! its answers take on average, or as who asks runs for it: the rest is the gain's upper end, as far as nothing else went on
//! meanwhile. Where it is less than a third of what groups take, nothing is told. The lower end is none: whether the next questions need
//! the answers to the last, nothing here tells. It is likely where it is known who asks whom, else a hint.
//!
//! ## What to do
//! Keep as many under way as the group is large: begin the next question as soon as any is answered (workers that take from one
//! iterator, a semaphore, p-limit, `asyncio.as_completed`, `FuturesUnordered` or `buffer_unordered`, a completion service, errgroup's
//! SetLimit) in place of groups that are awaited whole (Promise.all, gather, invokeAll, a WaitGroup for each chunk). A time-out with a
//! second try bounds the slowest.
//!
//! ## Blind spots
//! What comes to who is awake leaves no wakeup: groups look smaller than they are, and those of two are not seen. Services elsewhere
//! are not seen, nor those that answer more than one process's questions through a proxy that is not recorded. An answer that comes in pieces looks like
//! several.
//!
//! ## References
//! Dean, Barroso: The tail at scale (CACM 2013). Little: A proof for the queuing formula L = λW (1961).

use holdup_events::ProcessId;

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::asked_in_groups::InGroups;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::Scene;
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "batch-straggler",
    summary: "Questions go out in groups, and each group waits for its slowest answer",
    of_waits_alone: true,
};

/// Of the run, such waits must cost this part.
const SHARE_MIN: f64 = 0.05;

/// Of the time that groups take, this part must be waiting for the slowest; below it, how few are under way at once says more.
const IDLE_MIN: f64 = 1.0 / 3.0;

/// Services that are named.
const NAMED_MAX: usize = 3;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    Ok(told(scene).map(|(asked, share)| finding(scene, asked, share)).collect())
}

/// Those that are told of, with the part of the run that would go.
fn told<'a>(scene: &Scene<'a>) -> impl Iterator<Item = (&'a InGroups, f64)> {
    let asked = scene.derived.asked_in_groups.iter();
    let asked = asked.filter(|one| one.idle_ns as f64 >= IDLE_MIN * one.took_ns as f64);
    let asked = asked.map(move |one| (one, share(scene, one)));
    asked.filter(|(_, share)| *share >= SHARE_MIN).take(NAMED_MAX)
}

/// The waits that are told of.
pub(super) fn waits<'a>(scene: &Scene<'a>) -> impl Iterator<Item = &'a Charge> {
    told(scene).map(|(asked, _)| &asked.waited)
}

/// Whether it is told of questions to that process.
pub(super) fn tells_of(scene: &Scene, peer: ProcessId) -> bool {
    told(scene).any(|(asked, _)| asked.peers.contains(&peer))
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
            "{who} asked {peer} in {}, {:.0} questions in a row at the least on average, and nothing more until all of a group was answered.",
            count(asked.groups, "group"),
            asked.asks as f64 / asked.groups as f64,
        ),
        format!(
            "A group took {} until the next; its answers came after {} on average at the least. With as many under way all the time, up to {} of the run would go.",
            each(asked.took_ns),
            each(asked.answered_ns),
            percent(share),
        ),
    ];
    summary.extend(scene.charged_come_from(&asked.waited));
    let sure = if asked.is_sure { Confidence::Medium } else { Confidence::Low };
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{who} asks {peer}"),
        summary,
        cost_ns: asked.idle_ns,
        gain: Gain { low: 0.0, high: share },
        likely: None, confidence: scene.confidence(sure),
        evidence: scene.longest_of(&asked.waited, |_| "waits for the rest of a group".to_owned()),
        advice: vec![
            "Begin the next question as soon as any is answered: workers that take from one list, or a limit on how many are under way, in place of groups that are awaited whole (Promise.all, gather, invokeAll, a WaitGroup for each chunk)".into(),
            "See why few answers take so much longer than the rest; a time-out with a second try bounds them".into(),
        ],
    };
    Charged { finding, charge: asked.waited.clone().and(trace, &asked.slept) }
}
