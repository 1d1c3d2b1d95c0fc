//! # long-pause: the pause for which a flight recorder saved this recording
//!
//! ## What it sees
//! `holdup watch` saved the recording because one thread waited for longer than a trigger allows. This is that wait: what
//! the thread waited for, who had it, what that one did meanwhile, and so on to the cause.
//!
//! ## Why it hurts
//! Whoever waited for that thread waited as long: a request, a frame, a heartbeat. Such moments are a small part of any
//! recording, so the other findings, which go by what the whole run would gain, may not mention them.
//!
//! ## How it decides
//! It follows the thread's longest wait inside the pause to who had what it waited for, from there to that thread's
//! longest wait, and so on. The cause is at the end of the chain. It comes first, whatever the whole recording would gain:
//! at the least nothing (others may go on meanwhile), at the most the pause.
//!
//! ## What to do
//! It depends on the end of the chain: a lock is let go of before its holder waits or computes; a thread that could run gets a CPU
//! of its own, or a neighbour less; what waits for a clock waits for the event in place of it.
//!
//! ## Blind spots
//! Chains end where no thread is known to have had what was waited for. Pauses in which the thread ran, such as a function
//! that computed for long, have no chain: see the thread's samples. Locks of runtimes that park their threads are waits
//! for work here.
//!
//! ## References
//! Zhou et al.: wPerf, Generic Off-CPU Analysis to Identify Bottleneck Waiting Events (OSDI 2018).

use std::collections::BTreeSet;

use holdup_events::WaitReason;
use holdup_events::recording::Fired;
use holdup_events::tables::ThreadState;

use super::{Info, Verdict};
use crate::derive::holders::HoldKind;
use crate::derive::why::What;
use crate::finding::{Confidence, Evidence, Finding, Gain};
use crate::moment::{Moments, Told};
use crate::scene::{EVIDENCE_MAX, Scene};
use crate::wording::thread;

pub(super) const INFO: Info = Info {
    name: "long-pause",
    summary: "A thread waited for longer than the trigger that saved this allows",
    of_waits_alone: false,
};

/// Pauses that are told, the first ones.
const PAUSES_MAX: usize = 3;
/// Of a pause, so much at least must have been one wait: else it was its thread's running that took long.
const WAIT_SHARE_MIN: f64 = 0.5;

pub(super) fn judge(scene: &Scene) -> Verdict {
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

fn is_most_of(first: &Told, fired: &Fired) -> bool {
    first.link.end.since(first.link.start).0 as f64 >= WAIT_SHARE_MIN * fired.length_ns as f64
}

fn finding(scene: &Scene, fired: &Fired, chain: &[Told]) -> Finding {
    let paused_ns = chain.first().map_or(0, |first| first.link.end.since(first.link.start).0);
    let summary = chain.iter().enumerate().map(|(place, told)| match (place, told.link.thread) {
        (0, _) => format!("{}: that fired {}.", told.text, fired.trigger),
        (_, Some(_)) => format!("{}.", told.text),
        (_, None) => format!("{}.", sentence(&told.text)),
    });
    let summary = summary.collect();
    let is_known = !matches!(chain.last().map(|told| &told.link.what), Some(What::CpuIdle) | None);
    Finding {
        rule: INFO.name,
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
fn who(scene: &Scene, chain: &[Told]) -> String {
    let last = chain.iter().rev().find_map(|told| told.link.thread);
    last.map_or_else(|| "a thread".to_owned(), |id| thread(scene.trace, id))
}

/// Who is at the end of the chain, and where.
fn subject(scene: &Scene, chain: &[Told]) -> String {
    let who = who(scene, chain);
    let last = chain.iter().rev().find(|told| told.link.thread.is_some());
    match last.and_then(|told| told.place.as_ref()) {
        Some(place) => format!("{who} in {place}"),
        None => who,
    }
}

fn evidence(told: &Told) -> Option<Evidence> {
    let (start, end) = (told.link.start, told.link.end);
    let thread = told.link.thread?;
    Some(Evidence { table: "slices", thread, start, duration: end.since(start), note: told.text.clone() })
}

/// What usually helps against what is at the end of the chain.
fn advice(scene: &Scene, chain: &[Told]) -> Vec<String> {
    let is_lock = |told: &Told| matches!(&told.link.what, What::Held(hold, _) if hold.kind == HoldKind::Lock);
    let held = chain.iter().rev().find(|told| is_lock(told));
    let holder = held.and_then(|told| told.link.thread).map(|id| thread(scene.trace, id));
    let mut advice = Vec::new();
    let waits = chain.iter().rev().find(|told| told.link.what == What::Slice);
    let place = waits.and_then(|told| told.place.as_ref()).map(|place| format!(", in {place}"));
    let place = place.unwrap_or_default();
    if let Some(holder) = holder {
        let last_is_held = chain.last().is_some_and(is_lock);
        advice.push(match last_is_held {
            true => format!("Do less while {holder} has the lock: copy what is needed, and work on it after"),
            false => format!("Let go of the lock before {holder} waits{place}"),
        });
    }
    let waited = waits.and_then(|told| told.link.thread.zip(told.link.row));
    let slice = waited.map(|(id, row)| scene.trace.slices.at(id, row));
    match slice {
        Some(slice) if slice.state == ThreadState::Throttled => {
            advice.push("Raise the group's CPU quota (cpu.max), or start fewer threads".to_owned());
        }
        Some(slice) if slice.state.waits_for_cpu() => {
            advice.push(format!(
                "Keep a CPU free for {}: fewer threads, a lower priority of {}, or a CPU set",
                thread(scene.trace, slice.thread),
                who(scene, chain)
            ));
        }
        Some(slice) if scene.trace.wait(slice.wait).reason == WaitReason::Sleep => {
            advice.push(format!("Wait for what the sleep is there for, not for a time{place}"));
        }
        _ => {}
    }
    advice.push("Look at the moment: `holdup view`, at the mark on the lane `holdup watch`".to_owned());
    advice
}
