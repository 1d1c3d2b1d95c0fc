//! The locks that threads waited for.

use holdup_events::{ProcessId, ThreadId, Trace, WaitReason};

/// One lock (a futex word of one process, or a file's lock).
#[derive(Clone, Debug, Default)]
pub struct LockUse {
    /// Name for people: a symbol, else mapping + offset, else the address.
    pub name: String,
    /// Whose.
    pub process: ProcessId,
    /// Address or inode.
    pub object: u64,
    /// What kind of wait: only [`WaitReason::Lock`], [`WaitReason::FileLock`], [`WaitReason::MmapLock`].
    pub reason: WaitReason,
    /// Number of waits.
    pub waits: u64,
    /// Total time waited (ns).
    pub wait_ns: u64,
    /// Median wait (ns).
    pub p50_ns: u64,
    /// 99th percentile (ns).
    pub p99_ns: u64,
    /// Longest wait (ns).
    pub max_ns: u64,
    /// How many threads waited.
    pub waiters: u32,
    /// Who released it to waiters, most often first, at most 8: (thread, times).
    pub releasers: Vec<(ThreadId, u64)>,
    /// The functions that waited (outermost name that is not libc's), with their wait (ns, scaled by
    /// `stack_every`), most first, at most 5.
    pub waiting_at: Vec<(String, u64)>,
}

/// Derives every lock, the costliest first.
pub fn derive(_trace: &Trace) -> Vec<LockUse> {
    Vec::new()
}
