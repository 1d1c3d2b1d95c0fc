//! The ledger: where every thread-nanosecond went.

use holdup_events::{Duration, ThreadId, Trace};

use super::class::CLASSES;

/// Nanoseconds by class, indexed by `Class as usize`.
pub type ByClass = [u64; CLASSES];

/// Where the time went, of the traced program.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Sum of the lives of all target threads (ns). Equals the sum of `classes`.
    pub total_ns: u64,
    /// Of all target threads together.
    pub classes: ByClass,
    /// One standard error of `Useful` and `Kernel`, whose split is sampled (ns); 0 where exact.
    pub split_error_ns: u64,
    /// On-CPU samples that the split rests on.
    pub samples: u64,
    /// The run-queue class, by who had the CPU meanwhile.
    pub run_queue: RunQueueSplit,
    /// Each target thread, the longest-lived first.
    pub threads: Vec<ThreadLedger>,
}

/// Run-queue delay (ns) by what the CPU did meanwhile. Sums to the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunQueueSplit {
    /// Ran threads of the traced program.
    pub own_ns: u64,
    /// Ran others, kernel threads included.
    pub others_ns: u64,
    /// Throttled by the cgroup's CPU bandwidth.
    pub throttled_ns: u64,
    /// Idle, or not known: waking up, migrating, or lost.
    pub idle_ns: u64,
}

/// One thread's share.
#[derive(Clone, Debug)]
pub struct ThreadLedger {
    /// Whose.
    pub thread: ThreadId,
    /// Its life within the recording.
    pub life: Duration,
    /// Sums to `life`.
    pub classes: ByClass,
    /// As in [`Ledger::run_queue`].
    pub run_queue: RunQueueSplit,
    /// How often it was switched out because it blocked.
    pub blocked: u64,
    /// How often another thread took its CPU.
    pub preempted: u64,
    /// How often it came back on another CPU.
    pub migrations: u64,
}

/// Derives the ledger.
pub fn derive(_trace: &Trace) -> Ledger {
    Ledger::default()
}
