//! The steps of a replayed program.

use crate::derive::class::Class;

/// What a thread does in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Runs for `arg` ns.
    Run,
    /// Is off the CPUs for `arg` ns, whatever others do: a timer, a disk, somebody outside.
    Away,
    /// Waits for `arg` ns before it can have a CPU, unless it has one: the kernel's own delays.
    Lag,
    /// Gives up its CPU and queues for one.
    Requeue,
    /// Waits for signal `arg`, unless it was sent.
    Await,
    /// Waits for signal `arg` from whoever held a lock.
    AwaitLock,
    /// Sends signal `arg`.
    Signal,
    /// Waits until all parties of meeting `arg` are there.
    Meet,
    /// Takes lock `arg`, once it is free.
    Take,
    /// Lets lock `arg` go.
    Give,
}

/// One step; 16 bytes, because there are more of them than slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When it began in the recording (ns since its start).
    pub at: u64,
    /// See [`Kind`].
    pub arg: u32,
    /// What is done.
    pub kind: Kind,
    /// Where its time goes.
    pub class: Class,
}

/// A program that can be replayed.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// `of_thread[t]..of_thread[t + 1]` are the steps of thread `t`; foreign threads have none.
    pub(super) of_thread: Vec<u32>,
    pub(super) steps: Vec<Step>,
    /// How many signals there are.
    pub(super) signals: u32,
    /// Parties of each meeting.
    pub(super) meetings: Vec<u32>,
    /// How many locks there are.
    pub(super) locks: u32,
    /// When other programs wanted a CPU, and for how long (ns), in time order.
    pub(super) others: Vec<(u64, u64)>,
    /// CPUs; as many as there are threads if nobody ever queues.
    pub(super) cpus: u32,
    /// A thread that has run for so long makes room for others (ns).
    pub(super) quantum_ns: u64,
    /// What the recording goes on for after the last step (ns).
    pub(super) tail_ns: u64,
    /// Thread time that the changes took away (ns).
    pub(super) taken_ns: u64,
    /// The part of it that samples tell (ns).
    pub(super) cut_ns: u64,
    /// Running time of all threads, with what is done by other CPUs in their stead (ns).
    pub(super) work_ns: u64,
}

impl Model {
    /// The steps of a thread.
    pub(super) fn of(&self, thread: u32) -> std::ops::Range<usize> {
        match self.of_thread.get(thread as usize..thread as usize + 2) {
            Some([from, to]) => *from as usize..*to as usize,
            _ => 0..0,
        }
    }

    /// How many threads there are, foreign ones included.
    pub(super) fn threads(&self) -> u32 {
        self.of_thread.len().saturating_sub(1) as u32
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// There is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
