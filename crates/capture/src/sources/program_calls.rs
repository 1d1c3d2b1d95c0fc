//! What the kernel spends to call a program, tried out with one that does nothing (`bpf/trial.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "program-calls",
    summary: "what the kernel spends to call a program, tried out before the recording",
    programs: &["on_nothing"],
    since: Linux(5, 15),
    attached: Attached::BySession,
    without: "what the recording costs lacks what the kernel spends to call its programs",
};
