//! # lock-convoy: a lock is passed from sleeper to sleeper, and waking them takes as long as the work
//!
//! ## Symptoms
//! For each contended lock, the time from each release until the next holder ran, while still others waited.
//! It also sees the time that holders spent in the kernel only to take the lock over and to wake the next
//! thread.
//!
//! ## Why it hurts
//! Once a queue has formed at a lock that is passed on in order, each holder must be woken first. The lock is
//! held all the time, but most of the time no thread works under it. A thread that releases the lock and
//! needs it again has to queue. The queue never ends, at a load that the lock could serve without a queue.
//!
//! ## How it decides
//! A handover counts if the woken thread is the next one to release the lock to a waiter. Handovers must be
//! frequent, and most releases must be handovers. For a fair part of the contended time, the lock must belong
//! to threads that only arrive or pass it on. These are asleep, runnable, or in futex(2) (by samples). Time
//! in which the CPU of such a thread runs another thread of the program is not counted. That thread works,
//! and the next holder would not have had the CPU without the lock either.
//!
//! The gain is that of the same run replayed. Lower bound: the next holder runs at once and never enters the
//! kernel for the lock. Upper bound: no thread waits for it.
//!
//! ## What to do
//! Take the lock less often (batches), or hold it so briefly that a thread can spin for it. Locks that any
//! running thread can take (most futex mutexes) form convoys less easily than fair locks, or locks with
//! priority inheritance.
//!
//! ## Blind spots
//! A running thread may take the lock between the release and the arrival of the woken thread. If it then
//! finds no waiter to wake, this looks like a handover. Spinning locks form convoys too, without sleepers.
//!
//! ## References
//! Blasgen, Gray, Mitoma, Price: The convoy phenomenon (Operating Systems Review 1979). Dice: Malthusian
//! locks (EuroSys 2017).

use std::cmp::Reverse;

use holdup_events::tables::ThreadState;

use super::lock_contention::{division, known_advice};
use crate::charge::Charge;
use crate::derive::lock_calls::{Calls, LockCalls};
use crate::derive::lock_holding::LockHolding;
use crate::derive::replay::{Change, Facts, Speed};
use crate::derive::syscall_names::FUTEX;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::widened;
use crate::removal::{Removal, locks, ran};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    is_usual: true,
    explains: &[
        // A lock whose holder waits for another lock: the last of the chain is the cause.
        Explains::shared(&super::lock_contention::INFO),
    ],
    remedies: &[Remedy::new(&[], "policy", &["batch"], "longer time slices")],
    ..Info::new("lock-convoy", "A lock passes between sleeping threads, and wakeups take most of the time")
};

/// Maximum number of locks that are named. More would hide the first one.
const LOCKS_MAX: usize = 3;

/// Fewer handovers are a start and an end.
const HANDOVERS_MIN: u64 = 100;

/// Handovers that take less of the contended time than this are not what the lock is slow for.
const HANDOVER_SHARE_MIN: f64 = 0.3;

/// Minimum share of handovers among the releases to a waiter. Otherwise any thread can take the lock.
const HANDED_MIN: f64 = 0.5;

/// Time (ns) that the lock belonged to a thread on the way to it, or passing it on. Other threads waited in
/// that time, and no other work was done.
fn handing_ns(scene: &Scene, lock: &LockHolding) -> u64 {
    (lock.on_the_way(scene.timelines) + lock.in_call(FUTEX)).min(lock.contended_ns)
}

pub(super) struct LockConvoy;

impl Rule for LockConvoy {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let locks = scene.derived.lock_holding.iter().filter(|lock| is_it(scene, lock));
        let mut found: Vec<Charged> = locks.filter_map(|lock| finding(scene, lock)).collect();
        found.sort_by_key(|charged| Reverse(charged.finding.cost_ns));
        found.truncate(LOCKS_MAX);
        Ok(found)
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        let number = locks::lock_of(cause.finding)?;
        Some(without_handovers(cause.facts(), cause.known.lock_calls(), number))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // Threads that wait in turn for pieces of one job would share the job evenly.
        let own = cause.finding.gain;
        if own.high > forecast.high && division::is_one_job(cause.trace(), cause.charge) {
            return Gain { low: forecast.low, high: widened(own).high };
        }
        forecast
    }
}

/// Removes the sleeps at handovers of a lock: the next holder runs at once, without syscalls. Upper bound:
/// the lock is taken so rarely, or so briefly, that no thread queues for it.
fn without_handovers(facts: Facts, calls: &LockCalls, lock: u32) -> Removal {
    let trace = facts.trace;
    let waits = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked && facts.locks.of_slice(slice) == Some(lock)
    });
    let calls = ran(Speed::weighed(trace, calls.shares(lock, Calls::Contended)));
    Removal {
        least: vec![Change::AtOnce(waits), calls.clone()],
        most: vec![Change::WithoutLock(lock), calls],
    }
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
        "Take the lock less often: several items per lock".into(),
        "Use a lock that a running thread may take at once (no fair, ticket or priority-inheritance lock), or that spins briefly".into(),
    ]
}

fn finding(scene: &Scene, lock: &LockHolding) -> Option<Charged> {
    let name = scene.lock_name(lock.lock);
    let locks = &scene.derived.occupancy.locks;
    let told = (scene.trace, &scene.derived.roles);
    let charge = Charge::matching(scene.trace, |slice| locks.waited(told, slice) == Some(lock.lock));
    let mut gain = scene.gain(&scene.stall(&charge), |_, waited| waited);
    // Where CPUs are busy waiting costs nothing, but the kernel's work does.
    gain.high = (gain.high + scene.of_wall_if_run(lock.in_call(FUTEX) as f64)).min(1.0);
    if gain.high < GAIN_MIN {
        return None;
    }
    let handing_ns = handing_ns(scene, lock);
    let finding = Finding {
        rule: INFO.name,
        about: About::Lock(lock.lock),
        subject: name.clone(),
        summary: vec![
            format!(
                "{} from one sleeping thread to the next, of {}. Each took {} on average: {} of the {} in which threads waited for the lock.",
                count(lock.handed, "handover"),
                count(lock.releases, "release"),
                time(handing_ns / lock.releases.max(1)),
                percent(handing_ns as f64 / lock.contended_ns.max(1) as f64),
                time(lock.contended_ns),
            ),
            format!(
                "From the release until the next owner ran: {}, in futex with the lock held: {} (sampled).",
                time(lock.on_the_way(scene.timelines)),
                time(lock.in_call(FUTEX)),
            ),
        ],
        cost_ns: lock.waiting_ns,
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene
            .longest_of(&charge, |_| format!("waits for {name}, which passes from sleeper to sleeper")),
        advice: match scene.lock(lock.lock).and_then(|lock| known_advice(scene, lock)) {
            Some(known) => vec![known],
            None => advice(),
        },
    };
    Some(Charged { finding, charge })
}
