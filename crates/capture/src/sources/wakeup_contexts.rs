//! In which context a wakeup happens: a thread, a timer, a soft or a device interrupt (`bpf/sched.h`).
//! The programs at timers are taken away soon ([`crate::bpf::Session::settle`]).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "wakeup-contexts",
    summary: "whether a timer, a soft interrupt, a device or a thread made a wakeup",
    programs: &[
        "on_timer_begin",
        "on_timer_end",
        "on_softirq_raise",
        "on_softirq_begin",
        "on_softirq_end",
        "on_irq_begin",
        "on_irq_end",
    ],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "wakeups by interrupts are taken for wakeups by the thread that was interrupted",
};
