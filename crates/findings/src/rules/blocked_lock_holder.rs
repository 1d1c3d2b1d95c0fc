//! # blocked-lock-holder: a thread sleeps, or waits for I/O, while it holds a contended lock
//!
//! ## Symptoms
//! For each contended lock, when its holder was itself blocked on another object: a timer, the disk, a
//! socket, a pipe, a child, a condition. It also sees how long other threads waited during that time.
//!
//! ## Why it hurts
//! A lock should be held only for the short time of an update. A holder that does disk I/O or sleeps makes
//! all waiters wait for the device or the clock. More CPUs or threads do not change that.
//!
//! ## How it decides
//! The holder of a lock at any time follows from the lock's releases. The rule adds up the time in which the
//! holder was blocked while other threads waited for the lock. It adds the holder's kernel time in the calls
//! that block it (sampled). A write to a fast disk takes the CPU as long as the disk. The upper bound of the
//! gain is that time, as far as waiters could have used idle CPUs. The lower bound is the saving of the
//! active thread that waited least. If the holder waits for another lock, that lock is the cause
//! (lock-contention).
//!
//! ## What to do
//! Do the I/O, the sleep or the call before the lock is taken or after it is released: copy under the lock,
//! write outside it. If order matters, hand the work to one thread through a queue.
//!
//! ## Blind spots
//! The holder is the thread that released the lock to the next waiter. So a lock that was never released to a
//! waiter has no holder. Locks that are held across I/O by design (one connection, one file) are reported
//! too. The gain then needs a second connection, and no other lock.
//!
//! ## References
//! Tallent, Mellor-Crummey, Porterfield: Analyzing lock contention in multithreaded applications (PPoPP
//! 2010).

mod peers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::lock_contention::known_advice;
use crate::charge::Charge;
use crate::derive::holders::HoldKind;
use crate::derive::lock_holding::{self, Holding, LockHolding};
use crate::derive::replay::{Change, Facts};
use crate::derive::syscall_names::FUTEX;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::up_to_own_bound;
use crate::removal::{Removal, within};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    explains: &[
        // Waiters wait because the holder sleeps, or waits for a disk or a peer.
        Explains::whole(&super::lock_contention::INFO),
        Explains::whole(&super::lock_convoy::INFO),
        Explains::shared(&super::oversleep::INFO),
        Explains::shared(&super::poll_loop::INFO),
        Explains::shared(&super::blocking_io::INFO),
        Explains::shared(&super::sync_per_item::INFO),
        Explains::shared(&super::subprocess_per_item::INFO),
        // Starting children is what takes the time, not that they come one after the other.
        Explains::shared(&super::child_wait::INFO),
        // A client that sends one request at a time waits for a timer of the server. If the client holds a lock
        // or a pool item during the request, then that is the cause.
        Explains::shared(&super::one_at_a_time::INFO),
    ],
    ..Info::new("blocked-lock-holder", "A thread sleeps or waits for I/O while it holds a contended lock")
};

/// Maximum number of locks that are named. More would hide the first one.
const LOCKS_MAX: usize = 3;

/// A wait is charged if the holder was blocked for at least this share of it.
const WAIT_SHARE_MIN: f64 = 0.5;

fn blocked(holding: Holding) -> bool {
    matches!(holding, Holding::Waits(kind) if !matches!(kind, HoldKind::Unknown | HoldKind::Stopped | HoldKind::Lock))
}

pub(super) struct BlockedLockHolder;

impl Rule for BlockedLockHolder {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let worth = |lock: &&LockHolding| scene.of_wall(lock.wall_while(blocked) as f64) >= GAIN_MIN;
        let locks = scene.derived.lock_holding.iter().filter(worth);
        let mut found: Vec<Charged> = locks.filter_map(|lock| finding(scene, lock)).collect();
        found.sort_by_key(|charged| Reverse(charged.finding.cost_ns));
        found.truncate(LOCKS_MAX);
        Ok(found)
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| without_waits(cause.facts(), cause.charge))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        if peers::slept(cause.trace(), cause.charge) {
            return up_to_own_bound(cause, forecast);
        }
        forecast
    }
}

/// Waits for locks whose holders waited: the holders wait all the same, without the lock.
fn without_waits(facts: Facts, charge: &Charge) -> Removal {
    let waits = within(facts.trace, charge, |_, slice| facts.locks.of_slice(slice).is_some());
    Removal::exact(vec![Change::WithoutSlices(waits)])
}

/// Kinds of the holders' waits, by the wait time of other threads (ns), the greatest first.
fn kinds(lock: &LockHolding) -> Vec<(HoldKind, u64)> {
    let mut sums: BTreeMap<HoldKind, u64> = BTreeMap::new();
    for one in &lock.stretches {
        if let (Holding::Waits(kind), true) = (one.holding, blocked(one.holding)) {
            *sums.entry(kind).or_default() += one.waiting_ns;
        }
    }
    let mut ranked: Vec<(HoldKind, u64)> = sums.into_iter().collect();
    ranked.sort_by_key(|(kind, ns)| (Reverse(*ns), *kind));
    ranked
}

/// The activity of a thread in a wait of that kind.
fn activity(kind: HoldKind) -> &'static str {
    match kind {
        HoldKind::Sleep => "slept",
        HoldKind::Disk => "waited for the disk",
        HoldKind::Socket | HoldKind::Poll => "waited for a peer",
        HoldKind::PipeFull | HoldKind::PipeEmpty => "waited for a pipe",
        HoldKind::Child => "waited for a child process",
        HoldKind::Fault => "waited for a page",
        HoldKind::Work | HoldKind::Join | HoldKind::Barrier => "waited for another thread",
        _ => "was blocked",
    }
}

/// Kernel time of holders in the calls that also block them, while other threads waited (ns, sampled).
fn in_calls_ns(scene: &Scene, lock: &LockHolding) -> u64 {
    let trace = scene.trace;
    let blocked = lock.stretches.iter().filter(|one| blocked(one.holding));
    let rows =
        blocked.filter_map(|one| trace.slices.covering(one.holder, one.from).map(|row| (one.holder, row)));
    let calls: BTreeSet<i32> =
        rows.map(|(holder, row)| trace.wait(trace.slices.at(holder, row).wait).syscall).collect();
    let sum: u64 = calls.into_iter().filter(|call| *call != FUTEX).map(|call| lock.in_call(call)).sum();
    sum.min(lock.contended_ns.saturating_sub(lock.wall_while(self::blocked)))
}

/// Where holders were blocked, and where the others waited.
fn places(scene: &Scene, lock: &LockHolding, held: &Charge) -> impl Iterator<Item = String> {
    let waited = scene.lock(lock.lock).and_then(|used| used.waiting_at.first());
    let waited = waited.map(|(place, _)| format!("Most waiting for the lock is in {place}."));
    scene.charged_come_from(held).into_iter().chain(waited)
}

fn finding(scene: &Scene, lock: &LockHolding) -> Option<Charged> {
    let trace = scene.trace;
    let (kind, kind_ns) = kinds(lock).first().copied()?;
    let (holder, _) = lock.holders_while(blocked).first().copied()?;
    let name = scene.lock_name(lock.lock);
    let (blocked_ns, calls_ns) = (lock.wall_while(blocked), in_calls_ns(scene, lock));
    // The minimum share of a wait that is the holder's blocking. It is lowered by the share of the calls'
    // running time.
    let share_min = WAIT_SHARE_MIN * blocked_ns as f64 / (blocked_ns + calls_ns).max(1) as f64;
    let charged = lock_holding::charge(
        (trace, &scene.derived.roles),
        (&scene.derived.occupancy.locks, lock),
        share_min,
        blocked,
    );
    let (wall_ns, cost_ns) = (blocked_ns + calls_ns, lock.waiting_while(blocked));
    let times = lock.stretches.iter().filter(|one| blocked(one.holding)).count() as u64;
    // The holder needs no CPU while it is blocked: that others used these is no reason.
    let gain = scene.gain_whoever_ran(&scene.stall(&charged.waits), |_, waited| waited);
    let most = scene.of_wall(wall_ns as f64);
    if gain.high.min(most) < GAIN_MIN {
        return None;
    }
    let mut summary = vec![
        format!(
            "{}, its holder was blocked while threads waited for the lock: {} of wall time, {} of thread time.",
            count(times, "time"),
            time(blocked_ns),
            time(cost_ns),
        ),
        format!(
            "The most frequent holder was {}. It {} for {} of that time.",
            thread(trace, holder),
            activity(kind),
            percent(kind_ns as f64 / cost_ns.max(1) as f64),
        ),
    ];
    summary.extend(places(scene, lock, &charged.held));
    let finding = Finding {
        rule: INFO.name,
        about: About::Lock(lock.lock),
        subject: format!("{name}, held by {}", thread(trace, holder)),
        summary,
        cost_ns,
        gain: Gain { low: gain.low.min(most), high: gain.high.min(most) },
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of_both(
            (&charged.held, &|slice| {
                format!("holds {name} and is blocked ({})", trace.wait(slice.wait).reason.name())
            }),
            (&charged.waits, &|_| format!("waits for {name}, whose holder is blocked")),
        ),
        advice: advice(scene, lock),
    };
    Some(Charged { finding, charge: charged.both(trace) })
}

/// Users cannot change the work under a library's lock. The descriptor has other advice for them.
fn advice(scene: &Scene, lock: &LockHolding) -> Vec<String> {
    if let Some(known) = scene.lock(lock.lock).and_then(|used| known_advice(scene, used)) {
        return vec![known];
    }
    vec![
        "Release the lock before sleeping, I/O or any other wait, and take it again afterwards".into(),
        "Copy the data under the lock, and do the slow part outside it".into(),
    ]
}
