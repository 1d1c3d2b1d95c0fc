//! What each CPU did over the recording.

use holdup_events::{CpuId, ProcessId, Trace};

/// One CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// Which.
    pub cpu: CpuId,
    /// Ran target threads (ns), stolen time excluded.
    pub target_ns: u64,
    /// Ran other threads.
    pub others_ns: u64,
    /// The hypervisor had it while a target thread was on it.
    pub stolen_ns: u64,
    /// Neither: idle, or not known.
    pub idle_ns: u64,
    /// Switches onto it of followed or foreign threads.
    pub switches: u64,
    /// Which foreign processes ran on it (ns), the longest first, at most 8.
    pub others: Vec<(ProcessId, u64)>,
}

/// Derives it for every CPU that was seen, by number.
pub fn derive(_trace: &Trace) -> Vec<CpuUse> {
    Vec::new()
}
