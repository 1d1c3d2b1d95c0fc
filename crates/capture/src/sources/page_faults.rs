//! Page faults: the kernel's own counts of each thread, and stacks of some (`bpf/paging.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "page-faults",
    summary: "page faults of each thread, as the kernel counts them, and a sample of them with stacks",
    programs: &["on_counts", "on_minor_fault", "on_major_fault"],
    since: Linux(5, 15),
    attached: Attached::BySession,
    without: "page faults are known by samples of the CPU alone",
};
