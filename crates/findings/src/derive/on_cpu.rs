//! What an on-CPU sample shows: work, the kernel, or a wait that runs (`spin`).

use holdup_events::tables::{FrameSpin, SampleRow};
use holdup_events::{StackId, Trace};

use super::class::Class;

/// `sched_yield` (x86-64): who calls it in a loop asks whether others are done.
const SCHED_YIELD: i32 = 24;

/// The class of each sample of a trace.
#[derive(Clone, Debug, Default)]
pub struct SampleClasses {
    /// Of each stack's leaf.
    spins: Vec<FrameSpin>,
}

impl SampleClasses {
    /// Looks at every stack once.
    pub fn new(trace: &Trace) -> SampleClasses {
        let spin = |frame: usize| trace.frames.get(frame).map_or(FrameSpin::No, |frame| frame.spin);
        let rows = trace.stacks.rows().iter().enumerate();
        let leaf = |(row, stack): (usize, &holdup_events::tables::StackRow)| {
            if row == StackId::NONE.index() { FrameSpin::No } else { spin(stack.frame.index()) }
        };
        SampleClasses { spins: rows.map(leaf).collect() }
    }

    /// The class of the time that a sample stands for.
    pub fn of(&self, sample: &SampleRow) -> Class {
        match self.spin(sample) {
            FrameSpin::No if sample.in_kernel => Class::Kernel,
            FrameSpin::No => Class::Useful,
            _ => Class::Spin,
        }
    }

    /// How it waits there.
    pub fn spin(&self, sample: &SampleRow) -> FrameSpin {
        if sample.in_kernel {
            return if sample.syscall == SCHED_YIELD { FrameSpin::Yields } else { FrameSpin::No };
        }
        self.spins.get(sample.stack.index()).copied().unwrap_or_default()
    }
}
