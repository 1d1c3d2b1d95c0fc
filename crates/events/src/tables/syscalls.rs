//! Syscalls counted in short windows.

use crate::{ProcessId, Timestamp};

/// How often a process asked for a syscall in one window. A window in which nothing was called has one row, of
/// no process, syscall -1, count 0: so the windows' lengths can be summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyscallRow {
    /// The calling process, `None` if unknown.
    pub process: Option<ProcessId>,
    /// Number of the syscall.
    pub syscall: i32,
    /// When the window began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Exactly how often.
    pub count: u64,
    /// Time that counting added to each call (ns), 0 if unknown.
    pub cost_ns: u32,
}
