//! Allocations that a library in the program draws (`preload/allocs.c`), with their stacks, and their ends (`bpf/allocs.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "allocations",
    summary: "a sample of the bytes allocated, with the stacks of allocation and free",
    programs: &["on_allocated", "on_freed"],
    since: Linux(5, 15),
    attached: Attached::AtMarkers,
    without: "nothing is known of allocations",
};
