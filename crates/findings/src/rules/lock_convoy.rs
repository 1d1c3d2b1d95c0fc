//! # lock-convoy: a lock is handed from sleeper to sleeper, and waking them takes as long as the work
//!
//! ## What it sees
//! For each lock that threads wait for, how long it took from each release until the thread that was given the
//! lock ran, while still others waited; and how long those who had the lock were in the kernel only to take it over
//! and to wake the next.
//!
//! ## Why it hurts
//! Once a queue has formed at a lock that is handed on in order, each owner must be woken first. The lock is
//! taken all the time, but for most of it nobody works under it; and a thread that releases it and wants it back
//! has to queue. The queue never ends, at a load that the lock would bear without one.
//!
//! ## How it decides
//! A handover counts where the thread that was woken is the next to release the lock to a waiter. It fires if handovers
//! are frequent, most releases are handovers, and the lock is with threads that only arrive or hand on (asleep still, on
//! the way to a CPU, in futex(2); the last by samples) for a fair part of the time in which anybody waits for it. The time in
//! which the CPU that such a thread is to have runs another of the program is not counted: that one works, and the next
//! owner would not have had the CPU without the lock, either.
//! The gain is that of the same run replayed: at the least, whoever is given the lock runs at once and never enters the
//! kernel for it; at the most, nobody waits for it.
//!
//! ## What to do
//! Take the lock less often (batches), or hold it so shortly that a thread can spin for it. Locks that are not
//! handed over but can be taken by whoever runs (most futex mutexes) do not form convoys as easily as those that
//! are fair, or have priority inheritance.
//!
//! ## Blind spots
//! A lock that is taken by a running thread between the release and the arrival of the woken one looks handed
//! over if that thread finds no waiter to wake. Locks that spin form convoys too, without sleepers.
//!
//! ## References
//! Blasgen, Gray, Mitoma, Price: The convoy phenomenon (Operating Systems Review 1979). Dice: Malthusian locks
//! (EuroSys 2017).

use std::cmp::Reverse;

use super::lock_contention::known_advice;
use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::lock_holding::LockHolding;
use crate::derive::syscall_names::FUTEX;
use crate::finding::{Confidence, Finding};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "lock-convoy",
    summary: "A lock is handed from sleeper to sleeper, and waking them takes the time",
    of_waits_alone: false,
};

/// Locks that are named; more would hide the first.
const LOCKS_MAX: usize = 3;

/// Fewer handovers are a start and an end.
const HANDOVERS_MIN: u64 = 100;

/// Handovers that take less of the contended time than this are not what the lock is slow for.
const HANDOVER_SHARE_MIN: f64 = 0.3;

/// So many of the releases to a waiter must hand the lock to it: else it is free to be taken by others.
const HANDED_MIN: f64 = 0.5;

/// How long the lock was with somebody who was on the way to it, or handed it on, while others waited and nothing else was
/// done (ns).
fn handing_ns(scene: &Scene, lock: &LockHolding) -> u64 {
    (lock.on_the_way(scene.timelines) + lock.in_call(FUTEX)).min(lock.contended_ns)
}

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let locks = scene.derived.lock_holding.iter().filter(|lock| is_it(scene, lock));
    let mut found: Vec<Charged> = locks.filter_map(|lock| finding(scene, lock)).collect();
    found.sort_by_key(|charged| Reverse(charged.finding.cost_ns));
    found.truncate(LOCKS_MAX);
    Ok(found)
}

fn is_it(scene: &Scene, lock: &LockHolding) -> bool {
    let handing_ns = handing_ns(scene, lock) as f64;
    scene.of_wall(handing_ns) >= GAIN_MIN
        && lock.handed >= HANDOVERS_MIN
        && lock.handed as f64 >= HANDED_MIN * lock.releases as f64
        && handing_ns >= HANDOVER_SHARE_MIN * lock.contended_ns as f64
}

fn advice() -> Vec<String> {
    vec![
        "Take the lock less often: several items at a time".into(),
        "Use a lock that whoever runs may take (no fair, ticket or priority-inheritance lock), or that spins a little".into(),
    ]
}

fn finding(scene: &Scene, lock: &LockHolding) -> Option<Charged> {
    let name = scene.lock_name(lock.lock);
    let locks = &scene.derived.occupancy.locks;
    let told = (scene.trace, &scene.derived.roles);
    let charge = Charge::of(scene.trace, |slice| locks.waited(told, slice) == Some(lock.lock));
    let mut gain = scene.gain(&scene.stall(&charge), |_, waited| waited);
    // Where CPUs are busy waiting costs nothing, but the kernel's work does.
    gain.high = (gain.high + scene.of_wall_if_run(lock.in_call(FUTEX) as f64)).min(1.0);
    if gain.high < GAIN_MIN {
        return None;
    }
    let handing_ns = handing_ns(scene, lock);
    let finding = Finding {
        rule: INFO.name,
        subject: name.clone(),
        summary: vec![
            format!(
                "{} from one sleeper to the next, of {}; arriving and handing on took {} each on average: {} of the {} in which threads waited for it.",
                count(lock.handed, "handover"),
                count(lock.releases, "release"),
                time(handing_ns / lock.releases.max(1)),
                percent(handing_ns as f64 / lock.contended_ns.max(1) as f64),
                time(lock.contended_ns),
            ),
            format!(
                "From the release until the next owner ran {}, in futex with the lock held {} (sampled).",
                time(lock.on_the_way(scene.timelines)),
                time(lock.in_call(FUTEX)),
            ),
        ],
        cost_ns: lock.waiting_ns,
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |_| format!("waits for {name}, which is handed on to sleepers")),
        advice: match scene.lock(lock.lock).and_then(|lock| known_advice(scene, lock)) {
            Some(known) => vec![known],
            None => advice(),
        },
    };
    Some(Charged { finding, charge })
}
