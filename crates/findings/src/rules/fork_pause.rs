//! # fork-pause: threads wait while one of them forks
//!
//! ## Symptoms
//! Threads that wait for the lock of their process's address space, and are released by the thread that has
//! just forked the process. It reports their number, their duration, and the forking thread.
//!
//! ## Why it hurts
//! To fork, the kernel copies the page tables of the whole process while it holds `mmap_lock`. This takes
//! some milliseconds per gigabyte of small pages. Threads that fault, map or unmap then wait. After the fork,
//! each page that is written must be copied first. A child that executes another program frees the copied
//! tables again, and its parent waits for that.
//!
//! ## How it decides
//! A wait for `mmap_lock` counts if the thread that ended it became the parent of a new process. That must
//! happen between the wait's start and some milliseconds after its end, because the kernel releases the lock
//! just before. A finding needs idle CPUs that could have run the waiters for at least 2 % of the run. With
//! several forking processes, the one whose threads waited longest is reported. Waits for children count too,
//! if the children spend most of their lives freeing their copies. The forecast by replay removes the waits
//! for the lock, and the sampled time of copying and freeing.
//!
//! ## What to do
//! Start programs by `posix_spawn` or `vfork`, which copy no tables, or from a small helper process forked
//! early. For a snapshot of memory by fork, huge pages make the tables five hundred times smaller. Use
//! `MADV_DONTFORK` for memory that the child does not need.
//!
//! ## Blind spots
//! Threads that only compute on existing memory do not wait, and are not seen. Page copies after the fork are
//! page faults (page-fault-storm). Without `contention_begin` (before Linux 5.19), waits for `mmap_lock` are
//! not distinguished from other waits.
//!
//! ## References
//! Zhao, Gong, Fonseca: On-demand-fork (EuroSys 2021). `posix_spawn(3)`, `madvise(2)`.

mod removal;

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ProcessId, ThreadId, Timestamp, Trace, WaitReason};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::forks::{self, Births, Copying};
use crate::finding::{About, Confidence, Finding};
use crate::removal::Removal;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // The address space's lock is held because its holder forks.
        Explains::shared(&super::lock_contention::INFO),
        Explains::shared(&super::lock_convoy::INFO),
        // Children that mostly take down the copy which the fork made.
        Explains::shared(&super::subprocess_per_item::INFO),
        Explains::shared(&super::child_wait::INFO),
    ],
    ..Info::new("fork-pause", "Threads pause while one of them forks the process")
};

/// Maximum time from the release of the lock to the child's start. The kernel copies the remaining state in
/// it.
const BIRTH_AFTER_MAX: Duration = Duration(5_000_000);
/// Children that spend more than this part of their running time on their copies are waited for because of these.
const MOSTLY: f64 = 0.5;

/// The thread that forked, and the time, if the slice waited for that.
fn fork_of(trace: &Trace, births: &Births, slice: &Slice) -> Option<(ThreadId, Timestamp)> {
    let waits = slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason == WaitReason::MmapLock;
    if !waits {
        return None;
    }
    let waker = trace.ended_by(slice).filter(|wakeup| wakeup.context == WakeContext::Thread)?.waker;
    let born = births.get(&waker)?.range(slice.start..=slice.end + BIRTH_AFTER_MAX).next()?;
    Some((waker, *born))
}

/// The waits for forks of the process that waited longest for them.
fn costliest(trace: &Trace, births: &Births) -> Option<Charge> {
    let process = |slice: &Slice| {
        let (forks, _) = fork_of(trace, births, slice)?;
        Some(trace.threads.get(forks.index())?.process)
    };
    let all = Charge::matching(trace, |slice| process(slice).is_some());
    let mut of_process: BTreeMap<ProcessId, u64> = BTreeMap::new();
    for slice in all.slices(trace) {
        if let Some(process) = process(&slice) {
            *of_process.entry(process).or_default() += slice.duration().0;
        }
    }
    let (most, _) = of_process.iter().max_by_key(|(id, ns)| (**ns, std::cmp::Reverse(**id)))?;
    Some(match of_process.len() {
        1 => all,
        _ => Charge::matching(trace, |slice| process(slice) == Some(*most)),
    })
}

pub(super) struct ForkPause;

impl Rule for ForkPause {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let trace = scene.trace;
        // Waits for an address space are in this class, and no stall saves more than was waited.
        if scene.of_wall(scene.derived.ledger.class_ns(Class::FaultWait) as f64) < GAIN_MIN {
            return Ok(Vec::new());
        }
        let births = forks::births(trace);
        let Some(charge) = costliest(trace, &births) else { return Ok(Vec::new()) };
        let stall = scene.stall(&charge);
        if scene.of_wall(stall.saved_ns) < GAIN_MIN {
            return Ok(Vec::new());
        }
        let Some(pauses) = Pauses::derive(trace, &births, &charge) else { return Ok(Vec::new()) };
        let copies = Copies::derive(scene, pauses.forks);
        let waits = copies.waits(scene, pauses.forks);
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: thread(trace, pauses.forks),
            summary: summary(scene, &pauses, &charge, &copies),
            cost_ns: charge.ns(),
            gain: scene.gain(&stall, |_, waited| waited),
            likely: None,
            confidence: scene.confidence(Confidence::High),
            evidence: scene
                .longest_of(&charge, |_| "waits for the address space while it is copied".to_owned()),
            advice: vec![
                "Start programs with posix_spawn or vfork, or from a small process that was forked early"
                    .into(),
                "For snapshots of memory: huge pages, and MADV_DONTFORK for what the child does not need"
                    .into(),
            ],
        };
        let charge = waits.map_or_else(|| charge.clone(), |waits| charge.clone().and(trace, &waits));
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        (!cause.charge.is_empty()).then(|| removal::copies(cause.trace(), cause.charge))
    }
}

fn summary(scene: &Scene, pauses: &Pauses, charge: &Charge, copies: &Copies) -> Vec<String> {
    let mut said = vec![
        format!(
            "{} forked, and {} of the process paused: median {}, maximum {} ({}).",
            thread(scene.trace, pauses.forks),
            count(pauses.waiters, "thread"),
            time(pauses.median_ns),
            time(pauses.longest_ns),
            count(pauses.count, "fork"),
        ),
        format!(
            "They waited {} for the address space's lock, {} of all thread time.",
            time(charge.ns()),
            percent(scene.of_thread_time(charge.ns())),
        ),
    ];
    if copies.made_ns > 0.0 {
        said.push(format!(
            "It took {} of CPU time to copy page tables (sampled){}.",
            time(copies.made_ns as u64),
            match copies.dropped_ns > 0.0 {
                true => format!(
                    ", and its children took {} to free the copies before exec",
                    time(copies.dropped_ns as u64)
                ),
                false => String::new(),
            },
        ));
    }
    said
}

/// How long the others stood still at each fork.
struct Pauses {
    /// The forking thread of the longest wait.
    forks: ThreadId,
    waiters: u64,
    median_ns: u64,
    longest_ns: u64,
    count: u64,
}

impl Pauses {
    fn derive(trace: &Trace, births: &Births, charge: &Charge) -> Option<Pauses> {
        let mut pauses: BTreeMap<(ThreadId, Timestamp), u64> = BTreeMap::new();
        let mut waiters: BTreeSet<ThreadId> = BTreeSet::new();
        for slice in charge.slices(trace) {
            let Some(fork) = fork_of(trace, births, &slice) else { continue };
            let longest = pauses.entry(fork).or_default();
            *longest = slice.duration().0.max(*longest);
            waiters.insert(slice.thread);
        }
        let ((forks, _), longest) = pauses.iter().max_by_key(|(_, ns)| **ns)?;
        let mut lengths: Vec<u64> = pauses.values().copied().collect();
        lengths.sort_unstable();
        Some(Pauses {
            forks: *forks,
            waiters: waiters.len() as u64,
            median_ns: lengths[lengths.len() / 2],
            longest_ns: *longest,
            count: lengths.len() as u64,
        })
    }
}

/// The cost of the copies of the address space, without the waits for its lock.
struct Copies {
    /// Time of the forking thread (ns, by samples).
    made_ns: f64,
    /// Time of its children (ns, by samples).
    dropped_ns: f64,
    /// How long these ran in all (ns).
    children_ns: f64,
}

impl Copies {
    fn derive(scene: &Scene, forks: ThreadId) -> Copies {
        let (trace, ledger) = (scene.trace, &scene.derived.ledger);
        let copying = Copying::new(trace);
        let is_child = |id: ThreadId| trace.threads[id.index()].parent == Some(forks);
        let ran = ledger.threads.iter().filter(|one| is_child(one.thread)).map(|one| one.running_ns());
        Copies {
            made_ns: copying.of_threads(ledger, |id| id == forks),
            dropped_ns: copying.of_threads(ledger, is_child),
            children_ns: ran.sum::<u64>() as f64,
        }
    }

    /// The waits for the children, if their copies are what these are for.
    fn waits(&self, scene: &Scene, forks: ThreadId) -> Option<Charge> {
        let is_wait = |slice: &Slice| slice.thread == forks && scene.class(slice) == Some(Class::ChildWait);
        (self.dropped_ns > MOSTLY * self.children_ns).then(|| Charge::matching(scene.trace, is_wait))
    }
}
