//! Waits of a runtime's tasks for locks, which the kernel does not know. Probes are set where a task begins
//! to wait and where it continues (`bpf/tasks.h`), on functions that descriptors name.

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
