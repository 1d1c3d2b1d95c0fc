//! # oversubscription: more threads want to run than there are CPUs
//!
//! ## What it sees
//! Threads that could run but wait for a CPU which another thread of the same program has.
//!
//! ## Why it hurts
//! By itself, sharing CPUs costs little. It costs much when threads depend on each other: a thread that
//! holds a lock, or is the last to reach a barrier, waits for a CPU, and everybody else waits for it, or
//! spins on the CPU that it needs.
//!
//! ## How it decides
//! It fires where threads spent a fair share of their time waiting for a CPU behind their own kind, while more of them
//! wanted to run than there are CPUs: two that share a CPU because a stranger has the other are not too many. The
//! lower end of the gain is the direct cost of the switches that preemption forced. The upper end is what
//! the run would be shorter if each of these threads had had a CPU at once: as many CPUs as threads, or,
//! with fewer threads, if what kept the CPUs was spinning for those that waited; at the most what these idled and
//! spun, for fewer threads have the same work. It is a hint only where they are hardly seen to spin or to yield (the CPUs then did
//! work that fewer threads would have to do as well), where the active threads hardly wait for each other, and where no more want
//! to run at a time, on average, than there are CPUs (it is how they meet).
//!
//! ## What to do
//! Start as many threads as there are CPUs that the program may use (its affinity and cgroup limit count,
//! not the machine's size), and do not stack pools on each other (a pool per library, each as wide as the
//! machine). Where a runtime's threads are most of the busy ones, it is named, with the option that sets their number. Where what
//! has the CPUs is work, the function is named in which most of it is, and what it is if a descriptor knows it (docs/descriptors.md,
//! `[[work]]`): less of that helps, fewer threads hardly do.
//!
//! ## Blind spots
//! A thread that spins looks like one that works, so the gain of fewer threads lies between two ends far
//! apart: measure it with another number of threads.
//!
//! ## References
//! Ousterhout: Scheduling techniques for concurrent systems (1982). Linux `sched(7)`.

use std::collections::BTreeSet;

use holdup_events::ThreadId;
use holdup_events::tables::ThreadState;

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::busiest::Busiest;
use crate::derive::class::Class;
use crate::derive::known_work::Known;
use crate::derive::runtimes::RuntimeUse;
use crate::finding::{Confidence, Finding, Gain};
use crate::merging::Charged;
use crate::scene::Scene;
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "oversubscription",
    summary: "More of the program's threads want to run than there are CPUs",
    of_waits_alone: true,
};

/// Less of the threads' time on the queue than this is ordinary jitter.
const QUEUE_SHARE_MIN: f64 = 0.05;

/// Direct cost of a forced switch on current x86-64 machines (ns): 1 to 3 µs are usual figures.
const SWITCH_NS: f64 = 2000.0;

/// Active threads that wait for each other for this share of their time depend on each other.
const COUPLED_MIN: f64 = 0.02;

/// Of their CPU time, so much spent spinning says that waiting itself takes CPUs from who could work.
const SPIN_MIN: f64 = 0.05;

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    let (ledger, occupancy) = (&scene.derived.ledger, &scene.derived.occupancy);
    let own_ns = ledger.run_queue.own_ns.min(scene.derived.parallelism.beyond_ns(occupancy.cpus));
    // Behind its own kind a thread queues also where a stranger has the other CPUs: that is not for too many threads.
    let part = own_ns as f64 / ledger.run_queue.own_ns.max(1) as f64;
    let wanting = scene.derived.parallelism.wanting_mean();
    if scene.of_thread_time(own_ns) < QUEUE_SHARE_MIN {
        return Ok(Vec::new());
    }
    let preempted: u64 = ledger.threads.iter().map(|thread| thread.preempted).sum();
    let cpus = f64::from(occupancy.cpus);
    let high = scene.of_wall(part * occupancy.own.saved_ns).clamp(0.0, 1.0);
    let low = scene.of_wall(preempted as f64 * SWITCH_NS / cpus).min(high);
    let charge = scene.queues(true);
    let sharing = Sharing::of(scene, &charge);
    let (dependence, runtime) = (dependence(scene), whose(scene, sharing));
    let mut summary = vec![
        format!(
            "Threads spent {} ({} of their time) waiting for a CPU that another thread of the program had.",
            time(own_ns),
            percent(scene.of_thread_time(own_ns)),
        ),
        format!(
            "On average {wanting:.1} threads wanted to run on {}; {}.",
            count(u64::from(occupancy.cpus), "CPU"),
            count(preempted, "preemption"),
        ),
    ];
    summary.extend(dependence.says().map(String::from));
    let work = scene.derived.busiest.as_ref().filter(|_| dependence.is_work());
    let known = scene.derived.known_work.as_ref().filter(|_| dependence.is_work());
    summary.extend(work.map(in_what));
    summary.extend(known.map(Known::said));
    // Of fewer than there are CPUs, on average, it is how they meet, not how many they are.
    let waste = dependence == Dependence::Wasteful && wanting > cpus;
    let confidence = if waste { Confidence::Medium } else { Confidence::Low };
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{} for {}", sharing.said(runtime), count(u64::from(occupancy.cpus), "CPU")),
        summary,
        cost_ns: own_ns,
        gain: Gain { low, high },
        likely: None,
        confidence: scene.confidence(confidence),
        evidence: scene.longest_queues(&charge),
        advice: advice(scene, (runtime, dependence), (known, work)),
    };
    Ok(vec![Charged { finding, charge }])
}

/// Where what has the CPUs is work, to have less of it is what helps; else fewer threads do.
fn advice(
    scene: &Scene,
    (runtime, dependence): (Option<&RuntimeUse>, Dependence),
    (known, work): (Option<&Known>, Option<&Busiest>),
) -> Vec<String> {
    let fewer = match runtime {
        Some(runtime) => runtime.fewer_threads.clone(),
        None => format!("Use {} or fewer", count(u64::from(scene.derived.occupancy.cpus), "thread")),
    };
    let sleep = "Give threads that wait for each other a blocking wait in place of a spinning one";
    let spins = dependence == Dependence::Wasteful;
    let less = known.map(|known| known.advice.clone()).into_iter().chain(work.map(less_of));
    less.chain([fewer]).chain(spins.then(|| sleep.to_owned())).collect()
}

/// In which function it is that they work.
fn in_what(work: &Busiest) -> String {
    let (share, error) = (percent(work.share), percent(work.error));
    let mostly = work.mostly_in.as_ref().map(|(name, _)| format!(", mostly in {name}"));
    format!("{share} ± {error} of the useful work is in {}{}.", work.said(), mostly.unwrap_or_default())
}

/// What helps where CPUs are short of time.
fn less_of(work: &Busiest) -> String {
    format!(
        "Have less to do in {}: what several ask it for at once can be done once for all of them",
        work.function
    )
}

/// Threads that share the CPUs.
#[derive(Clone, Copy)]
enum Sharing {
    /// So many are busy.
    Busy(u64),
    /// No more than there are CPUs are busy: so many queued at one time or another.
    ByTurns(u64),
}

impl Sharing {
    fn of(scene: &Scene, queues: &Charge) -> Sharing {
        let busy = scene.active(|_| 0.0).len() as u64;
        if busy > u64::from(scene.derived.occupancy.cpus) {
            return Sharing::Busy(busy);
        }
        let queued: BTreeSet<ThreadId> = queues.slices(scene.trace).map(|slice| slice.thread).collect();
        Sharing::ByTurns(queued.len() as u64)
    }

    fn said(self, runtime: Option<&RuntimeUse>) -> String {
        let threads = match self {
            Sharing::Busy(busy) => count(busy, "busy thread"),
            Sharing::ByTurns(queued) => format!("{} by turns", count(queued, "thread")),
        };
        runtime.map_or(threads.clone(), |runtime| format!("{threads} of {}", runtime.title))
    }
}

/// The runtime that says how many threads there are: its code was seen to run in most of those that share the CPUs.
fn whose<'a>(scene: &'a Scene, sharing: Sharing) -> Option<&'a RuntimeUse> {
    let (Sharing::Busy(threads) | Sharing::ByTurns(threads)) = sharing;
    let seen_at = |used: &RuntimeUse| {
        let ran = used.roles.iter().filter(|role| role.samples > 0);
        ran.map(|role| u64::from(role.threads)).max().unwrap_or(0)
    };
    let all = scene.derived.runtimes.iter().filter(|used| !used.fewer_threads.is_empty());
    let ran_ns = |used: &RuntimeUse| -> u64 { used.roles.iter().map(|role| role.running_ns).sum() };
    all.filter(|used| 2 * seen_at(used) > threads).max_by_key(|used| ran_ns(used))
}

/// How those that share the CPUs depend on each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dependence {
    /// They hardly wait for each other.
    Hardly,
    /// They wait for each other, and sleep meanwhile.
    Asleep,
    /// They wait for each other; what they ran was not seen.
    Unseen,
    /// They spin or yield while they wait: that takes CPUs from who could work.
    Wasteful,
}

impl Dependence {
    /// What has the CPUs is work.
    fn is_work(self) -> bool {
        matches!(self, Dependence::Hardly | Dependence::Asleep)
    }

    /// What a reader should know of it before starting fewer threads.
    fn says(self) -> Option<&'static str> {
        match self {
            Dependence::Hardly => Some(
                "The threads hardly wait for each other: fewer of them would gain little, unless they spin.",
            ),
            Dependence::Asleep => Some(
                "They hardly spin: what kept the CPUs was work that fewer threads would have to do as well.",
            ),
            Dependence::Unseen => {
                Some("Whether they spin while they wait was not seen: nothing was sampled.")
            }
            Dependence::Wasteful => None,
        }
    }
}

/// Whether the active threads wait for each other, and hand the CPU on or spin for that.
fn dependence(scene: &Scene) -> Dependence {
    let (mut waiting, mut life, mut yields, mut preempted) = (0, 0, 0u64, 0);
    let (mut spun, mut ran) = (0, 0);
    for thread in scene.active(|_| 0.0) {
        let class = |class: Class| thread.classes[class as usize];
        waiting += class(Class::LockWait) + class(Class::JoinWait) + class(Class::WorkWait);
        spun += class(Class::Spin);
        ran += thread.running_ns();
        life += thread.life.0;
        preempted += thread.preempted;
        let slices = scene.trace.slices.of(thread.thread);
        yields += slices.filter(|slice| slice.state == ThreadState::Yielded).count() as u64;
    }
    let waits = waiting as f64 >= COUPLED_MIN * life as f64;
    match (yields > preempted || spun as f64 >= SPIN_MIN * ran.max(1) as f64, waits) {
        (true, _) => Dependence::Wasteful,
        (false, true) if !scene.derived.ledger.split_known => Dependence::Unseen,
        (false, true) => Dependence::Asleep,
        (false, false) => Dependence::Hardly,
    }
}
