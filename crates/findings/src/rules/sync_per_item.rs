//! # sync-per-item: data is forced to the disk item by item
//!
//! ## What it sees
//! Threads blocked in `fsync`, `fdatasync` and their kin: how often, for how long, and whether a CPU was
//! idle meanwhile.
//!
//! ## Why it hurts
//! A sync costs the device's full latency, a fraction of a millisecond to tens of them, however little it
//! makes durable. A log that is synced for each line goes at the speed of syncs, not of lines.
//!
//! ## How it decides
//! It fires if most of the threads' waiting for the disk is in syncs, they are many, and the threads that
//! sync wait for that at least a third as long as they run. Threads that compute much between two syncs
//! make batches durable, not items: blocking-io judges their waits. The gain is counted as for blocking-io: at most that nobody had to
//! wait, nor ran in the calls (sampled); at least that each active thread overlapped its syncs with its own computing. Where a
//! runtime's threads carry tasks (goroutines), whose thread a task went on in is what a replay keeps: the upper end is this one
//! there. A batch of n items makes the cost of syncs about n times smaller, so
//! large batches come close to the upper end.
//!
//! ## What to do
//! Sync once for a batch of items (group commit): collect what arrives while the last sync runs, and make
//! it durable with the next. Or sync on a thread of its own while the others go on.
//!
//! ## Blind spots
//! Files opened with `O_SYNC` or `O_DSYNC` pay the same for each write, but show as waits in `write`:
//! blocking-io names those. Syncs that are fast (a cache that is safe against power loss) do not show.
//! Durability of each item by itself may be what the program promises; then only grouping helps.
//!
//! ## References
//! Linux `fsync(2)`. Helland, Sammer, Lyon et al.: Group commit timers and high volume transaction systems
//! (HPTS 1987).

use holdup_events::tables::Slice;

use super::{ChargedVerdict, Info};
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::syscall_names::is_sync_call;
use crate::finding::{Confidence, Finding};
use crate::merging::Charged;
use crate::scene::{DiskWaits, GAIN_MIN, Scene, syscall_said};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "sync-per-item",
    summary: "Data is forced to the disk item by item, and threads wait for it",
    of_waits_alone: true,
};

/// Syncs for this share of the disk wait make them the cause.
const SYNC_SHARE_MIN: f64 = 0.5;

/// Fewer syncs than this are not one an item.
const SYNCS_MIN: u64 = 20;

/// Of the time in which a thread runs or waits for syncs, this share in syncs: less, and what it does between two of
/// them is more than an item.
const SYNC_OF_WORK_MIN: f64 = 0.25;

fn is_sync(call: &DiskWaits) -> bool {
    is_sync_call(call.number)
}

/// Whether waiting for the disk is mostly for many syncs, with little work between them.
pub(super) fn is_it(scene: &Scene) -> bool {
    let calls = scene.disk_waits();
    let total: u64 = calls.iter().map(|call| call.ns).sum();
    let syncs = || calls.iter().filter(|call| is_sync(call));
    let ns: u64 = syncs().map(|call| call.ns).sum();
    syncs().map(|call| call.waits).sum::<u64>() >= SYNCS_MIN
        && ns as f64 >= SYNC_SHARE_MIN * total as f64
        && ns as f64 >= SYNC_OF_WORK_MIN * (ns as f64 + running_of_syncing(scene) as f64)
}

fn is_sync_wait(scene: &Scene, slice: &Slice) -> bool {
    scene.class(slice) == Some(Class::IoWait) && is_sync_call(scene.trace.wait(slice.wait).syscall)
}

/// Running time of the threads that wait for syncs (ns).
fn running_of_syncing(scene: &Scene) -> u64 {
    let threads = scene.derived.ledger.threads.iter();
    let syncing = threads
        .filter(|thread| scene.trace.slices.of(thread.thread).any(|slice| is_sync_wait(scene, &slice)));
    syncing.map(|thread| thread.running_ns()).sum()
}

pub(super) fn judge(scene: &Scene) -> ChargedVerdict {
    scene.needs_wait_reasons()?;
    let stall = &scene.derived.occupancy.io;
    if scene.of_wall(stall.saved_ns) < GAIN_MIN || !is_it(scene) {
        return Ok(Vec::new());
    }
    let calls = scene.disk_waits();
    let syncs: Vec<&DiskWaits> = calls.iter().filter(|call| is_sync(call)).collect();
    let Some(worst) = syncs.first() else { return Ok(Vec::new()) };
    let waits: u64 = syncs.iter().map(|call| call.waits).sum();
    let ns: u64 = syncs.iter().map(|call| call.ns).sum();
    let calls = scene.derived.syscalls.iter().filter(|call| is_sync_call(call.number));
    let cpu_ns: u64 = calls.map(|call| call.cpu_ns).sum();
    let mut gain = scene.gain(stall, |thread, waited| waited.min(thread.running_ns() as f64));
    gain.high = (gain.high + scene.of_wall_if_run(cpu_ns as f64)).min(1.0);
    let finding = Finding {
        rule: INFO.name,
        subject: format!("{} ({})", worst.name(), count(worst.waits, "wait")),
        summary: summary(scene, (waits, ns), cpu_ns),
        cost_ns: ns + cpu_ns,
        gain,
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: scene.longest(
            |slice| is_sync_wait(scene, slice),
            |slice| format!("waits in {}", syscall_said(scene.trace.wait(slice.wait).syscall)),
        ),
        advice: vec![
            "Sync once for a batch of items (group commit), not once an item".into(),
            "Write and sync on a thread of its own while the others go on".into(),
        ],
    };
    Ok(vec![Charged { finding, charge: Charge::of(scene.trace, |slice| is_sync_wait(scene, slice)) }])
}

/// So much of the waiting the calls must run for that it is told.
const CPU_TOLD: f64 = 0.1;

fn summary(scene: &Scene, (waits, ns): (u64, u64), cpu_ns: u64) -> Vec<String> {
    let mut lines = vec![format!(
        "Threads waited {} in syncs ({} of their time): {}, {} each on average.",
        time(ns),
        percent(scene.of_thread_time(ns)),
        count(waits, "wait"),
        time(ns / waits.max(1)),
    )];
    if cpu_ns as f64 > CPU_TOLD * ns as f64 {
        lines.push(format!("The calls took {} of CPU time besides (sampled).", time(cpu_ns)));
    }
    lines.extend(scene.waits_come_from(|slice| is_sync_wait(scene, slice)));
    lines.extend(scene.waits_are_for(|slice| is_sync_wait(scene, slice)));
    lines
}
