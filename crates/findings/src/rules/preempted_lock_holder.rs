//! # preempted-lock-holder: a thread loses its CPU while it holds a contended lock
//!
//! ## Symptoms
//! For each contended lock, when the holder was runnable, and the occupant of its CPU: another program, or a
//! thread of the same program.
//!
//! ## Why it hurts
//! The holder waits for a CPU for milliseconds instead of holding the lock for microseconds. All threads that
//! need the lock wait with it, even if CPUs are idle. With real-time priorities this is priority inversion:
//! an important thread waits for an unimportant one, which a thread of medium priority keeps off the CPU.
//!
//! ## How it decides
//! The holder of a lock at any time follows from the lock's releases. The rule adds up the time in which the
//! holder queued for a CPU while other threads waited for the lock. Time from a wakeup to the first run is
//! not counted (lock-convoy judges that). Neither is time in which the group's quota was used up
//! (cpu-throttled). The upper bound of the gain is that time, as far as waiters could have used idle CPUs.
//! The lower bound is the saving of the active thread that waited least. If that is less than half of the
//! gain without the lock, or of its wait time, it is reported as a part of lock-contention.
//!
//! If holders and waiters together run at most a tenth of the program's running time, busy CPUs are no
//! obstacle. The holder's little work could run first. Then the upper bound is all that time. The finding is
//! likely and not sure, because it is not known whether the run's end depends on the waiters. A holder may
//! get less than a third of the CPU time of its CPU's occupant while both are runnable. Then the holder has a
//! lower weight, and the finding states that.
//!
//! ## What to do
//! Keep the other program off these CPUs. Start at most as many busy threads as there are CPUs. Hold the lock
//! for less time. Give the holder at least the priority of the threads that need the lock. With real-time
//! priorities use a mutex with priority inheritance (`PTHREAD_PRIO_INHERIT`).
//!
//! ## Blind spots
//! The holder is the thread that released the lock to the next waiter. So a lock that was never released to a
//! waiter has no holder. A holder that spins for another lock looks like a working thread.
//!
//! ## References
//! Sha, Rajkumar, Lehoczky: Priority inheritance protocols (IEEE Trans. Computers 1990). Ousterhout:
//! Scheduling techniques for concurrent systems (1982). Linux `pthread_mutexattr_setprotocol(3)`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::{ThreadId, Trace};

use crate::charge::Charge;
use crate::derive::inverted::{self, Inverted};
use crate::derive::lock_holding::{self, Holding, LockHolding};
use crate::derive::replay::Change;
use crate::derive::timelines::Timelines;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::up_to_own_bound;
use crate::removal::{Removal, within};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // Waiters wait because the holder waits for a CPU. The thread that preempted the holder, and the CPU's
        // queue, are part of the same finding.
        Explains::whole(&super::lock_contention::INFO),
        Explains::whole(&super::lock_convoy::INFO),
        Explains::shared(&super::noisy_neighbour::INFO),
        Explains::shared(&super::oversubscription::INFO),
        Explains::shared(&super::serial_section::INFO),
    ],
    remedies: &[Remedy::new(&[], "policy", &["batch"], "holders that are not preempted")],
    ..Info::new("preempted-lock-holder", "A thread is preempted while it holds a contended lock")
};

/// Maximum number of locks that are named. More would hide the first one.
const LOCKS_MAX: usize = 3;

/// Minimum share of the run for waiters to be reported while the CPUs run other work of the program.
const INVERTED_MIN: f64 = 0.1;

/// A wait is charged if the holder was off its CPU for at least this share of it.
const WAIT_SHARE_MIN: f64 = 0.5;

fn queues(holding: Holding) -> bool {
    holding == Holding::Queues
}

pub(super) struct PreemptedLockHolder;

impl Rule for PreemptedLockHolder {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
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

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| with_kept_cpus(cause.trace(), cause.charge))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // A replay keeps all work, and the end of the last work. It also keeps work that only runs until the
        // waiters are done.
        if inverted::derive(cause.trace(), &cause.derived().ledger, cause.charge).is_some() {
            return up_to_own_bound(cause, forecast);
        }
        forecast
    }
}

/// Holders that have no CPU: they keep theirs until they let the lock go.
fn with_kept_cpus(trace: &Trace, charge: &Charge) -> Removal {
    Removal::exact(vec![Change::KeptCpus(within(trace, charge, |_, slice| slice.state.waits_for_cpu()))])
}

/// Occupants of the CPUs for which holders queued (ns), the longest first.
fn occupants(lock: &LockHolding, timelines: &Timelines) -> Vec<(ThreadId, u64)> {
    let mut sums: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for one in lock.stretches.iter().filter(|one| queues(one.holding)) {
        let Some(timeline) = timelines.of_cpu(one.cpu) else { continue };
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
    let inverted = inverted::derive(trace, &scene.derived.ledger, &charge).filter(|_| most >= INVERTED_MIN);
    let gain = if inverted.is_some() { Gain { high: most, ..gain } } else { gain };
    if gain.high < GAIN_MIN {
        return None;
    }
    let by_whom = match occupants.first() {
        Some((who, ns)) => {
            let all: u64 = occupants.iter().map(|(_, ns)| ns).sum();
            format!(
                "{} used its CPU for {} of that time",
                thread(trace, *who),
                percent(*ns as f64 / all.max(1) as f64)
            )
        }
        None => "it is not known which thread used its CPU".to_owned(),
    };
    let mut summary = vec![
        format!(
            "{}, its holder waited for a CPU while threads waited for the lock: {} of wall time, {} of thread time.",
            count(times, "time"),
            time(wall_ns),
            time(cost_ns),
        ),
        format!("The most frequent holder was {}: {by_whom}.", thread(trace, holder)),
    ];
    let occupant = occupants.first().map(|(who, _)| *who);
    summary.extend(inverted.as_ref().map(in_the_way));
    summary.extend(occupant.and_then(|other| weighs_less(scene, (holder, other))));
    // It is not known whether the run's end depends on the waiters, or on the threads on the CPUs.
    let sure = if inverted.is_some() { Confidence::Medium } else { Confidence::High };
    let finding = Finding {
        rule: INFO.name,
        about: About::Lock(lock.lock),
        subject: format!("{name}, held by {}", thread(trace, holder)),
        summary,
        cost_ns,
        gain,
        likely: None,
        confidence: scene.confidence(sure),
        evidence: scene.longest_of_both(
            (&held, &|slice| format!("holds {name} and waits for CPU {}", slice.cpu.0)),
            (&waits, &|_| format!("waits for {name}, whose holder is preempted")),
        ),
        advice: advice(),
    };
    Some(Charged { finding, charge })
}

fn advice() -> Vec<String> {
    vec![
        "Move the threads that preempt the holder (other CPUs, lower priority), or use fewer busy threads"
            .into(),
        "Give the holder at least the priority of the waiting threads (nice value, cgroup's cpu.weight)"
            .into(),
        "With real-time priorities: a mutex with priority inheritance (PTHREAD_PRIO_INHERIT)".into(),
        "Hold the lock for less time".into(),
    ]
}

/// A sentence on the CPU time that the holder would need from the other threads.
fn in_the_way(inverted: &Inverted) -> String {
    format!(
        "Holders and waiters of the lock ran {} of the {} that the program ran: running the holder first takes little from the rest.",
        time(inverted.ran_ns),
        time(inverted.all_ns),
    )
}

/// A sentence if the holder got a smaller share of the CPUs than their occupants, beyond chance.
fn weighs_less(scene: &Scene, (holder, other): (ThreadId, ThreadId)) -> Option<String> {
    let (mine, theirs) = inverted::unfair(&scene.derived.ledger, (holder, other))?;
    Some(format!(
        "While it was runnable, {} got {} of the time, {} {}: its weight is lower (nice value, or its cgroup's cpu.weight).",
        thread(scene.trace, holder),
        percent(mine),
        thread(scene.trace, other),
        percent(theirs),
    ))
}
