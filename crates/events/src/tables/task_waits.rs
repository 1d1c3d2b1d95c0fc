//! Tasks of a runtime (goroutines) that waited for a lock, of which the kernel knows nothing.

use crate::{ProcessId, StackId, ThreadId, Timestamp};

/// One wait, as far as it was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWaitRow {
    /// The thread that the task was on when it began to wait; if that is not known, the one that made it go on.
    pub thread: ThreadId,
    /// When it began, or looking did.
    pub start: Timestamp,
    /// When it was made to go on, or looking ended; a thread may take it up later.
    pub end: Timestamp,
    /// Address of what it waited for; 0 if it began before looking did.
    pub object: u64,
    /// Where it began; [`StackId::NONE`] if that is not known.
    pub stack: StackId,
    /// Who made it go on; nobody, as long as it was looked at.
    pub waker: Option<ThreadId>,
    /// ... and where; [`StackId::NONE`] if that is not known.
    pub waker_stack: StackId,
}

/// A stretch of the recording in which all waits of a process' tasks were told that lie within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWindowRow {
    /// Whose tasks.
    pub process: ProcessId,
    /// When looking began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
}

/// Waits of tasks, and when they were looked for. Where they are many, that is now and then: nothing is known of what was between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskWaits {
    /// In the order of the ends.
    pub rows: Vec<TaskWaitRow>,
    /// In the order of the ends.
    pub windows: Vec<TaskWindowRow>,
}
