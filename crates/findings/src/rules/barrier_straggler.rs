//! # barrier-straggler: all wait for one thread that was held up
//!
//! ## What it sees
//! Meetings of threads (a barrier, the end of a parallel loop, threads that are joined), which of them came
//! last, and what that one did while the others waited: it ran, it waited for a CPU and who had that, it was blocked,
//! it was woken late.
//!
//! ## Why it hurts
//! A delay of one thread becomes a delay of all: a hundred threads that meet a hundred times each second meet each
//! disturbance of any of them.
//!
//! ## How it decides
//! It counts only time in which the last to come was ready for work and did not do it: waiting for a CPU, for the disk, a
//! lock, a fault, a timer. Waiting for other threads' work is not counted; its cause is elsewhere. The upper end of
//! the gain is that no such time had been on the last one's way to the meeting, at the most what it was behind the last but
//! one. The lower end counts only such time after all others had come.
//!
//! ## What to do
//! Take away what held it up: the summary names it. Fewer threads than CPUs leave room for other programs; pinning two
//! busy threads to one CPU makes each meeting wait for both, one after the other. Or meet less often.
//!
//! ## Blind spots
//! Where the last cannot be told (several threads spin and several do not) there is no cause. Time in the kernel
//! while it runs counts as running. A thread that always has more work is load-imbalance's.
//!
//! ## References
//! Petrini, Kerbyson, Pakin: The case of the missing supercomputer performance (SC 2003).

use std::collections::BTreeMap;

use holdup_events::{ProcessId, ThreadId};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::rendezvous::{Causes, SiteUse};
use crate::finding::{Confidence, Evidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info =
    Info { name: "barrier-straggler", summary: "Threads that meet wait for one that was held up on its way" };

/// Places that are named.
const SITES_MAX: usize = 3;
/// From so many meetings on it is no chance.
const MEETINGS_SURE: u64 = 10;
/// Causes of a smaller part of the lateness are not named.
const CAUSE_MIN: f64 = 0.02;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let uses = scene.derived.rendezvous.uses.iter();
    let late = |used: &&SiteUse| {
        scene.of_wall(used.straggle.high_ns as f64) >= GAIN_MIN
            && !scene.derived.rendezvous.stops_the_world(used)
    };
    let mut findings: Vec<Charged> = uses.filter(late).map(|used| charged(scene, used)).collect();
    findings.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
    findings.truncate(SITES_MAX);
    Ok(findings)
}

fn charged(scene: &Scene, used: &SiteUse) -> Charged {
    let confidence = if used.meetings >= MEETINGS_SURE { Confidence::High } else { Confidence::Medium };
    let share = |ns: u64| scene.of_wall(ns as f64).clamp(0.0, 1.0);
    let causes = causes(scene, &used.causes);
    let mut summary = vec![format!(
        "At {} {} waited {} in all for the last of them; half of the times {} or less, at most {}.",
        count(used.meetings, "meeting"),
        count(used.members.len() as u64, "thread"),
        time(used.harm_ns),
        time(used.lateness_ns[0]),
        time(used.lateness_ns[2]),
    )];
    let lasts: Vec<String> = used
        .by_last
        .iter()
        .take(3)
        .map(|(id, times, _)| {
            let share = *times as f64 / used.meetings.max(1) as f64;
            format!("{} {}", thread(scene.trace, *id), percent(share))
        })
        .collect();
    summary.push(format!("Last to come: {}.", lasts.join(", ")));
    let named: Vec<String> =
        causes.iter().map(|(what, share)| format!("{what} {}", percent(*share))).collect();
    if !named.is_empty() {
        summary.push(format!("While others waited the last: {}.", named.join(" · ")));
    }
    let finding = Finding {
        rule: INFO.name,
        subject: used.name.clone(),
        summary,
        cost_ns: used.harm_ns,
        gain: Gain { low: share(used.straggle.low_ns), high: share(used.straggle.high_ns) },
        confidence: scene.confidence(confidence),
        evidence: evidence(scene, used),
        advice: advice(&used.causes),
    };
    Charged { finding, charge: charge(scene, used) }
}

/// What the last did, for people, with its share of the lateness; the greatest first.
pub(super) fn causes(scene: &Scene, causes: &Causes) -> Vec<(String, f64)> {
    let total = causes.total_ns().max(1) as f64;
    let mut list = vec![
        ("ran".to_owned(), causes.running_ns),
        (format!("waited for a CPU that {} had", own_occupant(scene, causes)), causes.own_ns),
        (format!("waited for a CPU that {} had", other_occupant(scene, causes)), causes.others_ns),
        ("was throttled".to_owned(), causes.throttled_ns),
        ("was woken late".to_owned(), causes.woken_late_ns),
    ];
    let blocked =
        |class: Class| (format!("was blocked ({})", class.name()), causes.blocked_ns[class as usize]);
    list.extend(Class::ALL.into_iter().map(blocked));
    list.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let shares = list.into_iter().map(|(what, ns)| (what, ns as f64 / total));
    shares.filter(|(_, share)| *share >= CAUSE_MIN).collect()
}

/// The thread of the program that most had the CPU.
fn own_occupant(scene: &Scene, causes: &Causes) -> String {
    let is_own = |id: &ThreadId| scene.trace.threads.get(id.index()).is_some_and(|thread| thread.target);
    let own = causes.occupants.iter().filter(|(id, _)| is_own(id));
    let most = own.max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)));
    most.map_or("the program".to_owned(), |(id, _)| thread(scene.trace, *id))
}

/// The other program that most had the CPU.
fn other_occupant(scene: &Scene, causes: &Causes) -> String {
    let mut sums: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for (id, ns) in &causes.occupants {
        if let Some(thread) = scene.trace.threads.get(id.index()).filter(|thread| !thread.target) {
            *sums.entry(thread.process).or_default() += ns;
        }
    }
    let most = sums.into_iter().max_by_key(|(id, ns)| (*ns, std::cmp::Reverse(*id)));
    match most.and_then(|(id, _)| Some((id, scene.trace.processes.get(id.index())?))) {
        Some((id, process)) => format!("{} (pid {})", scene.trace.process_name(id), process.pid),
        None => "another program".to_owned(),
    }
}

/// The costliest meetings: what the last did while others waited.
pub(super) fn evidence(scene: &Scene, used: &SiteUse) -> Vec<Evidence> {
    let rendezvous = &scene.derived.rendezvous;
    let meetings = used.worst.iter().filter_map(|(row, harm)| Some((rendezvous.meetings.get(*row)?, *harm)));
    let rows = meetings.filter_map(|(meeting, harm)| {
        let last = meeting.last?;
        Some(Evidence {
            table: "slices",
            thread: last,
            start: meeting.asked,
            duration: meeting.release.since(meeting.asked),
            note: format!("last to come to {}; others waited {} for it", used.name, time(harm)),
        })
    });
    rows.take(EVIDENCE_MAX).collect()
}

/// The slices in which members waited for the others at this place, sleeping or spinning.
pub(super) fn charge(scene: &Scene, used: &SiteUse) -> Charge {
    let rendezvous = &scene.derived.rendezvous;
    let mut spans: BTreeMap<ThreadId, Vec<(u64, u64)>> = BTreeMap::new();
    for meeting in rendezvous.meetings.iter().filter(|meeting| meeting.site == used.site) {
        for arrival in rendezvous.members(meeting).iter().filter(|one| Some(one.thread) != meeting.last) {
            spans.entry(arrival.thread).or_default().push((arrival.at.0, meeting.release.0));
        }
    }
    Charge::of_rows(scene.trace, |thread, take| {
        let Some(spans) = spans.get(&thread) else { return };
        let mut spans = spans.iter().copied().peekable();
        for row in scene.trace.slices.rows(thread) {
            let slice = scene.trace.slices.at(thread, row);
            while spans.next_if(|(_, to)| *to <= slice.start.0).is_some() {}
            let Some((from, to)) = spans.peek() else { return };
            // Most of the slice is the wait.
            let shared = slice.end.0.min(*to).saturating_sub(slice.start.0.max(*from));
            if 2 * shared > slice.duration().0 {
                take(row);
            }
        }
    })
}

fn advice(causes: &Causes) -> Vec<String> {
    let queue = causes.own_ns.max(causes.others_ns).max(causes.throttled_ns);
    let blocked = Class::ALL.into_iter().map(|class| causes.blocked_ns[class as usize]).max().unwrap_or(0);
    let mut advice = Vec::new();
    if queue >= blocked && causes.own_ns == queue {
        advice.push("Use no more busy threads than CPUs, and pin no two of them to one CPU".to_owned());
    } else if queue >= blocked && causes.others_ns == queue {
        advice.push("Keep the other program off these CPUs (taskset, cpuset), or leave it one".to_owned());
    } else if queue >= blocked {
        advice.push("Raise the group's CPU quota, or use no more threads than it allows to run".to_owned());
    } else {
        advice.push(
            "Take what it waits for out of the way to the meeting: do it before, or in a thread of its own"
                .to_owned(),
        );
    }
    advice.push("Meet less often: more work between two meetings".to_owned());
    advice
}
