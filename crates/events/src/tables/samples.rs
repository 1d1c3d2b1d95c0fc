//! On-CPU samples.

use crate::wait::codes;
use crate::{CpuId, StackId, ThreadId, Timestamp};

codes! {
    /// What an instruction does with memory.
    ///
    /// Codes are stored in recordings: append, never renumber.
    AccessKind {
        /// Nothing that is known.
        None = 0 "none",
        /// It reads.
        Read = 1 "read",
        /// It writes.
        Write = 2 "write",
        /// It reads, then writes, and another CPU may come in between.
        Update = 3 "update",
        /// It reads and writes in one (`lock`, `xchg`).
        Atomic = 4 "atomic",
    }
}

impl AccessKind {
    /// It changes memory.
    pub fn writes(self) -> bool {
        matches!(self, AccessKind::Write | AccessKind::Update | AccessKind::Atomic)
    }
}

/// Memory that a thread touched with the instruction just before a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataAccess {
    /// How; none if the address could not be told.
    pub kind: AccessKind,
    /// Where it begins.
    pub address: u64,
    /// How many bytes.
    pub bytes: u8,
}

/// A register that moved only one way, from sample to sample of a thread at one place: it counts, walks through memory,
/// or stands for how far a loop has come in another way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Which: its number in machine code and one more (1 is rax); 0 if none does.
    pub register: u8,
    /// What was in it.
    pub value: u64,
}

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
    /// What memory it waited for, or had just touched: an estimate, since a sample comes an instruction late.
    pub data: DataAccess,
    /// How far the loop had come, where that memory was touched.
    pub counter: Counter,
}

/// All samples, sorted by thread, then time.
pub type Samples = Vec<SampleRow>;
