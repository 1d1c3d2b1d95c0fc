//! The steps of a replayed program.

use std::collections::BTreeMap;

use crate::derive::class::Class;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Runs for `arg` ns.
    Run,
    /// Off CPU for `arg` ns, independent of other threads: a timer, a disk, another process or host.
    Away,
    /// The next absence ends when signal `arg` is sent. It is left out if the signal was sent before.
    Unless,
    /// Waits for `arg` ns before it can have a CPU, unless it has one: the kernel's own delays.
    Lag,
    /// Has the highest priority when runnable, and keeps its CPU until it waits.
    Keep,
    /// Yields its CPU and queues for one.
    Requeue,
    /// Waits for signal `arg`, unless it was sent.
    Await,
    /// Waits for signal `arg` from the holder of a lock.
    AwaitLock,
    /// Sends signal `arg`.
    Signal,
    /// Waits until all members of barrier `arg` have arrived.
    Meet,
    /// Takes lock `arg`, once it is free.
    Take,
    /// Releases lock `arg`.
    Give,
}

/// One step. 16 bytes, because there are more steps than slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Start in the recording (ns since its start).
    pub at: u64,
    /// Argument, by [`Kind`].
    pub arg: u32,
    /// Kind of step.
    pub kind: Kind,
    /// Where its time goes.
    pub class: Class,
}

/// A thread that runs until a stop request. It does only the work that it had done in the recording when the
/// deciders were at their current step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Follower {
    /// Time of the stop request (ns since the start of the recording).
    pub until: u64,
    /// Threads whose progress it follows.
    pub deciders: Vec<u32>,
}

/// A thread that worked until a timer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timed {
    /// The thread.
    pub thread: u32,
    /// End in the recording (ns since its start).
    pub end: u64,
    /// Time that the changes take away from this thread (ns).
    pub taken_ns: u64,
}

/// A program that can be replayed.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// `of_thread[t]..of_thread[t + 1]` are the steps of thread `t`. Threads of other programs have none.
    pub(super) of_thread: Vec<u32>,
    pub(super) steps: Vec<Step>,
    /// Number of signals.
    pub(super) signals: u32,
    /// By signal that was sent before the wait it ended: time between the two (ns).
    pub(super) leads: BTreeMap<u32, u64>,
    /// Number of members of each barrier.
    pub(super) meetings: Vec<u32>,
    /// Number of locks.
    pub(super) locks: u32,
    /// CPU demand of other programs: time, and length (ns), in time order.
    pub(super) others: Vec<(u64, u64)>,
    /// By thread: the threads that run until a stop request. Empty if there are none.
    pub(super) followers: Vec<Option<Follower>>,
    /// Threads that worked until a timer ended. The duration of the replay is the time that they take for
    /// that work.
    pub(super) timed: Vec<Timed>,
    /// Number of CPUs. Equal to the number of threads if no thread ever queues.
    pub(super) cpus: u32,
    /// A thread that has run for this long yields its CPU to waiting threads (ns).
    pub(super) quantum_ns: u64,
    /// Time from the last step to the end of the recording (ns).
    pub(super) tail_ns: u64,
    /// Thread time that the changes took away (ns).
    pub(super) taken_ns: u64,
    /// Part of `taken_ns` that is estimated from samples (ns).
    pub(super) cut_ns: u64,
    /// Waits for a CPU that may go with that (ns).
    pub(super) queued_ns: u64,
    /// Running time of all threads, including work that moved to other CPUs (ns).
    pub(super) work_ns: u64,
}

impl Model {
    /// The steps of a thread.
    pub(super) fn steps_of(&self, thread: u32) -> std::ops::Range<usize> {
        match self.of_thread.get(thread as usize..thread as usize + 2) {
            Some([from, to]) => *from as usize..*to as usize,
            _ => 0..0,
        }
    }

    /// Number of threads, including those of other programs.
    pub(super) fn threads(&self) -> u32 {
        self.of_thread.len().saturating_sub(1) as u32
    }

    /// Mean end of the threads that worked until a timer ended, weighted by the time that the changes take
    /// away from each. `None` if there are none.
    pub(super) fn when_timed_end(&self, ended: &[u64]) -> Option<u64> {
        let known = |timed: &Timed| ended.get(timed.thread as usize).copied().unwrap_or(timed.end);
        self.of_timed(known)
    }

    /// The same mean for the recorded ends.
    pub(super) fn when_timed_ended(&self) -> Option<u64> {
        self.of_timed(|timed| timed.end)
    }

    fn of_timed(&self, end: impl Fn(&Timed) -> u64) -> Option<u64> {
        let all: u64 = self.timed.iter().map(|timed| timed.taken_ns).sum();
        let weight = |timed: &Timed| if all == 0 { 1.0 } else { timed.taken_ns as f64 / all as f64 };
        let weights: f64 = self.timed.iter().map(weight).sum();
        let sum: f64 = self.timed.iter().map(|timed| weight(timed) * end(timed) as f64).sum();
        (!self.timed.is_empty()).then(|| (sum / weights) as u64)
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
