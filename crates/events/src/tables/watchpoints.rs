//! What hardware watchpoints saw of memory that threads share.

use crate::{ThreadId, Timestamp};

/// A thread's watchpoint on a few bytes, for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchpointRow {
    /// The thread whose accesses were watched.
    pub thread: ThreadId,
    /// When watching began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// The first byte.
    pub address: u64,
    /// How many bytes: 1, 2, 4 or 8.
    pub bytes: u32,
    /// Number of accesses by the thread in user mode. Watching stops after a few. On a cache line without a
    /// sampled write, only writes are watched and counted.
    pub hits: u64,
    /// CPU time of the thread while the watchpoint was set (ns), until the last hit if the maximum was
    /// reached.
    pub ran_ns: u64,
}
