//! Syscalls counted exactly in short windows (`bpf/calls.h`). Outside of windows, syscalls are not slowed
//! down.

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "syscall-windows",
    summary: "how often each syscall is called, counted in short windows",
    programs: &["on_call_end"],
    since: Linux(5, 15),
    attached: Attached::BySession,
    without: "syscalls are sampled, but not counted",
};
