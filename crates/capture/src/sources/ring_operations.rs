//! Operations of io_uring, counted and timed where all syscalls are (`bpf/ring_operations.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "ring-operations",
    summary: "operations of io_uring: counts, errors, times and results, by thread",
    programs: &["on_ring_submit", "on_ring_submit_before_6_4", "on_ring_complete"],
    since: Linux(6, 0),
    attached: Attached::OnDemand,
    without: "operations of io_uring are not counted, only the calls that submit them",
};
