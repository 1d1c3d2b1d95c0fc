//! TLB shootdowns: CPUs interrupted to flush address translations, and the requesting threads
//! (`bpf/paging.h`).

use super::{Attached, Linux, Source};

/// See the module.
pub const SOURCE: Source = Source {
    name: "shootdowns",
    summary: "TLB shootdowns, by sender and by interrupted CPU",
    programs: &[
        "on_tlb_flush",
        "on_call_interrupt",
        "on_call_interrupt_end",
        "on_single_call_interrupt",
        "on_single_call_interrupt_end",
    ],
    since: Linux(5, 15),
    attached: Attached::Throughout,
    without: "shootdowns are not counted",
};
