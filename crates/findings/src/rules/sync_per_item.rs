//! # sync-per-item: data is forced to the disk item by item
//!
//! ## Symptoms
//! Threads blocked in `fsync`, `fdatasync` and similar calls: how often, for how long, and whether a CPU was
//! idle at the same time.
//!
//! ## Why it hurts
//! A sync costs the device's full latency, a fraction of a millisecond to tens of them, however little data
//! it writes. A log that is synced for each line runs at the rate of syncs, not of lines.
//!
//! ## How it decides
//! Most of the threads' waits for the disk must be in syncs, and the syncs must be many. The syncing threads
//! must wait for them at least a third as long as they run. Threads that compute much between two syncs write
//! batches, not items. blocking-io judges their waits. The gain is computed as for blocking-io. Upper bound:
//! no thread waits, nor runs in the calls (sampled). Lower bound: each active thread overlaps its syncs with
//! its own computing.
//!
//! If a runtime's threads carry tasks (goroutines), a replay keeps the thread on which a task continued. Then
//! the upper bound is this one. A batch of n items makes the cost of syncs about n times smaller, so large
//! batches come close to the upper bound.
//!
//! ## What to do
//! Sync once for a batch of items (group commit): collect the items that arrive during a sync, and write them
//! with the next one. Or sync on a separate thread while the others continue.
//!
//! ## Blind spots
//! Files opened with `O_SYNC` or `O_DSYNC` pay the same for each write, but show as waits in `write`:
//! blocking-io names those. Fast syncs (a cache with power-loss protection) do not show. If the program
//! guarantees the durability of each item, only grouping helps.
//!
//! ## References
//! Linux `fsync(2)`. Helland, Sammer, Lyon et al.: Group commit timers and high volume transaction systems
//! (HPTS 1987).

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Trace};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::replay::{Change, Speed};
use crate::derive::syscall_names::is_sync_call;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::up_to_own_bound;
use crate::removal::{Removal, ran};
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Info, Rule};
use crate::scene::{DiskWaits, GAIN_MIN, Scene, syscall_text};
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    ..Info::new("sync-per-item", "Each item is synced to the disk, and threads wait for it")
};

/// Syncs for this share of the disk wait make them the cause.
const SYNC_SHARE_MIN: f64 = 0.5;

/// Fewer syncs than this are not one an item.
const SYNCS_MIN: u64 = 20;

/// Minimum share of syncs in the time that a thread runs or waits for syncs. With less, its work between two
/// syncs is more than an item.
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
    let syncing = threads.filter(|thread| {
        scene.trace.slices.of_thread(thread.thread).any(|slice| is_sync_wait(scene, &slice))
    });
    syncing.map(|thread| thread.running_ns()).sum()
}

pub(super) struct SyncPerItem;

impl Rule for SyncPerItem {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
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
            about: About::Calls(worst.name()),
            subject: format!("{} ({})", worst.name(), count(worst.waits, "wait")),
            summary: summary(scene, (waits, ns), cpu_ns),
            cost_ns: ns + cpu_ns,
            gain,
            likely: None,
            confidence: scene.confidence(Confidence::High),
            evidence: scene.longest(
                |slice| is_sync_wait(scene, slice),
                |slice| format!("waits in {}", syscall_text(scene.trace.wait(slice.wait).syscall)),
            ),
            advice: vec![
                "Sync once per batch of items (group commit), not once per item".into(),
                "Write and sync on a separate thread while the others continue".into(),
            ],
        };
        Ok(vec![Charged {
            finding,
            charge: Charge::matching(scene.trace, |slice| is_sync_wait(scene, slice)),
        }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        without_syncs(cause.trace())
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // One task's wait for the disk is the next task's, too. A replay keeps the thread of each.
        if is_of_tasks(cause) {
            return up_to_own_bound(cause, forecast);
        }
        forecast
    }
}

/// Removes the calls that force data to the disk. Upper bound: kernel threads do no work for them either.
fn without_syncs(trace: &Trace) -> Option<Removal> {
    let waits = Charge::matching(trace, |slice| {
        slice.state == ThreadState::Blocked && is_sync_call(trace.wait(slice.wait).syscall)
    });
    if waits.is_empty() {
        return None;
    }
    let calls = Speed::new(trace, 0.0, |sample| sample.in_kernel && is_sync_call(sample.syscall));
    let least = vec![Change::WithoutSlices(waits), ran(calls)];
    let mut most = least.clone();
    most.push(Change::WithoutKernelThreads);
    Some(Removal { least, most })
}

/// Whether most of the charged time are waits in programs with a runtime whose threads carry tasks.
fn is_of_tasks(cause: &Cause) -> bool {
    let (trace, charge) = (cause.trace(), cause.charge);
    let carries = |id: ThreadId| {
        let mut runtimes = cause.derived().roles.runtimes_in(trace.threads[id.index()].process);
        runtimes.any(|runtime| runtime.carries_tasks)
    };
    let of_tasks: u64 =
        charge.slices(trace).filter(|slice| carries(slice.thread)).map(|one| one.duration().0).sum();
    2 * of_tasks > charge.ns()
}

/// Minimum running time in the calls, as a share of the waiting, to be reported.
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
        lines.push(format!("The calls also took {} of CPU time (sampled).", time(cpu_ns)));
    }
    lines.extend(scene.waits_come_from(|slice| is_sync_wait(scene, slice)));
    lines.extend(scene.waits_are_for(|slice| is_sync_wait(scene, slice)));
    lines
}
