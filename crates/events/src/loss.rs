//! Loss: what a source knows that it did not see. A row of the trace, never a line on stderr.

use crate::{CpuId, Timestamp};

/// Something that is missing from the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which source lost it: its registry name, kebab-case (`sched`, `cpu-samples`, `journal`, …).
    pub source: String,
    /// Why, as a kebab-case name (`ring-full`, `truncated`, `checksum`, `late`, `unreadable`, …).
    pub reason: String,
    /// The CPU concerned, [`CpuId::NONE`] for all.
    pub cpu: CpuId,
    /// No event of this source is missing before.
    pub start: Timestamp,
    /// No event of this source is missing after.
    pub end: Timestamp,
    /// Exact number of missing events, 0 if unknown.
    pub events: u64,
}

impl Loss {
    /// Reason of events for which the kernel skipped the BPF program, because the program was active on the CPU.
    pub const SKIPPED: &str = "not examined";
}
