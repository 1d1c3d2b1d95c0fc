//! # status-poll: a clock or a device's state is asked for again and again
//!
//! ## What it sees
//! Syscalls that only ask: what time it is, how much was used, what a device's state is (`ioctl` with the same request on
//! the same device). Counted exactly, all of them (`--syscalls`) or those in short windows.
//!
//! ## Why it hurts
//! Each question is a way into the kernel and back, mostly for the answer that was there before. Clocks that the program can
//! read without the kernel cost a fiftieth.
//!
//! ## How it decides
//! It fires for a syscall that only asks, if it is called at least 1,000 times a second and takes a tenth of the running time.
//! Its time is the samples' in it. The gain is that of a replay in which these calls are left out; its lower end keeps a part
//! of them. Where the same pipe or socket is read or written in tiny pieces, tiny-io tells both.
//!
//! ## What to do
//! Ask once and keep the answer for as long as it is good enough; count frames or bytes in place of looking at a
//! clock. Read clocks through the vDSO (`clock_gettime` of glibc; a clock source that the kernel cannot map, such as `hpet`, is
//! asked by syscall: see `/sys/devices/system/clocksource`). Wait for the device's event in place of asking (`poll`, `epoll`).
//!
//! ## Blind spots
//! Clocks read through the vDSO are no syscalls. Whether an `ioctl` asks or acts is not known: only requests that are made again
//! and again on one device, as most requests to it, are counted.
//!
//! ## References
//! `vdso(7)`, `ioctl(2)`, `time(7)`.

use std::collections::BTreeMap;

use holdup_events::ObjectKind;

use super::{Info, Verdict, tiny_io};
use crate::asked::{self, Asked};
use crate::derive::calls::CallUse;
use crate::finding::{Confidence, Finding};
use crate::scene::Scene;

pub(super) const INFO: Info = Info {
    name: "status-poll",
    summary: "A clock or a device's state is asked for again and again",
    of_waits_alone: false,
};

/// x86-64's numbers: ioctl(2), and those that only ask.
const IOCTL: i32 = 16;
/// Of all `ioctl`s on a device, the request's part.
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
    Ok(asked::find(scene, |used| asks(used, &all))?.into_iter().next())
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    worst(scene).is_ok_and(|worst| worst.is_some_and(|worst| worst.syscall == syscall))
}

pub(super) fn judge(scene: &Scene) -> Verdict {
    let Some(worst) = worst(scene)?.filter(|worst| !tiny_io::takes(scene, worst)) else {
        return Ok(Vec::new());
    };
    let request = worst.uses.first().filter(|used| used.syscall == IOCTL);
    let which =
        request.map_or("for the same thing".to_owned(), |used| format!("with request {:#x}", used.op));
    let mut summary = vec![worst.said(scene, &which)];
    summary.extend(worst.by_whom(scene));
    let advice = match request {
        Some(_) => "Wait for the device's event (poll, epoll), or ask once for many steps",
        None => "Ask once and keep the answer as long as it is good enough; read clocks through the vDSO",
    };
    Ok(vec![Finding {
        rule: INFO.name,
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
