//! Waits of a runtime's tasks for locks and channels, which the kernel does not know. Probes are set where a task begins
//! to wait and where it continues (`bpf/tasks.h`), on functions that descriptors name.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "task-waits",
    summary: "waits of a runtime's tasks for locks and channels, such as goroutines at a sync.Mutex: object, start, and the task that ended the wait",
    programs: &["on_task"],
    since: Linux(5, 15),
    attached: Attached::AtFunctions,
    without: "locks that goroutines wait for are known only by the wakers of idle threads, channels are unknown",
};
