//! Contention of a process's `mmap_lock` (`bpf/sched.h`). Only contended acquisitions fire.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "mmap-lock",
    summary: "waits for the lock of a process's address space",
    programs: &["on_contention_begin", "on_contention_end"],
    since: Linux(5, 19),
    attached: Attached::Throughout,
    without: "waits for mmap_lock are counted as waits in the kernel",
};
