//! Blame: every nanosecond that a thread of the program was blocked, charged to what was at the end of the chain of
//! holders at that moment: a thread that ran, one that was queued for a CPU, the disk, a timer, something outside.
//!
//! What was waited for first is the *subject*: a lock, or all waits of a kind together. Of each subject the blame sums
//! to its waiting, exactly. `flow` says how chains are followed; samples divide what running threads are blamed for
//! among their stacks. Being blamed is not being guilty: the producer of an idle consumer is blamed, too, and so is
//! whatever it did.

mod flow;
mod kinds;
mod steps;
mod sums;
mod windows;

pub use kinds::{KindBlame, by_kind};

pub(in crate::derive) use sums::divide;

use std::collections::BTreeMap;

use holdup_events::{StackId, ThreadId, Timestamp, Trace};

use super::holders::{Basis, Hold, HoldKind, Holders};
use super::locks::LockIndex;
use super::timelines::Timelines;

/// What was at the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EndClass {
    /// A thread that ran.
    Running = 0,
    /// A thread that could run and had no CPU.
    RunQueue = 1,
    /// A thread whose group's CPU bandwidth was used up.
    Throttled = 2,
    /// A thread that waited for the disk or a file system.
    Disk = 3,
    /// A thread that waited for a timer it had asked for, or ran into a time limit.
    Timer = 4,
    /// A thread that waited for a page fault.
    Fault = 5,
    /// A thread that waited inside the kernel or for a device.
    Kernel = 6,
    /// A thread that waited for something that no thread of this machine gave it (network), or for a thread of
    /// another program that did not run.
    Outside = 7,
    /// A thread that job control or a tracer had stopped.
    Stopped = 8,
    /// A thread for which nobody had ended the wait when the recording ended.
    StillWaiting = 9,
    /// Threads that waited for each other.
    Cycle = 10,
    /// Nothing tells.
    Unknown = 11,
    /// A thread that had been woken and was on its way to a run queue: an idle CPU left its sleep, or another was told.
    Waking = 12,
}

impl EndClass {
    /// Every class, in the order of reports.
    pub const ALL: [EndClass; 13] = [
        EndClass::Running,
        EndClass::RunQueue,
        EndClass::Throttled,
        EndClass::Disk,
        EndClass::Timer,
        EndClass::Fault,
        EndClass::Kernel,
        EndClass::Outside,
        EndClass::Stopped,
        EndClass::StillWaiting,
        EndClass::Cycle,
        EndClass::Unknown,
        EndClass::Waking,
    ];

    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            EndClass::Running => "running",
            EndClass::RunQueue => "run-queue",
            EndClass::Throttled => "throttled",
            EndClass::Disk => "disk",
            EndClass::Timer => "timer",
            EndClass::Fault => "fault",
            EndClass::Kernel => "kernel",
            EndClass::Outside => "outside",
            EndClass::Stopped => "stopped",
            EndClass::StillWaiting => "still-waiting",
            EndClass::Cycle => "cycle",
            EndClass::Unknown => "unknown",
            EndClass::Waking => "waking",
        }
    }

    /// The end of a wait that no thread holds.
    pub fn of_wait(hold: &Hold) -> EndClass {
        match (hold.kind, hold.basis) {
            (HoldKind::Sleep, _) | (_, Basis::Timer) => EndClass::Timer,
            (HoldKind::Disk, _) => EndClass::Disk,
            (HoldKind::Fault, _) => EndClass::Fault,
            (HoldKind::Kernel, _) => EndClass::Kernel,
            (HoldKind::Stopped, _) => EndClass::Stopped,
            (_, Basis::Interrupt) => EndClass::Outside,
            (_, Basis::StillWaiting) => EndClass::StillWaiting,
            _ => EndClass::Unknown,
        }
    }
}

/// Whom the blame goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// What it did, or waited for.
    pub class: EndClass,
    /// The thread at the end of the chain; `None` if that is not known.
    pub thread: Option<ThreadId>,
    /// Of a thread without a CPU: who had that.
    pub occupant: Option<ThreadId>,
}

/// What was waited for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The lock of that number in [`LockIndex`].
    Lock(u32),
    /// All waits of that kind.
    Kind(HoldKind),
}

impl Subject {
    /// What kind of wait it is.
    pub fn kind(self) -> HoldKind {
        match self {
            Subject::Lock(_) => HoldKind::Lock,
            Subject::Kind(kind) => kind,
        }
    }
}

/// The blame for waits of one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectBlame {
    /// What was waited for.
    pub subject: Subject,
    /// How often; waits that were ended in vain count with the next.
    pub waits: u64,
    /// How often a waiter was woken to find nothing.
    pub false_wakeups: u64,
    /// How long (ns).
    pub waiting_ns: u64,
    /// Who had it meanwhile (ns), the longest first; `None`: no thread, or not known. Sums to `waiting_ns`.
    pub holders: Vec<(Option<ThreadId>, u64)>,
    /// To whom that is charged (ns), the most first. Sums to `waiting_ns`.
    pub ends: Vec<(End, u64)>,
    /// What threads that ran are charged with, by stack (ns), the most first: [`StackId::NONE`] where no sample
    /// tells. Sums to what `ends` charges to [`EndClass::Running`].
    pub stacks: Vec<(ThreadId, StackId, u64)>,
}

impl SubjectBlame {
    /// What is charged to one class (ns).
    pub fn of(&self, class: EndClass) -> u64 {
        self.ends.iter().filter(|(end, _)| end.class == class).map(|(_, ns)| ns).sum()
    }

    /// What is charged to each thread (ns), the most first.
    pub fn by_thread(&self) -> Vec<(Option<ThreadId>, u64)> {
        let mut sums: BTreeMap<Option<ThreadId>, u64> = BTreeMap::new();
        for (end, ns) in &self.ends {
            *sums.entry(end.thread).or_default() += ns;
        }
        most_first(sums)
    }
}

/// A thread waited for another: an edge of the wait graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Who waited.
    pub waiter: ThreadId,
    /// Who ended it.
    pub holder: ThreadId,
    /// For what.
    pub kind: HoldKind,
    /// How long in all (ns).
    pub ns: u64,
    /// How often.
    pub waits: u64,
}

/// Blame for all waits of a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame {
    /// All time that threads of the program were blocked (ns).
    pub total_ns: u64,
    /// By what was waited for, the longest waited for first. Their waiting sums to `total_ns`.
    pub subjects: Vec<SubjectBlame>,
    /// The wait graph: who waited for whom directly, the longest first.
    pub edges: Vec<Edge>,
}

impl Blame {
    /// What is charged to each end in all (ns), the most first. Sums to `total_ns`.
    pub fn ends(&self) -> Vec<(End, u64)> {
        self.ends_of(|_| true)
    }

    /// What is charged to each end for waits of some subjects (ns), the most first.
    pub fn ends_of(&self, wanted: impl Fn(Subject) -> bool) -> Vec<(End, u64)> {
        let mut sums: BTreeMap<End, u64> = BTreeMap::new();
        for blame in self.subjects.iter().filter(|blame| wanted(blame.subject)) {
            for (end, ns) in &blame.ends {
                *sums.entry(*end).or_default() += ns;
            }
        }
        most_first(sums)
    }

    /// The blame for waits for one lock.
    pub fn lock(&self, lock: u32) -> Option<&SubjectBlame> {
        self.subjects.iter().find(|blame| blame.subject == Subject::Lock(lock))
    }
}

fn most_first<K: Ord + Copy>(sums: BTreeMap<K, u64>) -> Vec<(K, u64)> {
    let mut ranked: Vec<(K, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ranked
}

/// What blame is derived from.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// What was recorded.
    pub trace: &'a Trace,
    /// What each CPU ran.
    pub timelines: &'a Timelines,
    /// The locks by number.
    pub locks: &'a LockIndex,
    /// Who had what.
    pub holders: &'a Holders,
}

/// Derives the blame for all waits of the recording.
pub fn derive(facts: Facts) -> Blame {
    within(facts, Timestamp(0), Timestamp(u64::MAX))
}

/// Derives the blame for the waiting in `from..to`.
pub fn within(facts: Facts, from: Timestamp, to: Timestamp) -> Blame {
    windows::derive(facts, from, to)
}
