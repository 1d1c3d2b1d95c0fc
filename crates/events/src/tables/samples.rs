//! On-CPU samples.

use crate::wait::codes;
use crate::{CpuId, StackId, ThreadId, Timestamp};

codes! {
    /// How an instruction accesses memory.
    ///
    /// Codes are stored in recordings: append, never renumber.
    AccessKind {
        /// Nothing that is known.
        None = 0 "none",
        /// A read.
        Read = 1 "read",
        /// A write.
        Write = 2 "write",
        /// A read and then a write. Another CPU may write in between.
        Update = 3 "update",
        /// An atomic read and write (`lock`, `xchg`).
        Atomic = 4 "atomic",
    }
}

impl AccessKind {
    /// Whether the access changes memory.
    pub fn writes(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::Update | AccessKind::Atomic)
    }
}

/// Memory that a thread touched with the instruction just before a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataAccess {
    /// Kind of access, none if the address is unknown.
    pub kind: AccessKind,
    /// Where it begins.
    pub address: u64,
    /// How many bytes.
    pub bytes: u8,
}

/// A register that changed monotonically from sample to sample of a thread at one place. It counts, walks
/// through memory, or measures the progress of a loop in another way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Register number in machine code plus one (1 is rax), 0 if no register does.
    pub register: u8,
    /// Value of the register.
    pub value: u64,
}

/// One sample as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRow {
    /// When.
    pub at: Timestamp,
    /// The running thread.
    pub thread: ThreadId,
    /// Where.
    pub cpu: CpuId,
    /// In kernel mode.
    pub in_kernel: bool,
    /// The syscall it was in, -1 if none.
    pub syscall: i32,
    /// With which stack (its leaf is the instruction pointer).
    pub stack: StackId,
    /// Memory that the thread waited for or had just touched. An estimate, because a sample arrives one
    /// instruction late.
    pub data: DataAccess,
    /// How far the loop had come, where that memory was touched.
    pub counter: Counter,
}

/// All samples, sorted by thread, then time.
pub type Samples = Vec<SampleRow>;
