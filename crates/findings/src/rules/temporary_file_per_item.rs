//! # temporary-file-per-item: a file is made and removed again for each item
//!
//! ## Symptoms
//! Calls that make a file (`open` and `openat` with `O_CREAT`, `creat`) and calls that remove one (`unlink`, `unlinkat`). They are
//! counted throughout (`--syscalls`) or in short windows. Samples give their CPU time, and slices the time blocked in them.
//!
//! ## Why it hurts
//! The kernel takes an inode and a name for each file, and gives them back, under the lock of the directory. On a disk both go through
//! the file system's journal. Threads that share a directory wait for each other there, however small their files are. The data itself
//! often never leaves memory.
//!
//! ## How it decides
//! It counts the files that were made and those that were removed. The smaller count must be at least 20
//! and at least half of the larger one. The calls and the waits in them must take a tenth of the running time with these waits. The gain is that of a replay.
//! The lower end leaves out the waits and most of the calls that make and remove files. The upper end also leaves out the writing,
//! reading and closing of files in the same threads.
//!
//! ## What to do
//! Keep the data in memory: a buffer, `open_memstream`, or `memfd_create` where a library needs a descriptor. Or open one file per thread
//! and write it from its beginning for each item (`pwrite`, `ftruncate`). `O_TMPFILE` makes a file
//! without a name, which takes no lock of a directory. A directory per thread also avoids that lock.
//!
//! ## Blind spots
//! Names of files are not recorded: a program that makes as many files as it removes, but other ones, looks the same. Files that
//! `openat2` or io_uring opens, and renamed files, are not counted. Recordings of older versions have no flags of `open`.
//!
//! ## References
//! Linux `open(2)` (`O_TMPFILE`), `memfd_create(2)`. Linux, Documentation/filesystems/directory-locking.rst.

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ThreadId, Trace, WaitReason};

use crate::charge::Charge;
use crate::counted_calls;
use crate::derive::replay::Change;
use crate::derive::temporary_files::TemporaryFiles;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::removal::Removal;
use crate::removal::calls::fewer;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Explains, Info, Rule};
use crate::scene::{EVIDENCE_MAX, Scene, syscall_text};
use crate::wording::{count, percent, rounded, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    explains: &[
        // The waits are for the directory's lock and the journal, behind which the files are made.
        Explains::shared(&super::blocking_io::INFO),
    ],
    ..Info::new("temporary-file-per-item", "A file is made and removed again for each item")
};

/// Fewer files than this are not one per item.
const FILES_MIN: u64 = 20;

/// Minimum share of the files made or removed that are both. With less, most files are kept, or were there before.
const PART_MIN: f64 = 0.5;

/// Minimum share of the time in which threads run or wait in these calls.
const SHARE_MIN: f64 = 0.1;

/// Maximum number of threads that are named.
const LISTED_MAX: usize = 3;

/// CPU time (ns) of the calls, its error, and the waits in the calls.
struct Cost {
    cpu_ns: u64,
    error_ns: u64,
    waits: Charge,
}

/// The temporary files, if they are enough for one per item.
fn files<'a>(scene: &Scene<'a>) -> Option<&'a TemporaryFiles> {
    let files = &scene.derived.temporary_files;
    (files.count() >= FILES_MIN && files.part() >= PART_MIN).then_some(files)
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    let files = files(scene).filter(|files| files.is_mostly(syscall));
    files.is_some_and(|files| Cost::new(scene, files).is_much(scene))
}

impl Cost {
    fn new(scene: &Scene, files: &TemporaryFiles) -> Cost {
        let trace = scene.trace;
        let threads: Vec<ThreadId> = files.threads.iter().map(|(id, _)| *id).collect();
        let is_in_them = |slice: &Slice| {
            scene.class(slice).is_some()
                && threads.contains(&slice.thread)
                && files.is_mostly(trace.wait(slice.wait).syscall)
        };
        let of = |syscall: i32| scene.derived.syscalls.iter().find(move |call| call.number == syscall);
        let sum = |ns: fn(&crate::derive::syscalls::SyscallUse) -> u64| -> u64 {
            let calls = files.calls.iter().filter_map(|(syscall, part)| Some((of(*syscall)?, part)));
            calls.map(|(call, part)| (ns(call) as f64 * part) as u64).sum()
        };
        Cost {
            cpu_ns: sum(|call| call.cpu_ns),
            error_ns: sum(|call| call.cpu_error_ns),
            waits: Charge::matching(trace, is_in_them),
        }
    }

    fn ns(&self) -> u64 {
        self.cpu_ns + self.waits.ns()
    }

    fn is_much(&self, scene: &Scene) -> bool {
        let all = scene.derived.ledger.running_ns() + self.waits.ns();
        self.ns().saturating_sub(self.error_ns) as f64 >= SHARE_MIN * all.max(1) as f64
    }
}

pub(super) struct TemporaryFilePerItem;

impl Rule for TemporaryFilePerItem {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        counted_calls::needs_counts(scene)?;
        let Some(files) = files(scene) else { return Ok(Vec::new()) };
        let cost = Cost::new(scene, files);
        if !cost.is_much(scene) {
            return Ok(Vec::new());
        }
        let waited = scene.of_wall(scene.stall(&cost.waits).saved_ns);
        let high = (scene.of_wall_if_run(cost.cpu_ns as f64) + waited).min(1.0);
        let finding = Finding {
        rule: INFO.name,
        about: About::Other,
        subject: match files.makers.first() {
            Some((place, _)) => format!("temporary files of {place}"),
            None => "temporary files".to_owned(),
        },
        summary: summary(scene, files, &cost),
        cost_ns: cost.ns(),
        gain: Gain { low: 0.0, high },
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: evidence(scene, files, &cost),
        advice: vec![
            "Keep the data in memory: a buffer, open_memstream, or memfd_create where a descriptor is needed".into(),
            "Or open one file per thread, and write it from its beginning for each item".into(),
            "Where each item needs a file, open it with O_TMPFILE (no name, no lock of a directory), or use a directory per thread".into(),
        ],
    };
        Ok(vec![Charged { finding, charge: cost.waits }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        without_files(cause.trace(), &cause.derived().temporary_files, cause.charge)
    }
}

/// Removes the calls that make and remove temporary files, and the waits in them. Upper bound: so do writes,
/// reads and closes of these files.
fn without_files(trace: &Trace, files: &TemporaryFiles, waits: &Charge) -> Option<Removal> {
    let mut least = fewer(trace, &files.calls).unwrap_or_default().least;
    let mut most = fewer(trace, &files.contents).unwrap_or_default().most;
    least.push(Change::WithoutSlices(waits.clone()));
    let is_of_contents = |slice: &Slice| {
        let wait = trace.wait(slice.wait);
        let is_meant = files.contents.iter().any(|(syscall, part)| *syscall == wait.syscall && *part > 0.0);
        slice.state == ThreadState::Blocked
            && wait.reason == WaitReason::Disk
            && is_meant
            && files.threads.iter().any(|(id, _)| *id == slice.thread)
    };
    most.push(Change::WithoutSlices(Charge::matching(trace, is_of_contents).and(trace, waits)));
    Some(Removal { least, most })
}

fn summary(scene: &Scene, files: &TemporaryFiles, cost: &Cost) -> Vec<String> {
    let calls = &scene.derived.calls;
    let counted = match calls.exact {
        true => "all counted".to_owned(),
        false => format!("counted in {}", count(scene.derived.syscall_rates.windows, "short window")),
    };
    let names: Vec<&str> = files.calls.iter().map(|(syscall, _)| syscall_text(*syscall)).collect();
    let mut lines = vec![
        format!(
            "{} files per second are made and removed again ({counted}: {} made, {} removed).",
            rounded(files.count() as f64 / (calls.counted_ns.max(1) as f64 / 1e9)),
            files.made,
            files.removed,
        ),
        format!(
            "The calls that do so ({}) took {} of CPU time, {} of all. Threads were blocked in them for {}.",
            names.join(", "),
            time(cost.cpu_ns),
            percent(cost.cpu_ns as f64 / scene.derived.ledger.running_ns().max(1) as f64),
            time(cost.waits.ns()),
        ),
    ];
    let named = files.threads.iter().take(LISTED_MAX).map(|(id, _)| thread(scene.trace, *id));
    let more = files.threads.len().saturating_sub(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    lines.push(format!("By: {}{more}.", named.collect::<Vec<_>>().join(", ")));
    lines
}

/// The longest waits, and samples in the calls.
fn evidence(scene: &Scene, files: &TemporaryFiles, cost: &Cost) -> Vec<Evidence> {
    let said = |syscall| format!("in {}", syscall_text(syscall));
    let mut rows = scene.longest_of(&cost.waits, |slice| said(scene.trace.wait(slice.wait).syscall));
    rows.truncate(EVIDENCE_MAX / 2);
    let samples =
        scene.trace.samples.iter().filter(|sample| sample.in_kernel && files.is_mostly(sample.syscall));
    rows.extend(samples.take(EVIDENCE_MAX - rows.len()).map(|sample| Evidence {
        table: "samples",
        thread: sample.thread,
        start: sample.at,
        duration: Duration::ZERO,
        note: said(sample.syscall),
    }));
    rows
}
