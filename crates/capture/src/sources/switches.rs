//! Every context switch with its reason, and every wakeup of a target with its waker (`bpf/sched.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "switches",
    summary: "context switches with their reason, wakeups with their waker",
    programs: &["on_switch", "on_switch_before_5_18", "on_waking"],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "",
};
