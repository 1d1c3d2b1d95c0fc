//! # page-fault-storm: much of the time goes by getting memory from the kernel, page by page
//!
//! ## What it sees
//! Samples of the CPU in the kernel's page fault handler, and which functions of the program touched the memory.
//!
//! ## Why it hurts
//! The kernel gives memory when it is touched first, 4 KiB at a time: it finds a page, clears it and maps it, which takes as long as
//! a few hundred ordinary accesses. A program that gives memory back and takes it again pays each time, and all its threads meet at
//! the lock of their one address space and at the kernel's list of free pages.
//!
//! ## How it decides
//! A sample counts if the kernel's entry for page faults is on its stack and it is not in a syscall; it counts for the program's own
//! function nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it went;
//! the lower end is 0, since memory that is used must be got once.
//! It is a hint, and comes behind what is surely lost: whether the work is needed, only the reader knows.
//!
//! ## What to do
//! Keep memory and use it again in place of giving it back (`MALLOC_TRIM_THRESHOLD_`, `M_MMAP_THRESHOLD`, an arena, a pool of
//! buffers); use huge pages where much is touched (`madvise(MADV_HUGEPAGE)`); fill memory in advance (`MAP_POPULATE`).
//!
//! ## Blind spots
//! Names of the kernel's functions are needed: as an ordinary user they are hidden (`kernel.kptr_restrict`). How many faults
//! there were is not counted. Faults inside syscalls count as the syscall's.
//!
//! ## References
//! Gorman: Understanding the Linux virtual memory manager. mallopt(3), madvise(2).

use holdup_events::tables::FrameKind;

use super::{Info, Verdict};
use crate::derive::services::Service;
use crate::scene::Scene;
use crate::served::{self, Words};

pub(super) const INFO: Info = Info {
    name: "page-fault-storm",
    summary: "Much of the running time goes by getting memory from the kernel, page by page",
};

pub(super) fn judge(scene: &Scene) -> Verdict {
    let kernel = || scene.trace.frames.iter().filter(|frame| frame.kind == FrameKind::Kernel);
    if kernel().next().is_some() && kernel().all(|frame| frame.function.is_empty()) {
        return Err("the kernel's functions have no names here (kernel.kptr_restrict)".to_owned());
    }
    let words = Words {
        rule: INFO.name,
        doing: "in page faults",
        advice: vec![
            "Keep memory and use it again: a pool, an arena, MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_".into(),
            "Take it in larger pieces: huge pages (madvise), or filled in advance (MAP_POPULATE)".into(),
        ],
    };
    served::judge(scene, Service::Fault, words)
}
