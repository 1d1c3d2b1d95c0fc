//! # lock-contention: threads wait for a lock while CPUs are idle
//!
//! ## Symptoms
//! Threads blocked in the kernel on one lock. It is a futex word with the value "locked, with waiters", a
//! file's lock, or the address space's own lock. It reports the wait time of each thread, the holder, and the
//! holder's state. The holder is running (and where), runnable (and the occupant of its CPU), or waiting (and
//! the awaited object).
//!
//! ## Why it hurts
//! A lock serializes threads. While threads queue for it, CPUs that they could use are idle. More threads
//! make the queue longer, not the program faster.
//!
//! ## How it decides
//! At each moment it counts the threads that wait for the lock and the CPUs that do nothing for the program.
//! An idle CPU counts fully. A CPU used by another program counts half, because a thread that needs it gets
//! half of it. Suppose that `m` of the waiters could have run in addition to the `r` running threads. The
//! work of that moment would have taken `r / (r + m)` of its time. The sum is the upper bound of the gain.
//! The lower bound is the wait of the active thread that waited least: every thread's course would be shorter
//! by at least that. It is 0 if an active thread never waits for the lock, because the run's length may
//! depend on that thread. It counts idle CPUs only.
//!
//! Waits while the program uses all CPUs gain nothing and count as 0. The exception is a thread that uses
//! little CPU. Its other waits (responses, a timer) could overlap with the other threads' work, and the run
//! could be shorter by at most its waits. Both bounds assume that the code under the lock can run in parallel
//! once the lock is split or removed. A forecast leaves each thread its recorded work. If the waiters share
//! one job in pieces, the forecast's upper bound is at least this one.
//!
//! A contended lock also costs CPU time: sleeping and waking use futex(2), which an uncontended lock never
//! calls. The sampled CPU time in futex(2) is divided among the futexes by their waits. A lock's part is
//! added to its cost and to the upper bound of its gain.
//!
//! A thread that releases a lock to a waiter is its holder from the previous release until then. The state of
//! holders during that time is followed to its end. A holder that waits for another lock is charged to that
//! lock's holder, and so on.
//!
//! ## What to do
//! If holders run: hold the lock for less time (move work, I/O and allocation out of it). Or split it (one
//! per shard, per bucket, per thread). Or remove it (per-thread sums merged at the end, atomic operations,
//! read-copy-update). If holders wait for a disk, a timer or another lock: do not wait while holding it. If
//! holders are runnable: the cause is too few CPUs, not the lock.
//!
//! ## Blind spots
//! Locks that spin and never block are not seen. Neither is a lock that blocks without a futex's "locked"
//! value (it shows as work-wait). Many locks that each cost little are judged individually. The holder
//! between two releases to waiters is inferred. A thread that took and released the lock in between without
//! waking another thread is not seen. For a reader-writer lock only the last thread to release it is known.
//!
//! ## References
//! Tallent, Mellor-Crummey, Porterfield: Analyzing lock contention in multithreaded applications (PPoPP
//! 2010). Drepper: Futexes are tricky (2011).

pub(super) mod division;

use holdup_events::{ThreadId, WaitReason};

use crate::charge::Charge;
use crate::derive::blame::EndClass;
use crate::derive::lines::{LINE_BYTES, SharedData};
use crate::derive::lock_holding::{self, Holding};
use crate::derive::locks::LockUse;
use crate::derive::occupancy::Stall;
use crate::derive::syscall_names::FUTEX;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::{COSTS_LITTLE, widened};
use crate::removal::{Removal, locks};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, ends, percent, thread, time};
use crate::{known_waits, low_cpu_waiters};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // A lock whose holder waits for another lock: the last of the chain is the cause.
        Explains::shared(&INFO),
    ],
    remedies: &[Remedy {
        is_for_allocators: true,
        ..Remedy::new(&[], "MALLOC_ARENA_MAX", &["32"], "an allocator arena for each thread")
    }],
    ..Info::new("lock-contention", "Threads wait for a lock while CPUs are idle")
};

/// Sentence for a thread that uses little CPU and waited while the CPUs were busy.
const BESIDE: &str = "The thread that waits longest uses little CPU. Without this lock its other waits could overlap with the other threads' work.";

/// Maximum number of locks that are named. More would hide the first one.
const LOCKS_MAX: usize = 5;

/// A wait for another lock is this one's too if that lock's holder waited here for at least this share of it.
const BEHIND_SHARE_MIN: f64 = 0.5;

/// Minimum share of the waiting in a cycle of threads that wait for each other. Less may be chance.
const CIRCLE_MIN: f64 = 0.2;

/// Maximum share of the waiting for a thread that hardly waits for the lock.
const HARDLY: f64 = 0.1;
/// Minimum share of the waiting for a thread that holds the lock mostly.
const MOSTLY: f64 = 0.5;

/// A share of the waiting that is worth an advice of its own.
const MANY: f64 = 0.25;

/// Minimum number of waits for a sure finding. Fewer may be chance.
const WAITS_SURE: u64 = 10;

/// Minimum share of the wall time for waits for a lock and the kernel's work for them. Above it, the lock
/// serializes accesses to its memory. Most such threads spin for a while before they sleep.
const ORDERS_MIN: f64 = 0.01;

pub(super) struct LockContention;

impl Rule for LockContention {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let occupancy = &scene.derived.occupancy;
        let mut findings = Vec::new();
        for (number, (stall, lock)) in occupancy.locks_stall.iter().zip(scene.locks()).enumerate() {
            let Some(lock) = lock else { continue };
            let running = Running { calls_ns: futex_cpu_ns(scene, lock), line_ns: line_ns(scene, lock) };
            let on_idle_cpus = scene.of_wall(stall.saved_ns) + share_of_running(scene, running.ns());
            let may_be_beside = scene.of_wall(lock.wait_ns as f64) >= low_cpu_waiters::WAITS_MIN;
            if on_idle_cpus < GAIN_MIN && !may_be_beside {
                continue;
            }
            let charge = charge(scene, number as u32);
            let beside = if may_be_beside {
                scene.of_wall(low_cpu_waiters::saved_ns(scene.trace, scene.derived, &charge))
            } else {
                0.0
            };
            if on_idle_cpus.max(beside) >= GAIN_MIN {
                let mut finding = finding(scene, lock, (number as u32, running), stall);
                if beside > finding.gain.high {
                    finding.gain.high = beside;
                    // There is no evidence that the other threads would not become slower.
                    finding.confidence = finding.confidence.min(Confidence::Medium);
                    finding.summary.push(BESIDE.to_owned());
                }
                add_writers_kept_out(scene, lock, &charge, &mut finding);
                findings.push(Charged { finding, charge });
            }
        }
        findings.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
        findings.truncate(LOCKS_MAX);
        Ok(findings)
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        let number = locks::lock_of(cause.finding)?;
        Some(locks::without(cause.known.lock_calls(), cause.facts(), &cause.derived().lines, number))
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        let own = cause.finding.gain;
        // A replay gives a thread no CPU before the running threads are done. The kernel's scheduler prefers
        // threads that slept. Threads that wait in turn for pieces of one job would share the job evenly.
        let may_gain_more = own.high > forecast.high
            && (is_low_cpu_waiter(cause) || division::is_one_job(cause.trace(), cause.charge));
        if may_gain_more { Gain { low: forecast.low, high: widened(own).high } } else { forecast }
    }

    fn confidence_max(&self, cause: &Cause) -> Confidence {
        let finding = cause.finding;
        let is_only_taken = is_only_taken(finding.gain, finding.confidence, cause.cost_share());
        if is_only_taken && !is_low_cpu_waiter(cause) { Confidence::Low } else { Confidence::High }
    }
}

/// Share of the upper bound that must come from a thread with little CPU time. Below it, the bound has other
/// reasons.
const BESIDE_MIN: f64 = 0.75;

/// Whether the rule's upper bound comes from a thread that needs little CPU and could overlap with the
/// threads on the CPUs.
fn is_low_cpu_waiter(cause: &Cause) -> bool {
    let saved_ns = low_cpu_waiters::saved_ns(cause.trace(), cause.derived(), cause.charge);
    let saved = saved_ns / cause.trace().wall().0.max(1) as f64;
    saved > 0.0 && saved >= BESIDE_MIN * cause.finding.gain.high
}

/// Whether the lower bound of a lock's gain is 0. Its upper bound assumes that the lock is not taken at all,
/// which is not contention. `cost` is its share of all thread time. With few waits, the cost may be chance.
fn is_only_taken(gain: Gain, confidence: Confidence, cost: f64) -> bool {
    gain.low <= 0.0 && (cost < COSTS_LITTLE || confidence < Confidence::High)
}

/// Adds a sentence if writers wait for readers, of which there is always at least one.
fn add_writers_kept_out(scene: &Scene, lock: &LockUse, charge: &Charge, finding: &mut Finding) {
    let waited =
        |id: ThreadId| charge.slices_of(scene.trace, id).map(|slice| slice.duration().0).sum::<u64>();
    // Writers that held the lock would also have waited for each other.
    let by_others: u64 = lock
        .held_by
        .iter()
        .filter(|(id, _)| id.is_some_and(|id| waited(id) as f64 <= HARDLY * lock.wait_ns as f64))
        .map(|(_, ns)| ns)
        .sum();
    let kept_out = known_waits::find(scene, charge, |runtime| &runtime.writing);
    if let Some(known) = kept_out.filter(|_| by_others as f64 >= MOSTLY * lock.wait_ns as f64) {
        finding.summary.push(known.sentence);
        finding.advice.insert(0, known.advice);
    }
}

/// The waits for a lock, and for other locks while their holders waited for this one.
fn charge(scene: &Scene, number: u32) -> Charge {
    let locks = &scene.derived.occupancy.locks;
    let told = (scene.trace, &scene.derived.roles);
    let own = Charge::matching(scene.trace, |slice| locks.waited(told, slice) == Some(number));
    let behind = |holding| holding == Holding::Lock(number);
    let others = scene.derived.lock_holding.iter().filter(|lock| lock.waiting_while(behind) > 0);
    others.fold(own, |sum, lock| {
        let more = lock_holding::charge(told, (locks, lock), BEHIND_SHARE_MIN, behind).waits;
        sum.and(scene.trace, &more)
    })
}

/// The lock's part of the CPU time in futex(2) (ns, sampled), by its share of the waits there.
fn futex_cpu_ns(scene: &Scene, lock: &LockUse) -> f64 {
    let calls = scene.derived.syscalls.iter().find(|call| call.number == FUTEX);
    match (lock.reason, calls) {
        (WaitReason::Lock, Some(calls)) if lock.waits >= WAITS_SURE => {
            calls.cpu_ns as f64 * lock.waits as f64 / calls.blocked.max(lock.waits) as f64
        }
        _ => 0.0,
    }
}

/// The memory with cache-line contention that includes this lock's word. `None` if waits for the lock, and
/// the kernel's work for them, are too short for the lock to serialize accesses there.
pub(super) fn shared_with<'a>(scene: &'a Scene, lock: &LockUse) -> Option<&'a SharedData> {
    let line = lock.object / LINE_BYTES * LINE_BYTES;
    let waiting_ns = lock.wait_ns as f64 + futex_cpu_ns(scene, lock);
    let is_waited_for =
        lock.reason == WaitReason::Lock && lock.waits >= WAITS_SURE && scene.of_wall(waiting_ns) > ORDERS_MIN;
    let lies_there = |data: &&SharedData| data.process == lock.process && data.lines.contains(&line);
    scene.derived.lines.iter().filter(|_| is_waited_for).find(lies_there)
}

/// Running time at it (ns, sampled).
fn line_ns(scene: &Scene, lock: &LockUse) -> f64 {
    shared_with(scene, lock).map_or(0.0, |data| data.ns as f64)
}

/// Running time that a lock costs (ns, sampled).
#[derive(Clone, Copy)]
struct Running {
    /// In the kernel, to sleep and to wake.
    calls_ns: f64,
    /// At the memory that lies with its word.
    line_ns: f64,
}

impl Running {
    fn ns(self) -> f64 {
        self.calls_ns + self.line_ns
    }
}

/// Share of the wall time that running less by `ns` would save at most.
fn share_of_running(scene: &Scene, ns: f64) -> f64 {
    let any_ran: u64 = scene.derived.parallelism.running_ns.iter().skip(1).sum();
    ns / scene.derived.ledger.running_ns().max(1) as f64 * scene.of_wall(any_ran as f64)
}

fn finding(scene: &Scene, lock: &LockUse, (number, running): (u32, Running), stall: &Stall) -> Finding {
    let trace = scene.trace;
    let locks = &scene.derived.occupancy.locks;
    let confidence = if lock.waits >= WAITS_SURE { Confidence::High } else { Confidence::Medium };
    let note = format!("waits for {}", lock.name);
    let mut gain = scene.gain(stall, |_, waited| waited);
    gain.high = (gain.high + share_of_running(scene, running.ns())).min(1.0);
    Finding {
        rule: INFO.name,
        about: About::Lock(number),
        subject: lock.name.clone(),
        summary: summary(scene, lock, running),
        cost_ns: lock.wait_ns + running.ns() as u64,
        gain,
        likely: None,
        confidence: scene.confidence(confidence),
        evidence: scene.longest(
            |slice| locks.waited((trace, &scene.derived.roles), slice) == Some(number),
            |slice| match trace.ended_by(slice) {
                Some(wakeup) => format!("{note}, {} released it", thread(trace, wakeup.waker)),
                None => note.clone(),
            },
        ),
        advice: advice(scene, lock),
    }
}

/// A descriptor's advice on a library's lock.
pub(super) fn known_advice(scene: &Scene, lock: &LockUse) -> Option<String> {
    let (_, rule) = scene.derived.roles.descriptors.rule(lock.rule?)?;
    (!rule.advice.is_empty()).then(|| rule.advice.clone())
}

fn summary(scene: &Scene, lock: &LockUse, running: Running) -> Vec<String> {
    let mut lines = vec![format!(
        "{} waited {} for it, {} in total ({} of all thread time; median {}, maximum {}).",
        count(u64::from(lock.waiters), "thread"),
        count(lock.waits, "time"),
        time(lock.wait_ns),
        percent(scene.of_thread_time(lock.wait_ns)),
        time(lock.p50_ns),
        time(lock.max_ns),
    )];
    if running.calls_ns as u64 > lock.wait_ns / 10 {
        lines.push(format!(
            "Sleeping and waking for it cost {} of CPU time in futex (sampled).",
            time(running.calls_ns as u64)
        ));
    }
    if running.line_ns as u64 > lock.wait_ns / 10 {
        lines.push(format!(
            "Contention for the lock's cache line cost {} of CPU time (sampled).",
            time(running.line_ns as u64)
        ));
    }
    let held = lock.held_by.iter().filter_map(|(id, ns)| {
        let share = percent(*ns as f64 / lock.wait_ns.max(1) as f64);
        Some(format!("{} {share}", thread(scene.trace, (*id)?)))
    });
    let held: Vec<String> = held.take(3).collect();
    if !held.is_empty() {
        let meanwhile = ends(scene.trace, &lock.ends, lock.wait_ns);
        lines.push(format!("Held by: {}. While others waited, the holder was {meanwhile}.", held.join(", ")));
    }
    let circle = lock.share_of(EndClass::Cycle);
    if circle >= CIRCLE_MIN {
        lines.push(format!(
            "For {} of the waiting, threads waited for each other in a cycle (a deadlock), until a timeout or a deadlock detector ended it.",
            percent(circle)
        ));
    }
    if let Some((place, ns)) = lock.held_in.first() {
        let share = percent(*ns as f64 / lock.wait_ns.max(1) as f64);
        lines.push(format!("For {share} of the waiting, a holder ran in {place} (sampled)."));
    }
    if let Some((place, _)) = lock.waiting_at.first() {
        lines.push(format!("Most waiting is in {place}."));
    }
    lines
}

fn advice(scene: &Scene, lock: &LockUse) -> Vec<String> {
    if lock.share_of(EndClass::Cycle) >= CIRCLE_MIN {
        return vec![
            "Take such locks in the same order everywhere (rows: ORDER BY their key before FOR UPDATE or UPDATE), or take all of them at once"
                .into(),
            "Hold fewer of them at a time: shorter transactions and sections".into(),
        ];
    }
    // Users cannot change the work under a library's lock. The descriptor has other advice for them.
    if let Some(known) = known_advice(scene, lock) {
        return vec![known];
    }
    if lock.reason == WaitReason::MmapLock {
        return vec![
            "Map, unmap and protect memory less often: keep freed memory (M_TRIM_THRESHOLD_, M_MMAP_THRESHOLD_ of malloc)".into(),
            "Touch memory once before the threads start, so that they do not fault in parallel".into(),
        ];
    }
    let waiting = [EndClass::Disk, EndClass::Timer, EndClass::Outside].map(|class| lock.share_of(class));
    let mut advice = Vec::new();
    if waiting.iter().sum::<f64>() >= MANY {
        advice.push("Do not wait for the disk, a timer or the network while holding it".into());
    }
    advice.extend([
        "Hold it for less time: move work, I/O and allocation out of the locked section".into(),
        "Split it: one lock per shard, bucket or thread".into(),
        "Collect per thread and merge once, instead of a shared update for each item".into(),
    ]);
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_taken_often_and_waited_for_seldom_is_a_hint() {
        let gain = |low| Gain { low, high: 0.2 };
        assert!(is_only_taken(gain(0.0), Confidence::High, 0.02));
        assert!(is_only_taken(gain(0.0), Confidence::Medium, 0.2), "waited for once");
        assert!(!is_only_taken(gain(0.0), Confidence::High, 0.2), "much is waited");
        assert!(!is_only_taken(gain(0.01), Confidence::High, 0.02), "some of it surely goes");
    }
}
