//! # status-poll: a clock or a device's state is queried at a high rate
//!
//! ## Symptoms
//! Syscalls that only query: the time, the resource usage, a device's state (`ioctl` with the same request on
//! the same device). The counts are exact, for all calls (`--syscalls`) or in short windows.
//!
//! ## Why it hurts
//! Each query costs an entry into the kernel and a return, mostly for an unchanged result. Clocks that the
//! program can read without the kernel cost a fiftieth.
//!
//! ## How it decides
//! Such a syscall must be called at least 1,000 times a second and take a tenth of the running time. Its time
//! is the sampled time in it. The gain is that of a replay without these calls. Its lower bound keeps a part
//! of them. If the same pipe or socket is read or written in tiny pieces, tiny-io reports both.
//!
//! ## What to do
//! Query once and keep the result for as long as it is valid. Count frames or bytes instead of reading a
//! clock. Read clocks through the vDSO (`clock_gettime` of glibc). A clock source that the kernel cannot map,
//! such as `hpet`, needs a syscall: see `/sys/devices/system/clocksource`. Wait for the device's event
//! instead of polling (`poll`, `epoll`).
//!
//! ## Blind spots
//! Clocks read through the vDSO are no syscalls. It is not known whether an `ioctl` queries or acts. Only
//! requests that are repeated on one device, as most requests to it, are counted.
//!
//! ## References
//! `vdso(7)`, `ioctl(2)`, `time(7)`.

use std::collections::BTreeMap;

use holdup_events::ObjectKind;

use super::tiny_io;
use crate::counted_calls::{self, Asked};
use crate::derive::calls::CallUse;
use crate::finding::{About, Confidence, Finding};
use crate::removal::{Removal, calls};
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("status-poll", "A clock or a device's state is polled again and again")
};

/// x86-64's numbers: ioctl(2), and those that only ask.
const IOCTL: i32 = 16;
/// Minimum share of a request among all `ioctl`s on a device.
const REQUEST_SHARE_MIN: f64 = 0.5;

/// `getpid`, `gettimeofday`, `getrusage`, `times`, `getppid`, `getpriority`, `gettid`, `time`, `clock_gettime`,
/// `clock_getres`, `getcpu`, and the like.
fn only_asks(syscall: i32) -> bool {
    matches!(
        syscall,
        39 | 96 | 97 | 98 | 99 | 100 | 102 | 104 | 107 | 108 | 110 | 140 | 186 | 201 | 228 | 229 | 309
    )
}

/// `ioctl`s by device.
pub(super) type ByDevice = BTreeMap<(ObjectKind, u64), u64>;

pub(super) fn by_device(calls: &[CallUse]) -> ByDevice {
    let mut all = ByDevice::new();
    for used in calls.iter().filter(|used| used.syscall == IOCTL) {
        *all.entry((used.object_kind, used.object)).or_default() += used.count;
    }
    all
}

pub(super) fn asks(used: &CallUse, all: &ByDevice) -> u64 {
    let of_device = || all.get(&(used.object_kind, used.object)).copied().unwrap_or(0);
    let again = || used.count as f64 >= REQUEST_SHARE_MIN * of_device() as f64;
    if only_asks(used.syscall) || used.syscall == IOCTL && again() { used.count } else { 0 }
}

fn worst<'a>(scene: &'a Scene) -> Result<Option<Asked<'a>>, String> {
    let all = by_device(&scene.derived.calls.by_object);
    Ok(counted_calls::find(scene, |used| asks(used, &all))?.into_iter().next())
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    worst(scene).is_ok_and(|worst| worst.is_some_and(|worst| worst.syscall == syscall))
}

pub(super) struct StatusPoll;

impl Rule for StatusPoll {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        calls::fewer_of_finding(cause)
    }
}

fn judge(scene: &Scene) -> Verdict {
    let Some(worst) = worst(scene)?.filter(|worst| !tiny_io::takes(scene, worst)) else {
        return Ok(Vec::new());
    };
    let request = worst.uses.first().filter(|used| used.syscall == IOCTL);
    let which =
        request.map_or("for the same object".to_owned(), |used| format!("with request {:#x}", used.op));
    let mut summary = vec![worst.rate_sentence(scene, &which)];
    summary.extend(worst.caller_sentences(scene));
    let advice = match request {
        Some(_) => "Wait for the device's event (poll, epoll), or poll once for many steps",
        None => "Read it once and cache the value while it is accurate enough. Read clocks through the vDSO",
    };
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Calls(worst.name),
        subject: format!("{} asked again", worst.name),
        summary,
        cost_ns: worst.cpu_ns(scene),
        gain: worst.gain(scene),
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: worst.evidence(scene),
        advice: vec![advice.into()],
    }])
}
