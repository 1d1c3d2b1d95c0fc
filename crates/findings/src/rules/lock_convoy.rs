//! # lock-convoy: a lock is handed from sleeper to sleeper, and waking them takes as long as the work
//!
//! ## What it sees
//! For each lock that threads wait for, how long it took from each release until the thread that was given the
//! lock ran, while still others waited.
//!
//! ## Why it hurts
//! Once a queue has formed at a lock that is handed on in order, each owner must be woken first. The lock is
//! taken all the time, but for most of it nobody works under it; and a thread that releases it and wants it back
//! has to queue. The queue never ends, at a load that the lock would bear without one.
//!
//! ## How it decides
//! A handover counts where the thread that was woken is the next to release the lock. It fires if handovers
//! are frequent, and take a fair part of the time in which anybody waits for the lock. The upper end of the gain
//! is all of that time, as far as CPUs were idle; the lower end is what the active thread that waited least would
//! have saved.
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

use super::{ChargedVerdict, Info};
use crate::derive::lock_holding::{self, Holding, LockHolding};
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "lock-convoy",
    summary: "A lock is handed from sleeper to sleeper, and waking them takes the time",
};

/// Locks that are named; more would hide the first.
const LOCKS_MAX: usize = 3;

/// Fewer handovers are a start and an end.
const HANDOVERS_MIN: u64 = 100;

/// Handovers that take less of the contended time than this are not what the lock is slow for.
const HANDOVER_SHARE_MIN: f64 = 0.3;

/// So many of the releases to a waiter must hand the lock to it: else it is free to be taken by others.
const HANDED_MIN: f64 = 0.5;

fn arrives(holding: Holding) -> bool {
    holding == Holding::Arrives
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
    let wall_ns = lock.wall_while(arrives);
    let handovers = handovers(lock);
    scene.of_wall(wall_ns as f64) >= GAIN_MIN
        && handovers >= HANDOVERS_MIN
        && handovers as f64 >= HANDED_MIN * lock.releases as f64
        && wall_ns as f64 >= HANDOVER_SHARE_MIN * lock.contended_ns as f64
}

/// How often a woken thread was the next owner.
fn handovers(lock: &LockHolding) -> u64 {
    let mut last = None;
    let mut count = 0;
    for one in lock.stretches.iter().filter(|one| arrives(one.holding)) {
        // A handover may be several stretches: still asleep, then queued.
        if last != Some((one.from, one.holder)) {
            count += 1;
        }
        last = Some((one.to, one.holder));
    }
    count
}

fn finding(scene: &Scene, lock: &LockHolding) -> Option<Charged> {
    let name = scene.lock_name(lock.lock);
    let locks = &scene.derived.occupancy.locks;
    let charge = lock_holding::charge(scene.trace, (locks, lock), HANDOVER_SHARE_MIN / 2.0, arrives).waits;
    let wall_ns = lock.wall_while(arrives);
    let gain = scene.gain(&scene.stall(&charge), |_, waited| waited);
    let most = scene.of_wall(wall_ns as f64);
    if gain.high.min(most) < GAIN_MIN {
        return None;
    }
    let handovers = handovers(lock);
    let finding = Finding {
        rule: INFO.name,
        subject: name.clone(),
        summary: vec![
            format!(
                "{} from one sleeper to the next, {} each on average until it ran: {} of the {} in which threads waited for it.",
                count(handovers, "handover"),
                time(wall_ns / handovers.max(1)),
                percent(wall_ns as f64 / lock.contended_ns.max(1) as f64),
                time(lock.contended_ns),
            ),
            format!("Others waited {} meanwhile.", time(lock.waiting_while(arrives))),
        ],
        cost_ns: lock.waiting_ns,
        gain: Gain { low: gain.low.min(most), high: gain.high.min(most) },
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |_| format!("waits for {name}, which is handed on to sleepers")),
        advice: vec![
            "Take the lock less often: several items at a time".into(),
            "Use a lock that whoever runs may take (no fair, ticket or priority-inheritance lock), or that spins a little".into(),
        ],
    };
    Some(Charged { finding, charge })
}
