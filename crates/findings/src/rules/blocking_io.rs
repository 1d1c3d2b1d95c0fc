//! # blocking-io: threads wait for the disk while CPUs are idle
//!
//! ## Symptoms
//! Threads blocked on the disk or a file system, their syscalls, and idle CPUs at the same time.
//!
//! ## Why it hurts
//! A thread that waits for the disk computes nothing. If the rest of the program depends on it, the whole
//! program waits at the speed of the device.
//!
//! ## How it decides
//! Like lock-contention, it counts at each moment the threads that wait for the disk and the CPUs that are
//! not used by the program. The upper bound of the gain is that no thread had to wait. The lower bound is
//! that each active thread overlapped its waits with its own computing, counted for the thread with the
//! smallest saving. If most waits are many syncs with little work between them, there is no finding, because
//! sync-per-item judges those.
//!
//! A wait in io_uring_enter is a disk wait if the process's requests are seen to go to the disk. With eight
//! requests or more per call they overlap already, and the finding is a hint. With fewer, the upper bound
//! includes the time of the calls, because more requests at a time need fewer calls. A single wait that may
//! gain nothing is a hint too, because another run may not have it.
//!
//! ## What to do
//! Read ahead, write behind, and do I/O on other threads or with io_uring, so that it overlaps with
//! computing. Make requests larger.
//!
//! ## Blind spots
//! The first 1,024 awaited files have names. Other files are not reported. Page faults that read mapped files
//! are fault-wait, and not included here. Network file systems may wait as sockets do. The disk's own limits
//! are not known: overlapping waits may each become longer.
//!
//! ## References
//! Linux `readahead(2)`, `posix_fadvise(2)`, `io_uring(7)`.

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::replay::Change;
use crate::derive::syscall_names::IO_URING_ENTER;
use crate::finding::{About, Confidence, Finding, Gain};
use crate::gains::{SURELY, narrowed};
use crate::removal::Removal;
use crate::removal::calls;
use crate::rings;
use crate::rule::{Cause, Charged, ChargedVerdict, Estimate, Info, Rule};
use crate::scene::{GAIN_MIN, Scene, syscall_text};
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    waits_only: true,
    estimate: Estimate::Replayed,
    is_of_outside: true,
    ..Info::new("blocking-io", "Threads wait for the disk while CPUs are idle")
};

/// Minimum number of waits for a sure finding. Fewer may be chance.
const WAITS_SURE: u64 = 10;

/// Minimum number of requests per call that keeps a disk busy.
const BATCH_MIN: f64 = 8.0;

/// Requests that go with each call of this name, if it is one that takes several.
fn batch(derived: &Derived, name: &str) -> Option<f64> {
    (name == syscall_text(IO_URING_ENTER)).then(|| derived.calls.requests_each()).flatten()
}

/// Whether a call of this name takes fewer requests than keep a disk busy: with more, there would be fewer calls.
pub(super) fn asks_one_by_one(derived: &Derived, name: &str) -> bool {
    batch(derived, name).is_some_and(|each| each < BATCH_MIN)
}

pub(super) struct BlockingIo;

impl Rule for BlockingIo {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        scene.needs_wait_reasons()?;
        let stall = &scene.derived.occupancy.io;
        if scene.of_wall(stall.saved_ns) < GAIN_MIN || super::sync_per_item::is_it(scene) {
            return Ok(Vec::new());
        }
        let calls = scene.disk_waits();
        let total: u64 = calls.iter().map(|call| call.ns).sum();
        let waits: u64 = calls.iter().map(|call| call.waits).sum();
        let Some(worst) = calls.first() else { return Ok(Vec::new()) };
        let mut summary = vec![format!(
            "Threads waited {} for the disk ({} of their time), in {}. {} accounts for {} of it.",
            time(total),
            percent(scene.of_thread_time(total)),
            count(waits, "wait"),
            worst.name(),
            percent(worst.ns as f64 / total.max(1) as f64),
        )];
        summary.extend(scene.waits_come_from(|slice| scene.class(slice) == Some(Class::IoWait)));
        summary.extend(scene.waits_are_for(|slice| scene.class(slice) == Some(Class::IoWait)));
        let batch = batch(scene.derived, worst.name());
        summary.extend(rings::requests_sentence(&scene.derived.calls, worst.number));
        let gain = scene.gain_whoever_ran(stall, |thread, waited| waited.min(thread.running_ns() as f64));
        let confidence = match waits {
            // A single event that another run may not have: the first read of a file.
            1 if gain.low < SURELY => Confidence::Low,
            // They overlap already.
            _ if batch.is_some_and(|each| each >= BATCH_MIN) => Confidence::Low,
            WAITS_SURE.. => Confidence::High,
            _ => Confidence::Medium,
        };
        let finding = Finding {
        rule: INFO.name,
        about: About::Calls(worst.name()),
        subject: format!("{} ({})", worst.name(), count(worst.waits, "wait")),
        summary,
        cost_ns: total,
        gain,
        likely: None, confidence: scene.confidence(confidence),
        evidence: scene.longest(
            |slice| scene.class(slice) == Some(Class::IoWait),
            |slice| format!("waits for the disk in {}", syscall_text(scene.trace.wait(slice.wait).syscall)),
        ),
        advice: vec![
            "Overlap it with computing: read ahead, write behind, or keep more requests in flight (threads, io_uring)".into(),
            "Make fewer, larger requests".into(),
        ],
    };
        let charge = Charge::matching(scene.trace, |slice| scene.class(slice) == Some(Class::IoWait));
        Ok(vec![Charged { finding, charge }])
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        let waits = Removal::exact(vec![Change::WithoutClass(Class::IoWait)]);
        let is_one_by_one = asks_one_by_one(cause.derived(), calls::name(cause.finding));
        Some(if is_one_by_one { with_calls(cause.trace(), waits) } else { waits })
    }

    fn gain(&self, cause: &Cause, forecast: Gain) -> Gain {
        // A remedy may do less than leave the cause out: waits for the disk may only be overlapped.
        let own = cause.finding.gain;
        let high = match asks_one_by_one(cause.derived(), calls::name(cause.finding)) {
            true => forecast.high.max(own.low),
            false => narrowed(cause, forecast).high,
        };
        Gain { low: own.low, high }
    }
}

/// Adds the calls of io_uring_enter to the upper bound.
fn with_calls(trace: &Trace, waits: Removal) -> Removal {
    let calls = calls::fewer(trace, &[(IO_URING_ENTER, 1.0)]).unwrap_or_default();
    Removal { most: waits.most.into_iter().chain(calls.most).collect(), least: waits.least }
}
