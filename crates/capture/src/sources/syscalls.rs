//! Every syscall counted and timed (`bpf/calls.h`), which slows down each one. The program is the one of the
//! windows, attached throughout.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "syscalls",
    summary: "every syscall: counts, errors, times and sizes, by thread and object",
    programs: &["on_call_begin"],
    since: Linux(5, 15),
    attached: Attached::OnDemand,
    without: "syscalls are counted in short windows only",
};
