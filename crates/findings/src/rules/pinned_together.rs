//! # pinned-together: busy threads stay on one CPU while another one has room
//!
//! ## What it sees
//! Threads of the program that run on one and the same CPU only and queue for it, while another CPU that the
//! program uses or may use is idle, or has another program's thread, which would share it.
//!
//! ## Why it hurts
//! They share one CPU where they could have one each. The usual reason is an affinity that was set for one thread
//! and inherited by those it started, or a library that binds its threads by the same numbers in each process.
//!
//! ## How it decides
//! A scheduler moves a waiting thread to an idle CPU within milliseconds if it may. Two or more threads that never
//! ran anywhere else, and that queued for a good part of the run, most of it while a CPU was idle, may not move (one that another
//! program has counts by half). Where
//! the recording tells on how many CPUs each of them might run, that is known: one CPU makes it sure, and then a fifth of
//! the queueing is enough; all of them
//! (they stayed by chance) makes it silent.
//! The upper end of the gain is that they had run side by side; the lower end is what the active thread that waited
//! least would have saved.
//!
//! ## What to do
//! Look at their affinity (`taskset -cp TID`, `Cpus_allowed_list` in `/proc/PID/task/TID/status`); set it after the
//! threads are started, or for each of them; or leave it to the scheduler.
//!
//! ## Blind spots
//! The affinity is the last that was seen: of a thread that changed it in between, it is inferred. Threads that are bound to a CPU with another program's
//! busy thread are noisy-neighbour's. A program that was started with fewer CPUs than the machine has
//! (`taskset`, a cpuset) has no idle CPU, for all that is counted here.
//!
//! ## References
//! Linux `sched_setaffinity(2)` (children inherit it), `taskset(1)`, `cpuset(7)`.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, ThreadId};

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::ledger::ThreadLedger;
use crate::finding::{Confidence, Finding};
use crate::merging::Charged;
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

pub(super) const INFO: Info = Info {
    name: "pinned-together",
    summary: "Busy threads stay on one CPU while another one has room",
    of_waits_alone: true,
};

/// Of the queueing, this share could have been running on other CPUs.
const ROOM_SHARE_MIN: f64 = 0.5;

/// … and this one where they are known to be bound: a scheduler could not help them.
const ROOM_SHARE_BOUND_MIN: f64 = 0.2;

/// A thread that queues less than this share of its own running is not held up by it.
const QUEUE_SHARE_MIN: f64 = 0.1;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let groups = groups(scene);
    let found = groups.into_iter().filter(|(_, threads)| threads.len() >= 2);
    Ok(found.filter_map(|(cpu, threads)| finding(scene, cpu, &threads)).collect())
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

/// It may not leave its CPU, for all that is known. It may have been bound after it had begun elsewhere.
fn stays(scene: &Scene, ledger: &ThreadLedger) -> bool {
    is_bound(scene, ledger.thread) || (ledger.migrations == 0 && !is_free(scene, ledger.thread))
}

/// It might run on every CPU that the program may use.
fn is_free(scene: &Scene, thread: ThreadId) -> bool {
    let all = scene.trace.manifest.host.cpus_allowed.max(2);
    scene.trace.threads.get(thread.index()).is_some_and(|thread| thread.cpus_allowed >= all)
}

/// It might run on one CPU only.
fn is_bound(scene: &Scene, thread: ThreadId) -> bool {
    scene.trace.threads.get(thread.index()).is_some_and(|thread| thread.cpus_allowed == 1)
}

/// The CPU of a thread that stays there: the last on which it ran.
fn only_cpu(scene: &Scene, thread: ThreadId) -> Option<CpuId> {
    let mut slices = scene.trace.slices.of(thread).filter(|slice| slice.state == ThreadState::Running);
    slices.rfind(|slice| slice.cpu != CpuId::NONE).map(|slice| slice.cpu)
}

fn finding(scene: &Scene, cpu: CpuId, threads: &[ThreadId]) -> Option<Charged> {
    let charge = Charge::of(scene.trace, |slice| {
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
        subject: format!("{} on CPU {}: {}", count(threads.len() as u64, "thread"), cpu.0, names.join(", ")),
        summary: vec![format!(
            "They queued {} for CPU {} and {}; for {} of that another CPU had room.",
            time(charge.ns()),
            cpu.0,
            if bound { "may run on no other" } else { "never ran on another" },
            percent(room_ns / charge.ns().max(1) as f64),
        )],
        cost_ns: room_ns as u64,
        gain,
        likely: None,
        confidence: scene.confidence(if bound { Confidence::High } else { Confidence::Medium }),
        evidence: scene.longest_of(&charge, |slice| format!("queues for CPU {}", slice.cpu.0)),
        advice: vec![
            "Look at their affinity (taskset -cp TID): threads inherit it from the one that starts them"
                .into(),
            "Bind each to a CPU of its own, or none at all".into(),
        ],
    };
    Some(Charged { finding, charge })
}
