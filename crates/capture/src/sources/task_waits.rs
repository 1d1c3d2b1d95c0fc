//! Waits of a runtime's tasks for locks, of which the kernel knows nothing: probes where one begins to wait and where one goes on
//! (`bpf/tasks.h`), as descriptors name the functions.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "task-waits",
    summary: "lock waits of a runtime's tasks, such as goroutines at a sync.Mutex: task, lock, start, and the task that released it",
    programs: &["on_task"],
    since: Linux(5, 15),
    attached: Attached::AtFunctions,
    without: "locks that goroutines wait for are known only by the wakers of idle threads",
};
