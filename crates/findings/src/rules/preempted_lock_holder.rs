//! # preempted-lock-holder: a thread loses its CPU while it holds a lock that others wait for
//!
//! ## What it sees
//! For each lock that threads wait for, when the holder could have run but had no CPU, and who ran there instead:
//! another program, or a thread of the same program.
//!
//! ## Why it hurts
//! The holder waits for a CPU for milliseconds where it would have held the lock for microseconds, and everybody
//! who needs the lock waits with it, also where CPUs are idle. With real-time priorities this is priority
//! inversion: the important thread waits for an unimportant one that a middling one keeps off the CPU.
//!
//! ## How it decides
//! Who held a lock when follows from its releases. It adds up the time in which the holder queued for a CPU while
//! others waited for the lock; time on the way from a wakeup to the first run is not counted (lock-convoy judges
//! that), nor is time in which the group's quota was used up (cpu-throttled). The upper end of the gain is that
//! time, as far as waiters could have used idle CPUs; the lower end is what the active thread that waited least
//! would have saved. Where that is less than half of what the lock's end would gain, or of what is waited for it, it is told as a
//! part of lock-contention. Where holders and waiters together run no more than a tenth of what the program runs, that no CPU is idle
//! is no reason: the holder's little work could go first. Then the upper end is all that time, and it is likely, not sure, since nothing
//! tells whether the run's end depends on those who wait. A holder that got less than a third of the CPU time that who had its CPU got,
//! while both wanted to run, has a lower weight, and that is said.
//!
//! ## What to do
//! Keep the other program off these CPUs; start no more busy threads than there are CPUs; hold the lock for less
//! time; give the holder no lower a priority than those who need the lock have. With real-time priorities use a mutex with priority inheritance (`PTHREAD_PRIO_INHERIT`).
//!
//! ## Blind spots
//! The holder is the thread that released the lock to the next waiter, so a lock that was never released to a
//! waiter has none. A holder that spins for another lock looks as if it worked.
//!
//! ## References
//! Sha, Rajkumar, Lehoczky: Priority inheritance protocols (IEEE Trans. Computers 1990). Ousterhout: Scheduling
//! techniques for concurrent systems (1982). Linux `pthread_mutexattr_setprotocol(3)`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::ThreadId;

use super::{ChargedVerdict, Info};
use crate::derive::inverted::{self, Inverted};
use crate::derive::lock_holding::{self, Holding, LockHolding};
use crate::derive::timelines::Timelines;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info = Info {
    name: "preempted-lock-holder",
    summary: "A thread loses its CPU while it holds a lock that others wait for",
    of_waits_alone: false,
};

/// Locks that are named; more would hide the first.
const LOCKS_MAX: usize = 3;

/// Where the CPUs are busy with other work of the program, those who wait are told of from this part of the run on.
const INVERTED_MIN: f64 = 0.1;

/// A wait is charged if the holder was off its CPU for at least this share of it.
const WAIT_SHARE_MIN: f64 = 0.5;

fn queues(holding: Holding) -> bool {
    holding == Holding::Queues
}

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let worth = |lock: &&LockHolding| scene.of_wall(lock.wall_while(queues) as f64) >= GAIN_MIN;
    let worst: Vec<&LockHolding> = scene.derived.lock_holding.iter().filter(worth).collect();
    if worst.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<Charged> =
        worst.iter().filter_map(|lock| finding(scene, lock, &occupants(lock, scene.timelines))).collect();
    found.sort_by_key(|charged| Reverse(charged.finding.cost_ns));
    found.truncate(LOCKS_MAX);
    Ok(found)
}

/// Who ran on the CPUs that holders queued for (ns), the longest first.
fn occupants(lock: &LockHolding, timelines: &Timelines) -> Vec<(ThreadId, u64)> {
    let mut sums: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for one in lock.stretches.iter().filter(|one| queues(one.holding)) {
        let Some(timeline) = timelines.of(one.cpu) else { continue };
        for stretch in timeline.between(one.from, one.to) {
            let ns = stretch.end().min(one.to).since(stretch.start().max(one.from)).0;
            *sums.entry(stretch.thread()).or_default() += ns;
        }
    }
    let mut ranked: Vec<(ThreadId, u64)> = sums.into_iter().collect();
    ranked.sort_by_key(|(thread, ns)| (Reverse(*ns), *thread));
    ranked
}

fn finding(scene: &Scene, lock: &LockHolding, occupants: &[(ThreadId, u64)]) -> Option<Charged> {
    let trace = scene.trace;
    let (holder, _) = lock.holders_while(queues).first().copied()?;
    let name = scene.lock_name(lock.lock);
    let charged = lock_holding::charge(
        (trace, &scene.derived.roles),
        (&scene.derived.occupancy.locks, lock),
        WAIT_SHARE_MIN,
        queues,
    );
    let (wall_ns, cost_ns) = (lock.wall_while(queues), lock.waiting_while(queues));
    let times = lock.stretches.iter().filter(|one| queues(one.holding)).count() as u64;
    let gain = scene.gain(&scene.stall(&charged.waits), |_, waited| waited);
    let most = scene.of_wall(wall_ns as f64);
    let gain = Gain { low: gain.low.min(most), high: gain.high.min(most) };
    let (waits, held) = (charged.waits.clone(), charged.held.clone());
    let charge = charged.both(trace);
    let inverted = inverted::of(trace, &scene.derived.ledger, &charge).filter(|_| most >= INVERTED_MIN);
    let gain = if inverted.is_some() { Gain { high: most, ..gain } } else { gain };
    if gain.high < GAIN_MIN {
        return None;
    }
    let by_whom = match occupants.first() {
        Some((who, ns)) => {
            let all: u64 = occupants.iter().map(|(_, ns)| ns).sum();
            format!(
                "{} had its CPU for {} of that",
                thread(trace, *who),
                percent(*ns as f64 / all.max(1) as f64)
            )
        }
        None => "who had its CPU is not known".to_owned(),
    };
    let mut summary = vec![
        format!(
            "{}, its holder waited for a CPU while others waited for the lock: {} of wall time, {} of their time.",
            count(times, "time"),
            time(wall_ns),
            time(cost_ns),
        ),
        format!("Mostly the holder was {}; {by_whom}.", thread(trace, holder)),
    ];
    let occupant = occupants.first().map(|(who, _)| *who);
    summary.extend(inverted.as_ref().map(in_the_way));
    summary.extend(occupant.and_then(|other| weighs_less(scene, (holder, other))));
    // Whether the run's end depends on those who wait, or on who had the CPUs, nothing tells.
    let sure = if inverted.is_some() { Confidence::Medium } else { Confidence::High };
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{name}, held by {}", thread(trace, holder)),
        summary,
        cost_ns,
        gain,
        likely: None, confidence: scene.confidence(sure),
        evidence: scene.longest_of_both(
            (&held, &|slice| format!("holds {name} and waits for CPU {}", slice.cpu.0)),
            (&waits, &|_| format!("waits for {name}, whose holder has no CPU")),
        ),
        advice: vec![
            "Keep what took the CPU away from it (other CPUs, lower priority), or use fewer busy threads"
                .into(),
            "Give the holder no lower a priority (nice value, its control group's cpu.weight) than those who need the lock have"
                .into(),
            "With real-time priorities: a mutex with priority inheritance (PTHREAD_PRIO_INHERIT)".into(),
            "Hold the lock for less time".into(),
        ],
    };
    Some(Charged { finding, charge })
}

/// What it would take from the others to let the holder run.
fn in_the_way(inverted: &Inverted) -> String {
    format!(
        "Who held the lock or waited for it ran {} of the {} that the program ran: to run the holder first takes little from the rest.",
        time(inverted.ran_ns),
        time(inverted.all_ns),
    )
}

/// That the holder got less of the CPUs than who had them, by more than chance.
fn weighs_less(scene: &Scene, (holder, other): (ThreadId, ThreadId)) -> Option<String> {
    let (mine, theirs) = inverted::unfair(&scene.derived.ledger, (holder, other))?;
    Some(format!(
        "While it wanted to run, {} got {} of the time, {} {}: its weight is lower (nice value, or its control group's cpu.weight).",
        thread(scene.trace, holder),
        percent(mine),
        thread(scene.trace, other),
        percent(theirs),
    ))
}
