//! # pool-starved: all workers of a pool wait for something slow, and nobody takes the next piece of work
//!
//! ## What it sees
//! Pools: threads of one process that wait for work at the same place. And the time in which every one of them is
//! blocked on something else than work (the disk, the network, a child, a sleep), with work left to do.
//!
//! ## Why it hurts
//! A pool as wide as the machine is right for work that computes. If a piece of work waits, its worker is lost to
//! the pool meanwhile; when all of them wait, the program stands still, however much work is queued.
//!
//! ## How it decides
//! There is work left if the workers hardly ever wait for some. It adds up the time in which all workers of a pool
//! are blocked, none of them for work. The upper end of the gain is all of that: more workers would have gone on.
//! The lower end is 0: the disk or the peer may be what is slow.
//!
//! ## What to do
//! Give work that waits a pool of its own, wider than the machine; use asynchronous I/O; do not wait for one
//! piece of work inside another on the same pool.
//!
//! ## Blind spots
//! A pool that never had a moment without work shows no common place, and is not known to be one. Workers that
//! wait for a lock are lock-contention's.
//!
//! ## References
//! Goetz et al.: Java Concurrency in Practice, 8.1 and 8.2 (2006).

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ObjectKind, ProcessId, ThreadId, Timestamp, WaitId, WaitReason};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "pool-starved",
    summary: "All workers of a pool wait for something slow while work is left",
};

/// Workers that wait for work for more of their time than this have none left.
const IDLE_MAX: f64 = 0.1;

/// Fewer workers are no pool.
const WORKERS_MIN: usize = 2;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let mut found: Vec<Charged> = pools(scene).iter().filter_map(|workers| finding(scene, workers)).collect();
    found.sort_by(|a, b| b.finding.gain.high.total_cmp(&a.finding.gain.high));
    found.truncate(1);
    Ok(found)
}

/// What a worker is blocked on, if it is in the middle of its work.
fn is_slow(scene: &Scene, slice: &Slice) -> bool {
    use Class::{ChildWait, FaultWait, IoWait, KernelWait, NetWait, PipeWait, Sleep};
    let slow = [ChildWait, FaultWait, IoWait, KernelWait, NetWait, PipeWait, Sleep];
    scene.class(slice).is_some_and(|class| slow.contains(&class))
}

/// Several workers may wait for work there: each of them is told by the place.
fn is_shared(kind: ObjectKind) -> bool {
    use ObjectKind::{Epoll, EventFd, Futex};
    matches!(kind, Epoll | EventFd | Futex)
}

/// Threads that wait for work at one place and seldom find none, each set once.
fn pools(scene: &Scene) -> BTreeSet<Vec<ThreadId>> {
    let trace = scene.trace;
    let mut places: BTreeMap<(ProcessId, u64), BTreeMap<ThreadId, u64>> = BTreeMap::new();
    for id in trace.target_threads() {
        let mut by_wait: BTreeMap<WaitId, u64> = BTreeMap::new();
        for slice in trace.slices.of(id).filter(|slice| slice.state == ThreadState::Blocked) {
            if is_shared(trace.wait(slice.wait).object_kind) && scene.class(&slice) == Some(Class::WorkWait) {
                *by_wait.entry(slice.wait).or_default() += slice.duration().0;
            }
        }
        for (wait, ns) in by_wait {
            let wait = trace.wait(wait);
            let place = places.entry((wait.process, wait.object)).or_default();
            *place.entry(id).or_default() += ns;
        }
    }
    places.retain(|(_, object), _| *object != 0);
    let busy = |(id, idle_ns): &(&ThreadId, &u64)| {
        let life = trace.threads[id.index()].end.since(trace.threads[id.index()].start).0;
        **idle_ns as f64 <= IDLE_MAX * life as f64
    };
    // One that is idle could take the work: then the pool is not starved.
    let pool = |threads: BTreeMap<ThreadId, u64>| {
        threads.iter().all(|one| busy(&one)).then(|| threads.into_keys().collect())
    };
    places
        .into_values()
        .filter_map(pool)
        .filter(|workers: &Vec<ThreadId>| workers.len() >= WORKERS_MIN)
        .collect()
}

/// When all workers were blocked in the middle of their work: how long in all, and the longest stretch.
fn all_blocked(scene: &Scene, workers: &[ThreadId]) -> (u64, Duration) {
    let mut changes: Vec<(Timestamp, bool)> = Vec::new();
    for slice in workers.iter().flat_map(|id| scene.trace.slices.of(*id)) {
        if slice.state == ThreadState::Blocked && slice.end > slice.start && is_slow(scene, &slice) {
            changes.extend([(slice.start, true), (slice.end, false)]);
        }
    }
    // Ends before beginnings of the same moment.
    changes.sort_unstable();
    let (mut blocked, mut since, mut total, mut longest) = (0, Timestamp(0), 0, Duration(0));
    for (at, begins) in changes {
        if blocked == workers.len() && !begins {
            total += at.since(since).0;
            longest = longest.max(at.since(since));
        }
        if begins {
            blocked += 1
        } else {
            blocked -= 1
        }
        since = at;
    }
    (total, longest)
}

fn finding(scene: &Scene, workers: &[ThreadId]) -> Option<Charged> {
    let (total, longest) = all_blocked(scene, workers);
    let high = scene.of_wall(total as f64).clamp(0.0, 1.0);
    if high < GAIN_MIN {
        return None;
    }
    let works = |id: ThreadId| workers.contains(&id);
    let charge = Charge::of(scene.trace, |slice| works(slice.thread) && is_slow(scene, slice));
    let mut kinds: BTreeMap<WaitReason, u64> = BTreeMap::new();
    for slice in charge.slices(scene.trace) {
        *kinds.entry(scene.trace.wait(slice.wait).reason).or_default() += slice.duration().0;
    }
    let (kind, kind_ns) = kinds.into_iter().max_by_key(|(kind, ns)| (*ns, std::cmp::Reverse(*kind)))?;
    let first = &scene.trace.threads[workers[0].index()];
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{} such as {} ({})", count(workers.len() as u64, "worker"), first.name, first.tid),
        summary: vec![format!(
            "For {} ({} of the run, {} at a time at most) all of them were blocked in the middle of their work: {} on {}.",
            time(total),
            percent(high),
            time(longest.0),
            percent(kind_ns as f64 / charge.ns().max(1) as f64),
            kind.name(),
        )],
        cost_ns: charge.ns(),
        gain: Gain { low: 0.0, high },
        confidence: scene.confidence(Confidence::Medium),
        evidence: scene.longest_of(&charge, |slice| {
            format!("a worker waits ({})", scene.trace.wait(slice.wait).reason.name())
        }),
        advice: vec![
            "Give work that waits a pool of its own with more threads, or use asynchronous I/O".into(),
        ],
    };
    Some(Charged { finding, charge })
}
