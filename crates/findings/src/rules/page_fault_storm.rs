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
//! function nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it went, and
//! the calls that give memory back; the lower end is 0, since memory that is used must be got once.
//! It is a hint, and comes behind what is surely lost, as long as nobody knows whether the work is needed. If the program
//! gives memory back all the time, too, and faults are a quarter of its running time, it gets the same memory again and again:
//! then the lower end is what goes by in giving it back, and the upper one counts the waits for the address space's lock, too.
//! How many faults a command had, and how much memory at the most, the kernel says when it ends: what it took beyond its peak it
//! surely took again, and that part of the faults counts for the lower end, too. Both ends are widened as forecasts are. Where most faults
//! had a disk read, it is silent: `mapped-file-faults` is about these.
//!
//! ## What to do
//! Keep memory and use it again in place of giving it back (`MALLOC_TRIM_THRESHOLD_`, `M_MMAP_THRESHOLD`, an arena, a pool of
//! buffers); use huge pages where much is touched (`madvise(MADV_HUGEPAGE)`); fill memory in advance (`MAP_POPULATE`).
//!
//! ## Blind spots
//! Names of the kernel's functions are needed: as an ordinary user they are hidden (`kernel.kptr_restrict`). What was
//! taken again is known of commands that were run, not of programs that were attached to, and not with several processes. Samples
//! of faults inside syscalls count as the syscall's; the kernel's count has them.
//!
//! ## References
//! Gorman: Understanding the Linux virtual memory manager. mallopt(3), madvise(2).

use holdup_events::WaitReason;
use holdup_events::tables::{FrameKind, ThreadState};

use super::{Info, Verdict, mapped_file_faults};
use crate::charge::Charge;
use crate::derive::occupancy::Stall;
use crate::derive::paging::FaultSite;
use crate::derive::services::{Service, ServiceUse, taken_again};
use crate::finding::{Confidence, Finding};
use crate::scene::Scene;
use crate::served::{self, Words};
use crate::wording::{percent, rounded, time};

pub(super) const INFO: Info = Info {
    name: "page-fault-storm",
    summary: "Much of the running time goes by getting memory from the kernel, page by page",
    of_waits_alone: false,
};

/// Who keeps memory gives none back: to return what was got by so many faults takes a tenth to a third of their time.
const RETURNS_MIN: f64 = 0.05;
/// With so much of the running time in faults, what else is done can hardly be what the memory is for.
const FAULTS_MUCH: f64 = 0.25;
/// Functions that are named with the count.
const SITES_MAX: usize = 2;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let kernel = || scene.trace.frames.iter().filter(|frame| frame.kind == FrameKind::Kernel);
    if kernel().next().is_some() && kernel().all(|frame| frame.function.is_empty()) {
        return Err("the kernel's functions have no names here (kernel.kptr_restrict)".to_owned());
    }
    // Who waits for files gets no memory by it.
    if mapped_file_faults::is_of_files(&scene.derived.paging) && scene.needs_wait_reasons().is_ok() {
        return Ok(Vec::new());
    }
    let words = Words {
        rule: INFO.name,
        doing: "in page faults",
        advice: vec![
            "Keep memory and use it again: a pool, an arena, MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_".into(),
            "Take it in larger pieces: huge pages (madvise), or filled in advance (MAP_POPULATE)".into(),
        ],
    };
    let mut findings = served::judge(scene, Service::Fault, words)?;
    for finding in &mut findings {
        finding.summary.extend(counted(scene));
    }
    let used = |service: Service| scene.derived.services.get(&service);
    if let (Some(faults), Some(returns)) = (used(Service::Fault), used(Service::Return)) {
        for finding in &mut findings {
            gets_it_again(scene, finding, (faults, returns));
        }
    }
    Ok(findings)
}

/// How many there were, and where most of them come from.
fn counted(scene: &Scene) -> Option<String> {
    let paging = &scene.derived.paging;
    if !paging.counted {
        return None;
    }
    let site = |site: &FaultSite| {
        format!("{} {} ± {}", site.function, percent(site.share), percent(site.share_error))
    };
    let sites: Vec<String> = paging.sites.iter().take(SITES_MAX).map(site).collect();
    let at = if sites.is_empty() { String::new() } else { format!("; in {}", sites.join(", ")) };
    let (all, major) = (rounded(paging.all.faults() as f64), rounded(paging.all.major as f64));
    Some(format!("{all} page faults, {major} of them from a disk (counted by the kernel){at}."))
}

/// The program gives memory back, and takes it again.
fn gets_it_again(scene: &Scene, finding: &mut Finding, (faults, returns): (&ServiceUse, &ServiceUse)) {
    let running = scene.derived.ledger.running_ns().max(1) as f64;
    let often = returns.samples as f64 >= RETURNS_MIN * faults.samples as f64;
    if !often || (faults.ns as f64) < FAULTS_MUCH * running {
        return;
    }
    finding.summary.push(format!(
        "{} ± {} more went by in giving memory back (munmap, madvise, brk): much of it is got again and again.",
        time(returns.ns),
        time(returns.error_ns),
    ));
    // Faults of one address space wait for each other, and for those who give back.
    let waits = Charge::of(scene.trace, |slice| {
        slice.state == ThreadState::Blocked && scene.trace.wait(slice.wait).reason == WaitReason::MmapLock
    });
    let of = |stall: &Stall| scene.gain(stall, |_, ns| ns);
    let (taking, giving, waiting) = (of(&faults.stall), of(&returns.stall), of(&scene.stall(&waits)));
    let again = taken_again(scene.trace);
    finding.summary.extend(again.map(|again| {
        format!("{} of all that was taken was taken more than once (counted by the kernel).", percent(again))
    }));
    finding.cost_ns += returns.ns + waits.ns();
    finding.gain.low = giving.low + taking.low * again.unwrap_or(0.0);
    finding.gain.high = (finding.gain.high + giving.high + waiting.high).min(1.0);
    finding.confidence = scene.confidence(Confidence::Medium);
}
