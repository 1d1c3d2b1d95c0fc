//! On-CPU samples.

use crate::{CpuId, StackId, ThreadId, Timestamp};

/// One sample as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRow {
    /// When.
    pub at: Timestamp,
    /// Who ran.
    pub thread: ThreadId,
    /// Where.
    pub cpu: CpuId,
    /// In kernel mode.
    pub in_kernel: bool,
    /// The syscall it was in, -1 if none.
    pub syscall: i32,
    /// With which stack (its leaf is the instruction pointer).
    pub stack: StackId,
}

/// All samples, sorted by thread, then time.
pub type Samples = Vec<SampleRow>;
