//! # fork-pause: threads stand still while one of them forks
//!
//! ## What it sees
//! Threads that wait for the lock of their process's address space, and are released by the thread that has just forked
//! the process: how often, how long, and which one forks.
//!
//! ## Why it hurts
//! To fork, the kernel copies the page tables of the whole process and holds its `mmap_lock` meanwhile: some
//! milliseconds a gigabyte of small pages. Threads that fault, map or unmap then wait. Behind it, each page that is written
//! must be copied first.
//!
//! ## How it decides
//! A wait for `mmap_lock` counts if the thread that ended it became the parent of a new process between the wait's
//! start and some milliseconds behind its end: the kernel lets go of the lock just before. It fires if idle CPUs could have run the waiters
//! for at least 2 % of the run.
//!
//! ## What to do
//! Start programs by `posix_spawn` or `vfork`, which copy no tables, or from a small helper process forked early. For a
//! snapshot of memory by fork: huge pages make the tables five hundred times smaller; `MADV_DONTFORK` for what the child does not need.
//!
//! ## Blind spots
//! Threads that only compute on memory they have do not wait, and are not seen. The copies of pages behind the fork are
//! page faults (page-fault-storm). Where `contention_begin` is missing (before Linux 5.19) waits for `mmap_lock` are not told apart.
//!
//! ## References
//! Zhao, Gong, Fonseca: On-demand-fork (EuroSys 2021). `posix_spawn(3)`, `madvise(2)`.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ThreadId, Timestamp, Trace, WaitReason};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::finding::{Confidence, Finding};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info =
    Info { name: "fork-pause", summary: "Threads stand still while one of them forks the process" };

/// Between letting go of the lock and the child's birth the kernel copies what is left.
const BIRTH_AFTER_MAX: Duration = Duration(5_000_000);

/// When each thread became the parent of a new process, in order.
fn births(trace: &Trace) -> BTreeMap<ThreadId, BTreeSet<Timestamp>> {
    let mut births: BTreeMap<ThreadId, BTreeSet<Timestamp>> = BTreeMap::new();
    for child in trace.threads.iter().filter(|child| !child.began_before) {
        let Some(parent) = child.parent else { continue };
        if trace.threads.get(parent.index()).is_some_and(|parent| parent.process != child.process) {
            births.entry(parent).or_default().insert(child.start);
        }
    }
    births
}

/// Who forked, and when, if that is what the slice waited for.
fn fork_of(
    trace: &Trace,
    births: &BTreeMap<ThreadId, BTreeSet<Timestamp>>,
    slice: &Slice,
) -> Option<(ThreadId, Timestamp)> {
    let waits = slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason == WaitReason::MmapLock;
    if !waits {
        return None;
    }
    let waker = trace.ended_by(slice).filter(|wakeup| wakeup.context == WakeContext::Thread)?.waker;
    let born = births.get(&waker)?.range(slice.start..=slice.end + BIRTH_AFTER_MAX).next()?;
    Some((waker, *born))
}

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let trace = scene.trace;
    // Waits for an address space are in this class, and no stall saves more than was waited.
    if scene.of_wall(scene.derived.ledger.of(Class::FaultWait) as f64) < GAIN_MIN {
        return Ok(Vec::new());
    }
    let births = births(trace);
    if births.is_empty() {
        return Ok(Vec::new());
    }
    let charge = Charge::of(trace, |slice| fork_of(trace, &births, slice).is_some());
    let stall = scene.stall(&charge);
    if charge.is_empty() || scene.of_wall(stall.saved_ns) < GAIN_MIN {
        return Ok(Vec::new());
    }
    let mut pauses: BTreeMap<(ThreadId, Timestamp), u64> = BTreeMap::new();
    let mut waiters: BTreeSet<ThreadId> = BTreeSet::new();
    for slice in charge.slices(trace) {
        if let Some(fork) = fork_of(trace, &births, &slice) {
            let longest = pauses.entry(fork).or_default();
            *longest = slice.duration().0.max(*longest);
            waiters.insert(slice.thread);
        }
    }
    let mut lengths: Vec<u64> = pauses.values().copied().collect();
    lengths.sort_unstable();
    let (Some(longest), Some(((forks, _), _))) = (lengths.last(), pauses.iter().max_by_key(|(_, ns)| **ns))
    else {
        return Ok(Vec::new());
    };
    let middle = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    let finding = Finding {
        rule: INFO.name,
        subject: thread(trace, *forks),
        summary: vec![
            format!(
                "{} forked, and {} of the process stood still for up to {} each time (median), {} at the most ({}).",
                thread(trace, *forks),
                count(waiters.len() as u64, "thread"),
                time(middle),
                time(*longest),
                count(lengths.len() as u64, "fork"),
            ),
            format!(
                "They waited {} for the lock of the address space, {} of all thread time.",
                time(charge.ns()),
                percent(scene.of_thread_time(charge.ns())),
            ),
        ],
        cost_ns: charge.ns(),
        gain: scene.gain(&stall, |_, waited| waited),
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest_of(&charge, |_| "waits for the address space while it is copied".to_owned()),
        advice: vec![
            "Start programs by posix_spawn or vfork, or from a small process that was forked early".into(),
            "For snapshots of memory: huge pages, and MADV_DONTFORK for what the child does not need".into(),
        ],
    };
    Ok(vec![Charged { finding, charge }])
}
