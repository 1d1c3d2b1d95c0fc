//! # long-pause: the pause for which a flight recorder saved this recording
//!
//! ## Symptoms
//! `holdup watch` saved the recording because one thread waited for longer than a trigger allows. This is
//! that wait: the awaited object, its holder, the holder's state during the wait, and so on to the cause.
//!
//! ## Why it hurts
//! Every request, frame or heartbeat that needed that thread waited as long. Such moments are a small part of
//! any recording. The other findings rank by the gain of the whole run, so they may not mention them.
//!
//! ## How it decides
//! It follows the thread's longest wait inside the pause to the holder of the awaited object. From there it
//! follows that thread's longest wait, and so on. The cause is at the end of the chain. The finding comes
//! first, whatever the gain of the whole recording. The lower bound is 0 (other threads may continue during
//! the pause). The upper bound is the pause.
//!
//! ## What to do
//! The remedy depends on the end of the chain. Release a lock before the holder waits or computes. Give a
//! runnable thread its own CPU, or remove a neighbour. Wait for the event instead of a clock.
//!
//! ## Blind spots
//! Chains end where no holder is known. Pauses in which the thread ran, such as a long computation in a
//! function, have no chain: see the thread's samples. Locks of runtimes that park their threads are waits for
//! work here.
//!
//! ## References
//! Zhou et al.: wPerf, Generic Off-CPU Analysis to Identify Bottleneck Waiting Events (OSDI 2018).

use std::collections::BTreeSet;

use holdup_events::WaitReason;
use holdup_events::recording::Fired;
use holdup_events::tables::ThreadState;

use crate::derive::holders::HoldKind;
use crate::derive::why::What;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::moment::{ChainLink, Moments};
use crate::rule::{ChargedVerdict, Info, Rule, Standing, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, Scene};
use crate::wording::thread;

pub(super) static INFO: Info = Info {
    standing: Standing::Requested,
    ..Info::new("long-pause", "A thread waited for longer than the trigger allows")
};

/// Maximum number of reported pauses. The first ones are reported.
const PAUSES_MAX: usize = 3;
/// Minimum share of a pause that is one wait. Otherwise the thread's own running was long.
const WAIT_SHARE_MIN: f64 = 0.5;

pub(super) struct LongPause;

impl Rule for LongPause {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let Some(moments) = Moments::new(scene.trace, scene.derived, scene.timelines) else {
        return Ok(Vec::new());
    };
    let mut seen = BTreeSet::new();
    let mut pauses = Vec::new();
    for fired in &scene.trace.manifest.fired {
        let chain = moments.chain(fired);
        let Some(first) = chain.first().filter(|first| is_most_of(first, fired)) else { continue };
        // Several triggers may fire for one wait.
        if seen.insert((first.link.thread, first.link.row)) && pauses.len() < PAUSES_MAX {
            pauses.push(finding(scene, fired, &chain));
        }
    }
    Ok(pauses)
}

fn is_most_of(first: &ChainLink, fired: &Fired) -> bool {
    first.link.end.since(first.link.start).0 as f64 >= WAIT_SHARE_MIN * fired.length_ns as f64
}

fn finding(scene: &Scene, fired: &Fired, chain: &[ChainLink]) -> Finding {
    let paused_ns = chain.first().map_or(0, |first| first.link.end.since(first.link.start).0);
    let summary = chain.iter().enumerate().map(|(place, step)| match (place, step.link.thread) {
        (0, _) => format!("{}: that fired {}.", step.text, fired.trigger),
        (_, Some(_)) => format!("{}.", step.text),
        (_, None) => format!("{}.", sentence(&step.text)),
    });
    let summary = summary.collect();
    let is_known = !matches!(chain.last().map(|step| &step.link.what), Some(What::CpuIdle) | None);
    Finding {
        rule: INFO.name,
        about: About::Other,
        subject: subject(scene, chain),
        summary,
        cost_ns: paused_ns,
        gain: Gain { low: 0.0, high: scene.of_wall(paused_ns as f64).min(1.0) },
        likely: None,
        confidence: scene.confidence(if is_known { Confidence::High } else { Confidence::Medium }),
        evidence: chain.iter().filter_map(evidence).take(EVIDENCE_MAX).collect(),
        advice: advice(scene, chain),
    }
}

/// With a capital.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The last thread of a chain.
fn last_thread(scene: &Scene, chain: &[ChainLink]) -> String {
    let last = chain.iter().rev().find_map(|step| step.link.thread);
    last.map_or_else(|| "a thread".to_owned(), |id| thread(scene.trace, id))
}

/// The thread at the end of the chain, and its place.
fn subject(scene: &Scene, chain: &[ChainLink]) -> String {
    let who = last_thread(scene, chain);
    let last = chain.iter().rev().find(|step| step.link.thread.is_some());
    match last.and_then(|step| step.place.as_ref()) {
        Some(place) => format!("{who} in {place}"),
        None => who,
    }
}

fn evidence(step: &ChainLink) -> Option<Evidence> {
    let (start, end) = (step.link.start, step.link.end);
    let thread = step.link.thread?;
    Some(Evidence { table: "slices", thread, start, duration: end.since(start), note: step.text.clone() })
}

/// The usual advice for the end of the chain.
fn advice(scene: &Scene, chain: &[ChainLink]) -> Vec<String> {
    let is_lock =
        |step: &ChainLink| matches!(&step.link.what, What::Held(hold, _) if hold.kind == HoldKind::Lock);
    let held = chain.iter().rev().find(|step| is_lock(step));
    let holder = held.and_then(|step| step.link.thread).map(|id| thread(scene.trace, id));
    let mut advice = Vec::new();
    let waits = chain.iter().rev().find(|step| step.link.what == What::Slice);
    let place = waits.and_then(|step| step.place.as_ref()).map(|place| format!(", in {place}"));
    let place = place.unwrap_or_default();
    if let Some(holder) = holder {
        let last_is_held = chain.last().is_some_and(is_lock);
        advice.push(match last_is_held {
            true => {
                format!("Do less while {holder} holds the lock: copy the data, and process it afterwards")
            }
            false => format!("Release the lock before {holder} waits{place}"),
        });
    }
    let waited = waits.and_then(|step| step.link.thread.zip(step.link.row));
    let slice = waited.map(|(id, row)| scene.trace.slices.at(id, row));
    match slice {
        Some(slice) if slice.state == ThreadState::Throttled => {
            advice.push("Raise the cgroup's CPU quota (cpu.max), or start fewer threads".to_owned());
        }
        Some(slice) if slice.state.waits_for_cpu() => {
            advice.push(format!(
                "Keep a CPU free for {}: fewer threads, a lower priority of {}, or a CPU set",
                thread(scene.trace, slice.thread),
                last_thread(scene, chain)
            ));
        }
        Some(slice) if scene.trace.wait(slice.wait).reason == WaitReason::Sleep => {
            advice.push(format!("Wait for the event itself, not for a time{place}"));
        }
        _ => {}
    }
    advice.push("Inspect the moment: `holdup view`, at the mark on the lane `holdup watch`".to_owned());
    advice
}
