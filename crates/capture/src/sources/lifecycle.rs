//! Births, names, programs and deaths of threads (`bpf/lifecycle.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "lifecycle",
    summary: "fork, exec, names and exit of every thread",
    programs: &["on_fork", "on_exec", "on_rename", "on_exit", "on_free"],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "",
};
