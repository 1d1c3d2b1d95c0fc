//! Stacks of threads that are blocked already when a recording begins (`bpf/snapshot.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "blocked-stacks",
    summary: "stacks of threads that are blocked when a recording begins",
    programs: &["on_blocked_stacks"],
    since: Linux(5, 18),
    attached: Attached::BySession,
    without: "threads that were blocked before have no stack until they block again",
};
