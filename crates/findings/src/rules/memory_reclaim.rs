//! # memory-reclaim: memory is short, and evicted pages are read from the disk again
//!
//! ## Symptoms
//! Threads that must reclaim memory before they can allocate more, because their memory cgroup is at its
//! limit or the machine's memory is full. It also sees how long they wait for pages of files (or of swap)
//! that are not in memory. It reports the share of disk reads that had been in memory before.
//!
//! ## Why it hurts
//! A container's limit also counts the pages of files that it reads and maps. The program's working set of
//! these must fit below the limit together with its own memory. Otherwise the kernel evicts pages that are
//! needed next, and each use is a read from the disk. That takes a hundred microseconds or more instead of a
//! hundred nanoseconds. The program seems to wait for a slow disk.
//!
//! ## How it decides
//! Threads must repeatedly reclaim memory themselves (direct reclaim), and a large part of the concurrent
//! disk reads must have been in memory before. (The kernel counts both for the whole machine.) The upper
//! bound of the gain removes the waits for pages and the reclaim. It also removes the waits for the disk in
//! read calls in which memory was reclaimed. The lower bound is the part of the waits for data that had been
//! in memory before. If nearly all data is read for the first time, there is no finding. More memory does not
//! help a program that reads a large file once.
//!
//! ## What to do
//! Raise the limit (`memory.max`, `memory.high`, the container's memory limit). Or use less memory: smaller
//! caches of the program itself, fewer workers, adjacent records. Read large files that are used once without
//! the page cache (`O_DIRECT`, `posix_fadvise(POSIX_FADV_DONTNEED)`), so that they do not evict data that is
//! used again.
//!
//! ## Blind spots
//! The limit is the lowest of the cgroup and its parents, read about once a second. Which of them it is, is
//! not reported. Repeated reads are only known for the whole machine, and may belong to other programs. The
//! kernel's thread (kswapd) reclaims memory too. Allocations that it serves in time are not seen. Writes that
//! wait until other data is written are reported as waits for the disk.
//!
//! ## References
//! Linux `Documentation/admin-guide/cgroup-v2.rst` (memory), `mm/workingset.c` (definition of a refault).
//! Weiner: Thrash detection-based file cache sizing (LWN, 2012).

use std::collections::BTreeMap;

use holdup_events::WaitReason;
use holdup_events::tables::{CountKind, Slice, ThreadState};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::limits;
use crate::derive::paging::Paging;
use crate::derive::syscall_names::{moves_bytes, sends};
use crate::finding::{About, Confidence, Finding, Gain};
use crate::rule::{Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{bytes, count, percent, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Computed,
    explains: &[
        // The data that is read from the disk was in memory before.
        Explains::shared(&super::blocking_io::INFO),
    ],
    ..Info::new("memory-reclaim", "Memory is short: dropped pages are read from the disk again")
};

/// Fewer times are no shortage.
const RECLAIMS_MIN: u64 = 50;
/// Minimum share of the reads that had been in memory before. With less, more memory would not help.
const AGAIN_MIN: f64 = 0.2;
/// With this part it is what the waits are for.
const AGAIN_MUCH: f64 = 0.5;
/// Calls with less than this part of the taking back only come by.
const CALL_MIN: f64 = 0.01;

pub(super) struct MemoryReclaim;

impl Rule for MemoryReclaim {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let paging = &scene.derived.paging;
        if !is_short(paging) {
            return Ok(Vec::new());
        }
        let (all, again) = (&paging.all, read_again(paging));
        let charge = Charge::matching(scene.trace, |slice| is_for_memory(scene, slice));
        let stall = scene.stall(&charge);
        let waits = scene.gain_whoever_ran(&stall, |thread, waited| waited.min(thread.running_ns() as f64));
        let taking = scene.of_wall_if_run(all.reclaim_ns() as f64);
        let gain = Gain { low: waits.low * again, high: (waits.high + taking).min(1.0) };
        if gain.high < GAIN_MIN {
            return Ok(Vec::new());
        }
        let waited_ns = charge.slices(scene.trace).map(|slice| slice.duration().0).sum::<u64>();
        let finding = Finding {
            rule: INFO.name,
            about: About::Other,
            subject: subject(scene),
            summary: summary(scene, waited_ns),
            // A thread may wait for a page during reclaim. No time counts twice.
            cost_ns: waited_ns.max(all.reclaim_ns()),
            gain,
            likely: None,
            confidence: scene.confidence(match again >= AGAIN_MUCH {
                true => Confidence::High,
                false => Confidence::Low,
            }),
            evidence: scene.longest_of(&charge, |_| "waits for a page that is not in memory".to_owned()),
            advice: advice(paging),
        };
        Ok(vec![Charged { finding, charge }])
    }
}

/// Whether memory is reclaimed repeatedly, and a large part of the reads had been in memory before.
pub(super) fn is_short(paging: &Paging) -> bool {
    let all = &paging.all;
    all.limit_reclaims + all.direct_reclaims >= RECLAIMS_MIN && read_again(paging) >= AGAIN_MIN
}

/// The share of the reads that had been in memory before (0 to 1).
fn read_again(paging: &Paging) -> f64 {
    match paging.disk_read_bytes {
        0 => 0.0,
        read => (paging.refault_bytes as f64 / read as f64).min(1.0),
    }
}

/// Whether the slice is a fault that reads from a disk. Also true for a wait for the disk in a read call in
/// which memory had to be reclaimed.
fn is_for_memory(scene: &Scene, slice: &Slice) -> bool {
    let wait = scene.trace.wait(slice.wait);
    let in_call = || {
        let paging = &scene.derived.paging;
        let least = CALL_MIN * paging.all.reclaim_ns() as f64;
        let mut calls = paging.reclaimed_in.iter().filter(|(_, ns)| *ns as f64 >= least);
        moves_bytes(wait.syscall)
            && !sends(wait.syscall)
            && scene.class(slice) == Some(Class::IoWait)
            && calls.any(|(call, _)| *call == wait.syscall)
    };
    slice.state == ThreadState::Blocked && (wait.reason == WaitReason::Fault || in_call())
}

/// The process with the most such time.
fn subject(scene: &Scene) -> String {
    let mut by_process: BTreeMap<&str, u64> = BTreeMap::new();
    for (thread, counts) in &scene.derived.paging.threads {
        let process = scene.trace.threads[thread.index()].process;
        *by_process.entry(scene.trace.process_name(process)).or_default() += counts.reclaim_ns();
    }
    let most = by_process.iter().max_by_key(|(name, ns)| (**ns, std::cmp::Reverse(**name)));
    let name = most.map_or("the program", |(name, _)| name);
    match at_limit(&scene.derived.paging) {
        true => format!("{name}, at its memory cgroup's limit"),
        false => format!("{name}, where the machine's memory is full"),
    }
}

fn at_limit(paging: &Paging) -> bool {
    paging.all.limit_reclaim_ns >= paging.all.direct_reclaim_ns
}

fn summary(scene: &Scene, waited_ns: u64) -> Vec<String> {
    let paging = &scene.derived.paging;
    let all = &paging.all;
    let threads =
        paging.threads.iter().filter(|(_, counts)| counts.limit_reclaims + counts.direct_reclaims > 0);
    let why = match at_limit(paging) {
        true => "because their memory cgroup was at its limit",
        false => "because the machine's memory was full",
    };
    let mut summary = vec![
        format!(
            "{} reclaimed memory {} before an allocation succeeded, {why}: {} in total.",
            count(threads.count() as u64, "thread"),
            count(all.limit_reclaims + all.direct_reclaims, "time"),
            time(all.reclaim_ns()),
        ),
        format!(
            "They waited {} ({} of their time) for pages that were not in memory.",
            time(waited_ns),
            percent(scene.of_thread_time(waited_ns)),
        ),
        format!(
            "The machine read {} from disks during that time. {} had been in memory before (refaults).",
            bytes(paging.disk_read_bytes),
            bytes(paging.refault_bytes),
        ),
    ];
    if at_limit(paging)
        && let Some(limit) = limits::tightest(scene.trace, CountKind::MemoryLimit)
    {
        summary.push(format!("The cgroup's limit is {}, page cache included.", bytes(limit)));
    }
    summary.extend(scene.waits_come_from(|slice| is_for_memory(scene, slice)));
    summary
}

fn advice(paging: &Paging) -> Vec<String> {
    let more = match at_limit(paging) {
        true => {
            "Raise the memory limit of its cgroup or container: the page cache of its files counts as well"
        }
        false => "Give the machine more memory, or run fewer other programs",
    };
    vec![
        more.to_owned(),
        "Or use less at a time: smaller caches, fewer workers, related data in one place".to_owned(),
        "Bypass the page cache for large files that are read once (O_DIRECT, POSIX_FADV_DONTNEED)".to_owned(),
    ]
}
