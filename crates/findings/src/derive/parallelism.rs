//! How many threads of the program ran, or wanted to, at once.

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
pub fn derive(_trace: &Trace) -> Parallelism {
    Parallelism::default()
}
