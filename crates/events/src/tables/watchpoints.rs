//! What hardware watchpoints saw of memory that threads share.

use crate::{ThreadId, Timestamp};

/// A thread's watchpoint on a few bytes, for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchpointRow {
    /// Whose accesses were watched.
    pub thread: ThreadId,
    /// When watching began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// The first byte.
    pub address: u64,
    /// How many bytes: 1, 2, 4 or 8.
    pub bytes: u32,
    /// How often the thread touched one of them in user mode; watching ends after a few. Of a line of which no sample is a write:
    /// how often it wrote to one of them, since these are watched for writes only.
    pub hits: u64,
    /// How long it ran meanwhile, until the last hit if these were enough (ns).
    pub ran_ns: u64,
}
