//! Tasks of a runtime (goroutines) that waited for a lock or a channel, of which the kernel knows nothing.

use crate::{ProcessId, StackId, ThreadId, Timestamp};

/// One wait, as far as it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWaitRow {
    /// The task's thread when it began to wait, or the waker's thread if unknown.
    pub thread: ThreadId,
    /// When it began, or looking did.
    pub start: Timestamp,
    /// When the wait was ended by a waker, or recording of task waits ended. The task may continue later.
    pub end: Timestamp,
    /// Address of the lock or channel waited for, 0 if the wait began before recording of task waits.
    pub object: u64,
    /// Stack at the start of the wait, [`StackId::NONE`] if unknown.
    pub stack: StackId,
    /// The thread that ended the wait. `None` if no wakeup was recorded.
    pub waker: Option<ThreadId>,
    /// Stack of the waker, [`StackId::NONE`] if unknown.
    pub waker_stack: StackId,
    /// The channel waited at. `None` if the wait is for a lock.
    pub channel: Option<ChannelWait>,
}

/// A wait of a task at a channel, which another task ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelWait {
    /// The task waited to send, until the other task received. False: the reverse.
    pub sends: bool,
    /// Identity of the task that waited. A runtime may reuse it after the task's end.
    pub task: u64,
    /// Identity of the task that ended the wait.
    pub waker_task: u64,
    /// Number of items that the channel can hold. 0 if it has no buffer.
    pub slots: u32,
    /// Size of an item in bytes. 0 if items have no content.
    pub item_bytes: u32,
}

/// An interval of the recording in which all task waits of a process that lie within it were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskWindowRow {
    /// The process of the tasks.
    pub process: ProcessId,
    /// When looking began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
}

/// Task waits, and the windows in which they were recorded. If waits are frequent, recording pauses between
/// windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskWaits {
    /// In the order of the ends.
    pub rows: Vec<TaskWaitRow>,
    /// In the order of the ends.
    pub windows: Vec<TaskWindowRow>,
}
