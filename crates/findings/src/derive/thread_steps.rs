//! Activity of each thread by time step: running, waiting for a CPU, blocked (exact), and in the kernel or
//! not (sampled).

use holdup_events::tables::ThreadState;
use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::samples_of;

/// Steps of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSteps {
    /// Start of the first step.
    pub start: Timestamp,
    /// Length of a step.
    pub step: Duration,
    /// The program's threads in the order of their ids, each with all steps.
    pub threads: Vec<(ThreadId, Vec<ThreadStep>)>,
}

/// A thread in one step (ns of it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadStep {
    /// On a CPU.
    pub running_ns: u64,
    /// Waiting for one.
    pub queue_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// Not known.
    pub unknown_ns: u64,
    /// Samples of it.
    pub samples: u64,
    /// Samples in the kernel.
    pub in_kernel: u64,
}

impl ThreadStep {
    /// Time in which the thread existed within the step (ns).
    pub fn life_ns(&self) -> u64 {
        self.running_ns + self.queue_ns + self.blocked_ns + self.unknown_ns
    }
}

/// Activity of every thread of the program in `steps` steps.
pub fn derive(trace: &Trace, steps: usize) -> ThreadSteps {
    let count = steps.max(1);
    let step = Duration(trace.wall().0.div_ceil(count as u64).max(1));
    let of = |thread: ThreadId| (thread, one(trace, thread, (step, count)));
    ThreadSteps { start: trace.start(), step, threads: trace.target_threads().map(of).collect() }
}

fn one(trace: &Trace, thread: ThreadId, (step, count): (Duration, usize)) -> Vec<ThreadStep> {
    let mut steps = vec![ThreadStep::default(); count];
    let from_start = |at: Timestamp| at.since(trace.start()).0;
    for slice in trace.slices.of_thread(thread) {
        let (mut at, to) = (from_start(slice.start), from_start(slice.end));
        while at < to {
            let number = at / step.0;
            let until = to.min((number + 1) * step.0);
            let Some(here) = steps.get_mut(number as usize) else { break };
            let sum = match slice.state {
                ThreadState::Running => &mut here.running_ns,
                ThreadState::Blocked => &mut here.blocked_ns,
                state if state.waits_for_cpu() => &mut here.queue_ns,
                _ => &mut here.unknown_ns,
            };
            *sum += until - at;
            at = until;
        }
    }
    for sample in samples_of(trace, thread) {
        if let Some(here) = steps.get_mut((from_start(sample.at) / step.0) as usize) {
            here.samples += 1;
            here.in_kernel += u64::from(sample.in_kernel);
        }
    }
    steps
}
