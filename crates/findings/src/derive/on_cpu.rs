//! What an on-CPU sample shows: work, the kernel, or a wait that runs (`spin`).

use holdup_events::tables::{Frame, FrameSpin, SampleRow};
use holdup_events::{StackId, Trace};

use super::class::Class;
use super::stacks::folding::matches;
use super::syscall_names::SCHED_YIELD;
use crate::descriptors::{Descriptors, plain_name};

/// The class of each sample of a trace.
#[derive(Clone, Debug, Default)]
pub struct SampleClasses {
    /// By stack, for its leaf frame.
    spins: Vec<FrameSpin>,
}

impl SampleClasses {
    /// Evaluates each stack once. Descriptors define functions that work although they look like spin loops.
    pub fn new(trace: &Trace, descriptors: &Descriptors) -> SampleClasses {
        let works: Vec<&String> = descriptors.runtimes().iter().flat_map(|runtime| &runtime.works).collect();
        let waits = |frame: &&Frame| {
            let is_work = || {
                let name = plain_name(&frame.function);
                works.iter().any(|pattern| matches(pattern, &name))
            };
            frame.spin != FrameSpin::No && !is_work()
        };
        let spin =
            |frame: usize| trace.frames.get(frame).filter(waits).map_or(FrameSpin::No, |frame| frame.spin);
        let rows = trace.stacks.rows().iter().enumerate();
        let leaf = |(row, stack): (usize, &holdup_events::tables::StackRow)| {
            if row == StackId::NONE.index() { FrameSpin::No } else { spin(stack.frame.index()) }
        };
        SampleClasses { spins: rows.map(leaf).collect() }
    }

    /// Class of the time that a sample represents.
    pub fn class_of(&self, sample: &SampleRow) -> Class {
        match self.spin(sample) {
            FrameSpin::No if sample.in_kernel => Class::Kernel,
            FrameSpin::No => Class::Useful,
            _ => Class::Spin,
        }
    }

    /// Kind of spin loop of a sample.
    pub fn spin(&self, sample: &SampleRow) -> FrameSpin {
        if sample.in_kernel {
            // A thread that calls sched_yield in a loop polls for other threads.
            return if sample.syscall == SCHED_YIELD { FrameSpin::Yields } else { FrameSpin::No };
        }
        self.spins.get(sample.stack.index()).copied().unwrap_or_default()
    }
}
