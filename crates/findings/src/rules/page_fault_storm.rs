//! # page-fault-storm: much of the time is spent getting memory from the kernel, page by page
//!
//! ## Symptoms
//! CPU samples in the kernel's page fault handler, and the functions of the program that touched the memory.
//!
//! ## Why it hurts
//! The kernel provides memory at its first touch, 4 KiB at a time: it finds a page, clears it and maps it.
//! This takes as long as a few hundred ordinary accesses. A program that frees memory to the kernel and
//! allocates it again pays each time. All its threads contend for the lock of their address space and for the
//! kernel's list of free pages.
//!
//! ## How it decides
//! A sample counts if the kernel's entry for page faults is on its stack and it is not in a syscall. It
//! counts for the nearest function of the program itself. The rule reports at least 8 % of the running time.
//! The upper bound of the gain removes all of it, and the calls that free memory. The lower bound is 0,
//! because used memory must be allocated once.
//!
//! The finding is a hint, and ranks after certain losses, as long as it is not known whether the work is
//! necessary. If the program also frees memory all the time, and faults are a quarter of its running time, it
//! allocates the same memory repeatedly. Then the lower bound is the time spent freeing it, and the upper
//! bound includes the waits for the address space's lock. The kernel reports a command's faults and peak
//! memory when the command exits. Memory beyond the peak was certainly allocated again, and that share of the
//! faults counts for the lower bound too. Both bounds are widened like forecasts. If most faults read from a
//! disk, there is no finding, because `mapped-file-faults` reports these.
//!
//! ## What to do
//! Keep memory and reuse it instead of freeing it (`MALLOC_TRIM_THRESHOLD_`, `M_MMAP_THRESHOLD`, an arena, a
//! pool of buffers). Use huge pages for large working sets (`madvise(MADV_HUGEPAGE)`). Populate memory in
//! advance (`MAP_POPULATE`).
//!
//! ## Blind spots
//! The rule needs the names of kernel functions, which are hidden from ordinary users
//! (`kernel.kptr_restrict`). Repeated allocation is known for commands started by holdup, not for attached
//! programs, and not with several processes. Samples of faults inside syscalls count as the syscall's. The
//! kernel's count includes them.
//!
//! ## References
//! Gorman: Understanding the Linux virtual memory manager. mallopt(3), madvise(2).

use holdup_events::WaitReason;
use holdup_events::tables::{FrameKind, ThreadState};

use super::mapped_file_faults;
use crate::charge::Charge;
use crate::derive::occupancy::Stall;
use crate::derive::paging::FaultSite;
use crate::derive::services::{Service, ServiceUse, taken_again};
use crate::finding::{Confidence, Finding};
use crate::rule::{ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};
use crate::wording::{percent, rounded, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Computed,
    may_be_needed: true,
    ..Info::new("page-fault-storm", "Much of the CPU time is spent in page faults")
};

/// Minimum share of the faults' time that is spent freeing memory. A program that keeps memory frees none.
/// Freeing the memory of the counted faults takes a tenth to a third of their time.
const RETURNS_MIN: f64 = 0.05;
/// Minimum share of the running time in faults for a likely finding. The memory is then hardly for the other
/// work.
const FAULTS_MUCH: f64 = 0.25;
/// Functions that are named with the count.
const SITES_MAX: usize = 2;

pub(super) struct PageFaultStorm;

impl Rule for PageFaultStorm {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let kernel = || scene.trace.frames.iter().filter(|frame| frame.kind == FrameKind::Kernel);
    if kernel().next().is_some() && kernel().all(|frame| frame.function.is_empty()) {
        return Err("kernel symbols are not available (kernel.kptr_restrict)".to_owned());
    }
    // Threads that wait for files do not allocate memory by it.
    if mapped_file_faults::is_of_files(&scene.derived.paging) && scene.needs_wait_reasons().is_ok() {
        return Ok(Vec::new());
    }
    let words = Words {
        rule: INFO.name,
        doing: "page faults",
        advice: vec![
            "Keep memory and reuse it: a pool, an arena, MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_"
                .into(),
            "Map it in larger pieces: huge pages (madvise), or prefaulted (MAP_POPULATE)".into(),
        ],
    };
    let mut findings = service_findings::judge(scene, Service::Fault, words)?;
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
    let at = if sites.is_empty() { String::new() } else { format!(", in {}", sites.join(", ")) };
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
        "Returning memory to the kernel (munmap, madvise, brk) took another {} ± {}: much of it is mapped again and again.",
        time(returns.ns),
        time(returns.error_ns),
    ));
    // Faults of one address space wait for each other, and for those who give back.
    let waits = Charge::matching(scene.trace, |slice| {
        slice.state == ThreadState::Blocked && scene.trace.wait(slice.wait).reason == WaitReason::MmapLock
    });
    let of = |stall: &Stall| scene.gain(stall, |_, ns| ns);
    let (taking, giving, waiting) = (of(&faults.stall), of(&returns.stall), of(&scene.stall(&waits)));
    let again = taken_again(scene.trace);
    finding.summary.extend(again.map(|again| {
        format!("{} of all mapped pages were mapped more than once (counted by the kernel).", percent(again))
    }));
    finding.cost_ns += returns.ns + waits.ns();
    finding.gain.low = giving.low + taking.low * again.unwrap_or(0.0);
    finding.gain.high = (finding.gain.high + giving.high + waiting.high).min(1.0);
    finding.confidence = scene.confidence(Confidence::Medium);
}
