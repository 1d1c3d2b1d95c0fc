//! # pinned-together: busy threads stay on one CPU while another CPU is free
//!
//! ## Symptoms
//! Threads of the program that run on a single CPU only and queue for it. Another CPU that the program uses
//! or may use is idle, or runs another program's thread, which would share it.
//!
//! ## Why it hurts
//! They share one CPU although each could have its own. The usual reason is an affinity that was set for one
//! thread and inherited by the threads that it started. Another is a library that binds its threads to the
//! same CPU numbers in each process.
//!
//! ## How it decides
//! A scheduler moves a waiting thread to an idle CPU within milliseconds if it may. Two or more threads never
//! ran elsewhere, and queued for a large part of the run, most of it while a CPU was idle. Then their
//! affinity probably prevents a move. (A CPU used by another program counts half.) If the recording has the
//! number of allowed CPUs of each thread, the affinity is known. With one allowed CPU the finding is sure,
//! and a fifth of the queueing is enough. With all CPUs allowed there is no finding, because the threads
//! stayed by chance.
//!
//! The upper bound of the gain is that they had run in parallel. The lower bound is the saving of the active
//! thread that waited least.
//!
//! ## What to do
//! Check their affinity (`taskset -cp TID`, `Cpus_allowed_list` in `/proc/PID/task/TID/status`). Set it after
//! the threads are started, or for each of them, or leave the placement to the scheduler.
//!
//! ## Blind spots
//! The affinity is the last recorded one. For a thread that changed it in between, the earlier one is
//! inferred. noisy-neighbour reports threads that are bound to a CPU with another program's busy thread. A
//! program that was started with fewer CPUs than the machine has (`taskset`, a cpuset) has no idle CPU in
//! this count.
//!
//! ## References
//! Linux `sched_setaffinity(2)` (children inherit it), `taskset(1)`, `cpuset(7)`.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, ThreadId};

use crate::charge::Charge;
use crate::derive::ledger::ThreadLedger;
use crate::finding::{About, Confidence, Finding};
use crate::rule::{Charged, ChargedVerdict, Estimate, Explains, Info, Remedy, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Computed,
    explains: &[
        // A CPU that threads may not leave.
        Explains::shared(&super::oversubscription::INFO),
        Explains::shared(&super::preempted_lock_holder::INFO),
    ],
    remedies: &[Remedy::new(&[], "pin", &["spread"], "a CPU for each thread")],
    ..Info::new("pinned-together", "Busy threads stay on one CPU while another CPU has room")
};

/// Minimum share of the queueing in which the threads could have run on other CPUs.
const ROOM_SHARE_MIN: f64 = 0.5;

/// … and this one where they are known to be bound: a scheduler could not help them.
const ROOM_SHARE_BOUND_MIN: f64 = 0.2;

/// A thread that queues less than this share of its own running is not held up by it.
const QUEUE_SHARE_MIN: f64 = 0.1;

pub(super) struct PinnedTogether;

impl Rule for PinnedTogether {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let groups = groups(scene);
        let found = groups.into_iter().filter(|(_, threads)| threads.len() >= 2);
        Ok(found.filter_map(|(cpu, threads)| finding(scene, cpu, &threads)).collect())
    }
}

/// The active threads that ran on one CPU only, and queued for it, by CPU.
fn groups(scene: &Scene) -> BTreeMap<CpuId, Vec<ThreadId>> {
    let mut groups: BTreeMap<CpuId, Vec<ThreadId>> = BTreeMap::new();
    for ledger in scene.active(|_| 0.0) {
        let queued = ledger.run_queue.own_ns + ledger.run_queue.others_ns;
        let held_up = queued as f64 >= QUEUE_SHARE_MIN * ledger.running_ns() as f64;
        if let (true, Some(cpu)) = (held_up && stays(scene, ledger), only_cpu(scene, ledger.thread)) {
            groups.entry(cpu).or_default().push(ledger.thread);
        }
    }
    groups.values_mut().for_each(|threads| threads.sort_unstable());
    groups
}

/// Whether the thread cannot leave its CPU, as far as is known. It may have been bound after it had started
/// elsewhere.
fn stays(scene: &Scene, ledger: &ThreadLedger) -> bool {
    is_bound(scene, ledger.thread) || (ledger.migrations == 0 && !is_free(scene, ledger.thread))
}

/// Whether the thread may run on every CPU of the program.
fn is_free(scene: &Scene, thread: ThreadId) -> bool {
    let all = scene.trace.manifest.host.cpus_allowed.max(2);
    scene.trace.threads.get(thread.index()).is_some_and(|thread| thread.cpus_allowed >= all)
}

/// Whether the thread may run on one CPU only.
fn is_bound(scene: &Scene, thread: ThreadId) -> bool {
    scene.trace.threads.get(thread.index()).is_some_and(|thread| thread.cpus_allowed == 1)
}

/// The CPU of a thread that stays there: the last on which it ran.
fn only_cpu(scene: &Scene, thread: ThreadId) -> Option<CpuId> {
    let mut slices = scene.trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Running);
    slices.rfind(|slice| slice.cpu != CpuId::NONE).map(|slice| slice.cpu)
}

fn finding(scene: &Scene, cpu: CpuId, threads: &[ThreadId]) -> Option<Charged> {
    let charge = Charge::matching(scene.trace, |slice| {
        let queues = matches!(slice.state, ThreadState::Runnable | ThreadState::Preempted);
        queues && threads.binary_search(&slice.thread).is_ok()
    });
    let stall = scene.stall(&charge);
    let room_ns: f64 = stall.by_thread.values().sum();
    let gain = scene.gain(&stall, |_, waited| waited);
    let bound = threads.iter().all(|id| is_bound(scene, *id));
    let share_min = if bound { ROOM_SHARE_BOUND_MIN } else { ROOM_SHARE_MIN };
    if room_ns < share_min * charge.ns() as f64 || gain.high < GAIN_MIN {
        return None;
    }
    let names: Vec<String> = threads.iter().take(4).map(|id| thread(scene.trace, *id)).collect();
    let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: format!("{} on CPU {}: {}", count(threads.len() as u64, "thread"), cpu.0, names.join(", ")),
        summary: vec![format!(
            "They waited {} for CPU {} and {}. For {} of that, another CPU had room.",
            time(charge.ns()),
            cpu.0,
            if bound { "may run on no other" } else { "never ran on another" },
            percent(room_ns / charge.ns().max(1) as f64),
        )],
        cost_ns: room_ns as u64,
        gain,
        likely: None,
        confidence: scene.confidence(if bound { Confidence::High } else { Confidence::Medium }),
        evidence: scene.longest_of(&charge, |slice| format!("waits for CPU {}", slice.cpu.0)),
        advice: vec![
            "Check their affinity (taskset -cp TID): threads inherit it from the thread that starts them"
                .into(),
            "Bind each to a different CPU, or none at all".into(),
        ],
    };
    Some(Charged { finding, charge })
}
