//! Compact encoding of events: the payload of the journal's chunks.
//!
//! Integers are LEB128 varints, with zigzag for signed ones. Times are deltas to the previous event. Counters
//! are deltas to the same thread's previous value. A value that is predictable from earlier events takes one
//! bit (`foretold.rs`). All state is reset with each chunk, so each chunk decodes on its own.

mod bytes;
mod decode;
mod encode;
mod foretold;

pub use bytes::CodecError;
pub use decode::Decoder;
pub use encode::Encoder;

/// First byte of an event.
mod tag {
    // 1 and 2 were longer ones of these two.
    pub const SWITCH: u8 = 14;
    pub const WAKING: u8 = 15;
    pub const SAMPLE: u8 = 3;
    pub const STACK: u8 = 4;
    pub const LIFECYCLE: u8 = 5;
    pub const SNAPSHOT: u8 = 6;
    pub const MAPPING: u8 = 7;
    pub const LOSS: u8 = 8;
    pub const SYSCALL_COUNT: u8 = 9;
    pub const TELL: u8 = 10;
    pub const AFFINITY: u8 = 11;
    pub const CALLS: u8 = 12;
    pub const OBJECT_NAME: u8 = 13;
    pub const ALLOCATED: u8 = 16;
    pub const FREED: u8 = 17;
    pub const COUNTED: u8 = 18;
    pub const FAULT: u8 = 19;
    pub const WATCHED: u8 = 20;
    pub const TASK_WAIT: u8 = 21;
    pub const TASK_WINDOW: u8 = 22;
    /// A task wait with its channel.
    pub const CHANNEL_WAIT: u8 = 23;
}

/// Code of an [`crate::event::Outcome`], in the low bits of a switch's flags.
mod outcome {
    pub const UNTRACKED: u8 = 0;
    pub const PREEMPTED: u8 = 1;
    pub const YIELDED: u8 = 2;
    pub const THROTTLED: u8 = 3;
    pub const BLOCKED: u8 = 4;
    pub const DEAD: u8 = 5;
    /// Blocked. The run time by the run queue's clock equals the accounted run time.
    pub const BLOCKED_CLOCK_FORETOLD: u8 = 6;
    /// Not followed. The time by the run queue's clock is recorded.
    pub const UNTRACKED_WITH_CLOCK: u8 = 7;
    pub const MASK: u8 = 7;
    pub const HAS_EXEC: u8 = 8;
    pub const HAS_QUEUE: u8 = 16;
}

/// Bits of a wait's first byte. The bits above them hold the code of its [`crate::event::Timeout`].
mod wait_flag {
    pub const IN_IOWAIT: u8 = 1;
    pub const MMAP_LOCK: u8 = 2;
    pub const TIMEOUT_SHIFT: u8 = 2;
}

/// Flag next to a sample's kernel-mode bit: registers follow.
const SAMPLE_HAS_REGISTERS: u8 = 0x80;

/// Code of a [`crate::event::RuntimeEventKind`] in the low bits, a span's kind above.
mod runtime_event_code {
    pub const LANE_START: u8 = 0;
    pub const LANE_END: u8 = 1;
    pub const BEGIN: u8 = 2;
    pub const END: u8 = 3;
    pub const COUNTER: u8 = 4;
    pub const MARK: u8 = 5;
    pub const GAP: u8 = 6;
    pub const MASK: u8 = 7;
    pub const KIND_SHIFT: u8 = 3;
    /// The same lane reports as in the previous report of this chunk.
    pub const AGAIN: u8 = 1 << 7;
}

/// Code of a snapshot's state.
mod state {
    pub const RUNNING: u8 = 0;
    pub const RUNNABLE: u8 = 1;
    pub const BLOCKED: u8 = 2;
    pub const DEAD: u8 = 3;
    pub const UNTRACKED: u8 = 4;
}

#[cfg(test)]
#[path = "codec/tests.rs"]
mod tests;
