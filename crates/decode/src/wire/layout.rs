//! Field offsets in the records of `bpf/wire.h`.

use holdup_events::{CpuId, Timestamp};

/// Sizes of the structs of `bpf/wire.h`, in bytes.
pub mod size {
    /// `struct wire_header`
    pub const HEADER: usize = 16;
    /// `struct wire_switch`
    pub const SWITCH: usize = 32;
    /// `struct wire_switch_foreign`
    pub const SWITCH_FOREIGN: usize = SWITCH + 8;
    /// `struct wire_switch_out`
    pub const SWITCH_OUT: usize = 56;
    /// `struct wire_wait`
    pub const WAIT: usize = 48;
    /// `struct wire_switch_blocked`
    pub const SWITCH_BLOCKED: usize = SWITCH_OUT + WAIT;
    /// `struct wire_waking`
    pub const WAKING: usize = 48;
    /// `struct wire_sample`
    pub const SAMPLE: usize = 48;
    /// `struct wire_sample_user`
    pub const SAMPLE_USER: usize = SAMPLE + 16 * 8;
    /// `struct wire_stack` without its addresses
    pub const STACK: usize = 32;
    /// `struct wire_raw_stack` without the data after it
    pub const RAW_STACK: usize = 64;
    /// `struct wire_thread`
    pub const THREAD: usize = 56;
    /// `struct wire_snapshot`
    pub const SNAPSHOT: usize = 136;
    /// `struct wire_freed`
    pub const FREED: usize = HEADER + 16;
    /// `struct wire_allocated`
    pub const ALLOCATED: usize = FREED + 24;
    /// `struct wire_thread_counts`
    pub const THREAD_COUNTS: usize = HEADER + 32;
    /// `struct wire_fault`
    pub const FAULT: usize = HEADER + 32;
    /// `struct wire_counters`
    pub const COUNTERS: usize = HEADER + 16 + 8 * crate::hardware::VALUES;
    /// `struct wire_place`
    pub const PLACE: usize = HEADER + 16;
    /// `struct wire_task_wait`
    pub const TASK_WAIT: usize = HEADER + 72;
}

// `enum wire_kind`.
pub const KIND_SWITCH: u8 = 1;
pub const KIND_SWITCH_OUT: u8 = 2;
pub const KIND_SWITCH_BLOCKED: u8 = 3;
pub const KIND_WAKING: u8 = 4;
pub const KIND_SAMPLE: u8 = 5;
pub const KIND_STACK: u8 = 6;
pub const KIND_FORK: u8 = 7;
pub const KIND_EXEC: u8 = 8;
pub const KIND_RENAME: u8 = 9;
pub const KIND_EXIT: u8 = 10;
pub const KIND_SNAPSHOT: u8 = 11;
pub const KIND_RAW_STACK: u8 = 12;
pub const KIND_SNAPSHOT_STACK: u8 = 13;
pub const KIND_SAMPLE_USER: u8 = 14;
pub const KIND_ALLOCATED: u8 = 15;
pub const KIND_FREED: u8 = 16;
pub const KIND_THREAD_COUNTS: u8 = 17;
pub const KIND_FAULT: u8 = 18;
pub const KIND_PLACE: u8 = 19;
pub const KIND_COUNTERS: u8 = 20;
pub const KIND_TASK_WAIT: u8 = 21;

// Flags of the kinds in their names. Without a kind, flags of switches.
pub const FLAG_PREEMPT: u8 = 0x01;
pub const FLAG_THROTTLED: u8 = 0x02;
pub const FLAG_IN_IOWAIT: u8 = 0x04;
pub const FLAG_MMAP_LOCK: u8 = 0x08;
pub const FLAG_YIELD: u8 = 0x20;
pub const FLAG_SAMPLE_KERNEL: u8 = 0x01;
pub const FLAG_COUNTS_LAST: u8 = 0x01;
pub const FLAG_FAULT_MAJOR: u8 = 0x01;
pub const FLAG_FAULT_IN_KERNEL: u8 = 0x02;
pub const FLAG_PLACE_DISARMED: u8 = 0x01;
pub const FLAG_TASKS_CLOSED: u8 = 0x01;

// `enum wire_task_end`.
pub const TASK_RECEIVED: u32 = 1;
pub const TASK_SENT: u32 = 2;

/// EXIT_DEAD | EXIT_ZOMBIE | TASK_DEAD (include/linux/sched.h).
pub const STATE_DEAD: u32 = 0x10 | 0x20 | 0x80;

/// Little-endian fields by offset. Reads beyond the end give zero: callers check the length first.
pub struct Fields<'a>(pub &'a [u8]);

/// A record's kind, where it is known to have a header.
#[inline]
pub fn kind_of<const BYTES: usize>(record: &[u8; BYTES]) -> u8 {
    Fields(record).u8(14)
}

impl Fields<'_> {
    /// Eight bytes.
    #[inline]
    pub fn u64(&self, at: usize) -> u64 {
        self.0.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
    }

    /// One byte.
    #[inline]
    pub fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Four bytes with a sign.
    #[inline]
    pub fn i32(&self, at: usize) -> i32 {
        self.u32(at) as i32
    }

    /// The moment of a record.
    #[inline]
    pub fn at(&self) -> Timestamp {
        Timestamp(self.u64(0))
    }

    /// The CPU of a record.
    #[inline]
    pub fn cpu(&self) -> CpuId {
        CpuId(self.u16(12))
    }

    /// The flags of a record, which each kind has its own of.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.u8(15)
    }

    /// A name of up to 16 bytes, cut at the first zero.
    pub fn name(&self, at: usize) -> String {
        let bytes = self.0.get(at..at + 16).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
    }
}
