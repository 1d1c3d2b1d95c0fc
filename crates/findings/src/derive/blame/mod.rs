//! Blame: attribution of all blocked time of the program's threads to the end of the chain of holders at each
//! moment. The end may be a running thread, a thread queued for a CPU, the disk, a timer, or an outside
//! event.
//!
//! The object of the first wait is the *subject*: a lock, or all waits of one kind. For each subject, blame
//! sums exactly to its wait time. `flow` follows the chains. Samples divide the blame of running threads
//! among their stacks.
//!
//! Blame does not mean fault. The producer of an idle consumer is blamed for all its activity.

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

/// End of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EndClass {
    /// A thread that ran.
    Running = 0,
    /// A thread that could run and had no CPU.
    RunQueue = 1,
    /// A throttled thread: the cgroup's CPU bandwidth was used up.
    Throttled = 2,
    /// A thread that waited for the disk or a file system.
    Disk = 3,
    /// A thread that slept, or whose wait timed out.
    Timer = 4,
    /// A thread that waited for a page fault.
    Fault = 5,
    /// A thread that waited inside the kernel or for a device.
    Kernel = 6,
    /// A thread that waited for an event from outside this machine (network), or for a thread of another
    /// program that did not run.
    Outside = 7,
    /// A thread that job control or a tracer had stopped.
    Stopped = 8,
    /// A thread whose wait lasted until the end of the recording.
    StillWaiting = 9,
    /// Threads that waited for each other.
    Cycle = 10,
    /// Unknown.
    Unknown = 11,
    /// A woken thread that was not yet on a run queue, because of an idle CPU's exit latency or an
    /// interprocessor interrupt.
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

/// Target of blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// State of the thread.
    pub class: EndClass,
    /// Thread at the end of the chain. `None` if unknown.
    pub thread: Option<ThreadId>,
    /// For a runnable thread: the occupant of its CPU.
    pub occupant: Option<ThreadId>,
}

/// Object of the first wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The lock of that number in [`LockIndex`].
    Lock(u32),
    /// All waits of that kind.
    Kind(HoldKind),
}

impl Subject {
    /// Kind of wait.
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
    /// The subject.
    pub subject: Subject,
    /// Number of waits. Waits that ended in vain count with the next one.
    pub waits: u64,
    /// Number of wakeups in vain.
    pub false_wakeups: u64,
    /// Total wait time (ns).
    pub waiting_ns: u64,
    /// Holders during the waits (ns), longest first. `None` if it is not a thread, or unknown. Sums to
    /// `waiting_ns`.
    pub holders: Vec<(Option<ThreadId>, u64)>,
    /// Blame by end (ns), largest first. Sums to `waiting_ns`.
    pub ends: Vec<(End, u64)>,
    /// Blame of running threads by stack (ns), largest first. [`StackId::NONE`] for time without a sample.
    /// Sums to the blame of [`EndClass::Running`] in `ends`.
    pub stacks: Vec<(ThreadId, StackId, u64)>,
}

impl SubjectBlame {
    /// Blame of one class (ns).
    pub fn class_ns(&self, class: EndClass) -> u64 {
        self.ends.iter().filter(|(end, _)| end.class == class).map(|(_, ns)| ns).sum()
    }

    /// Blame by thread (ns), largest first.
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
    /// The waiting thread.
    pub waiter: ThreadId,
    /// Thread that ended the wait.
    pub holder: ThreadId,
    /// Kind of wait.
    pub kind: HoldKind,
    /// Total wait time (ns).
    pub ns: u64,
    /// Number of waits.
    pub waits: u64,
}

/// Blame for all waits of a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame {
    /// All time that threads of the program were blocked (ns).
    pub total_ns: u64,
    /// By subject, longest wait time first. The wait times sum to `total_ns`.
    pub subjects: Vec<SubjectBlame>,
    /// Wait graph: direct waits between threads, longest first.
    pub edges: Vec<Edge>,
}

impl Blame {
    /// Total blame by end (ns), largest first. Sums to `total_ns`.
    pub fn ends(&self) -> Vec<(End, u64)> {
        self.ends_of(|_| true)
    }

    /// Blame by end for the waits of some subjects (ns), largest first.
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

/// Input for blame.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Occupation of each CPU.
    pub timelines: &'a Timelines,
    /// The locks by number.
    pub locks: &'a LockIndex,
    /// Holders of all waits.
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
