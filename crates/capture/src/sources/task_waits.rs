//! Waits of a runtime's tasks for locks, of which the kernel knows nothing: probes where one begins to wait and where one goes on
//! (`bpf/tasks.h`), as descriptors name the functions.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "task-waits",
    summary: "waits of a runtime's tasks for locks, such as goroutines' for a sync.Mutex: who, for which, since when, and who let it go",
    programs: &["on_task"],
    since: Linux(5, 15),
    attached: Attached::AtFunctions,
    without: "locks that goroutines wait for are known only by who wakes the threads that idle meanwhile",
};
