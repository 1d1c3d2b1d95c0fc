//! Number of threads of the program that were running, or runnable, in parallel.

use holdup_events::{Duration, Trace};

/// Parallelism over the whole recording and over time.
#[derive(Clone, Debug, Default)]
pub struct Parallelism {
    /// `running[n]` = time (ns) during which exactly n target threads ran.
    pub running_ns: Vec<u64>,
    /// `wanting[n]` = time (ns) during which exactly n target threads ran or waited for a CPU.
    pub wanting_ns: Vec<u64>,
    /// Mean running threads in each of equal steps of the recording.
    pub over_time: Vec<f32>,
    /// Length of a step.
    pub step: Duration,
}

/// Derives it.
pub fn derive(trace: &Trace) -> Parallelism {
    super::occupancy::derive(
        trace,
        &super::timelines::Timelines::derive(trace),
        &super::roles::Roles::built_in(trace),
    )
    .1
}

impl Parallelism {
    /// Mean number of target threads that ran.
    pub fn running_mean(&self) -> f64 {
        mean(&self.running_ns)
    }

    /// Thread time for which more target threads ran or waited for a CPU than there are (ns).
    pub fn beyond_ns(&self, cpus: u32) -> u64 {
        let beyond = |(count, ns): (usize, &u64)| (count as u64).saturating_sub(u64::from(cpus)) * ns;
        self.wanting_ns.iter().enumerate().map(beyond).sum()
    }

    /// Mean number of target threads that ran or waited for a CPU.
    pub fn wanting_mean(&self) -> f64 {
        mean(&self.wanting_ns)
    }
}

fn mean(time_ns: &[u64]) -> f64 {
    let total: u64 = time_ns.iter().sum();
    let weighted: f64 = time_ns.iter().enumerate().map(|(count, ns)| count as f64 * *ns as f64).sum();
    if total == 0 { 0.0 } else { weighted / total as f64 }
}
