//! Memory that threads take back themselves before they get more (`bpf/reclaim.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "reclaims",
    summary: "threads that reclaim memory before an allocation succeeds: at a memory cgroup's limit, or when the machine's memory is full",
    programs: &["on_limit_reclaim", "on_limit_reclaim_end", "on_direct_reclaim", "on_direct_reclaim_end"],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "it is not known whether memory was short",
};
