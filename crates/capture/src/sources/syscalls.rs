//! Every syscall counted exactly, with histograms (`bpf/calls.h`); each one is made slower by it.

use super::{Attached, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "syscalls",
    summary: "every syscall: counts, errors, times and sizes, by thread and object",
    programs: &["on_call_begin", "on_call_end"],
    attached: Attached::OnDemand,
    without: "syscalls are counted in short windows only",
};
