//! Answers of io_uring's operations that have many (`bpf/ring_operations.h`): all but the last, which is counted as the operation.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "ring-answers",
    summary: "answers of io_uring's multishot operations",
    programs: &["on_ring_answer", "on_ring_answer_by_fields"],
    since: Linux(6, 0),
    attached: Attached::OnDemand,
    without: "operations of io_uring that have many answers (multishot) are counted when they end",
};
