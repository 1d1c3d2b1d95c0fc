//! # blocking-io: threads wait for the disk while CPUs are idle
//!
//! ## What it sees
//! Threads blocked on the disk or a file system, in which syscall, and whether a CPU was idle meanwhile. If most of
//! this waiting is in `fsync` and its kin, it says so: something is made durable piece by piece.
//!
//! ## Why it hurts
//! A thread that waits for the disk computes nothing. If it is the one that the rest depends on, the whole program waits
//! at the speed of the device; a sync for each item pays the device's full latency each time.
//!
//! ## How it decides
//! As lock-contention does: at each moment it counts the threads that wait for the disk and the CPUs that are idle. The
//! upper end of the gain is that nobody had to wait; the lower end is that each active thread overlapped its waits
//! with its own computing, counted for the thread for which that saves least.
//!
//! ## What to do
//! Read ahead, write behind, and do I/O on other threads or with io_uring, so that it overlaps with computing; make
//! requests larger. For syncs: one for a batch of items (group commit), not one an item.
//!
//! ## Blind spots
//! Page faults that read mapped files are fault-wait, not seen here. Network file systems may wait as sockets do. The disk's
//! own limits are not seen: waits that overlap may each become longer.
//!
//! ## References
//! Linux `fsync(2)`, `readahead(2)`, `io_uring(7)`. Helland et al.: Group commit timers (HPTS 1987).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Info, Verdict};
use crate::derive::class::Class;
use crate::derive::syscall_names::syscall_name;
use crate::finding::{Confidence, Finding};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info =
    Info { name: "blocking-io", summary: "Threads wait for the disk while CPUs are idle" };

/// `msync`, `fsync`, `fdatasync`, `sync`, `sync_file_range`, `syncfs`.
const SYNCS: [i32; 6] = [26, 74, 75, 162, 277, 306];

/// Syncs for this share of the disk wait make them the cause.
const SYNC_SHARE_MIN: f64 = 0.5;

/// Fewer syncs than this are not one an item.
const SYNCS_MIN: u64 = 20;

/// So few waits may be chance.
const WAITS_SURE: u64 = 10;

pub(super) fn judge(scene: &Scene) -> Verdict {
    scene.needs_wait_reasons()?;
    let stall = &scene.derived.occupancy.io;
    if scene.of_wall(stall.saved_ns) < GAIN_MIN {
        return Ok(Vec::new());
    }
    let calls = calls(scene);
    let total: u64 = calls.iter().map(|(_, _, ns)| ns).sum();
    let times: u64 = calls.iter().map(|(_, times, _)| times).sum();
    let Some((worst, worst_times, worst_ns)) = calls.first().copied() else { return Ok(Vec::new()) };
    let (sync_times, sync_ns) = calls
        .iter()
        .filter(|(number, _, _)| SYNCS.contains(number))
        .fold((0, 0), |sums, (_, times, ns)| (sums.0 + times, sums.1 + ns));
    let per_item = sync_times >= SYNCS_MIN && sync_ns as f64 >= SYNC_SHARE_MIN * total as f64;
    let mut summary = vec![format!(
        "Threads waited {} for the disk ({} of their time), in {}; {} for {} of that.",
        time(total),
        percent(scene.of_thread_time(total)),
        count(times, "wait"),
        name(worst),
        percent(worst_ns as f64 / total.max(1) as f64),
    )];
    if per_item {
        summary.push(format!(
            "Syncs, piece by piece: {} of {} on average.",
            count(sync_times, "wait"),
            time(sync_ns / sync_times.max(1)),
        ));
    }
    let confidence = if times >= WAITS_SURE { Confidence::High } else { Confidence::Medium };
    Ok(vec![Finding {
        rule: INFO.name,
        subject: format!("{} ({})", name(worst), count(worst_times, "wait")),
        summary,
        cost_ns: total,
        gain: scene.gain(stall, |thread, waited| waited.min(thread.running_ns() as f64)),
        confidence: scene.confidence(confidence),
        evidence: scene.longest(
            |slice| scene.class(slice) == Some(Class::IoWait),
            |slice| format!("waits for the disk in {}", name(scene.trace.wait(slice.wait).syscall)),
        ),
        advice: advice(per_item),
    }])
}

fn advice(per_item: bool) -> Vec<String> {
    if per_item {
        return vec![
            "Sync once for a batch of items (group commit), not once an item".into(),
            "Write and sync on a thread of its own while the others go on".into(),
        ];
    }
    vec![
        "Overlap it with computing: read ahead, write behind, more requests at a time (threads, io_uring)"
            .into(),
        "Make fewer, larger requests".into(),
    ]
}

/// Syscall, times and time (ns) of target threads' waits for the disk, the longest first.
fn calls(scene: &Scene) -> Vec<(i32, u64, u64)> {
    let mut by_number: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    let slices = scene.trace.target_threads().flat_map(|thread| scene.trace.slices.of(thread));
    for slice in slices.filter(|slice| scene.class(slice) == Some(Class::IoWait)) {
        let sums = by_number.entry(scene.trace.wait(slice.wait).syscall).or_default();
        sums.0 += 1;
        sums.1 += slice.duration().0;
    }
    let mut calls: Vec<_> = by_number.into_iter().map(|(number, (times, ns))| (number, times, ns)).collect();
    calls.sort_by_key(|(number, _, ns)| (Reverse(*ns), *number));
    calls
}

fn name(number: i32) -> &'static str {
    match number {
        -1 => "page faults",
        number if number < 0 => "an unknown syscall",
        number => syscall_name(number),
    }
}
