//! # retry-storm: calls fail for now, and are made again and again
//!
//! ## What it sees
//! Syscalls that failed with `EAGAIN` (`EWOULDBLOCK`) or were interrupted (`EINTR`), by file, pipe or socket. Counted
//! exactly, all of them (`--syscalls`) or those in short windows.
//!
//! ## Why it hurts
//! Each try pays for the way into the kernel and back, and finds nothing. Who tries without waiting spins, and
//! takes the CPU from those who could make the next try succeed.
//!
//! ## How it decides
//! It fires for a syscall of which such failures are at least 1,000 a second and take a tenth of the running time, on
//! descriptors where at least half of the calls fail so. Their time is the samples' in that syscall, by their part of the calls.
//! The gain is that of a replay in which these calls are left out; its lower end keeps a part of them.
//!
//! ## What to do
//! Wait until the descriptor is ready (`epoll_wait`, `poll`) before the next try, or let the call block. Drain a descriptor
//! until it would block, then go back to waiting. Of interruptions: `SA_RESTART`, fewer timers' signals.
//!
//! ## Blind spots
//! A failure that is the sign of success, such as the last read of a drained descriptor, costs the same and is
//! counted; half of the calls is more than that. What a call costs is taken to be the same whether it fails or not; most
//! failures are cheaper.
//!
//! ## References
//! `epoll(7)`, `signal(7)`.

use super::{Info, Verdict, tiny_io};
use crate::asked::{self, Asked};
use crate::derive::calls::{CallUse, EAGAIN};
use crate::derive::syscall_names::FUTEX;
use crate::finding::{Confidence, Finding};
use crate::scene::Scene;
use crate::wording::percent;

pub(super) const INFO: Info = Info {
    name: "retry-storm",
    summary: "Calls fail for now and are made again and again",
    of_waits_alone: false,
};

/// Of the calls on a descriptor, so many fail.
const AGAIN_SHARE_MIN: f64 = 0.5;

/// Whether most of a use's calls are to be made again. futex(2) says EAGAIN if the word has changed meanwhile: that is a
/// lock's way, and told by its rules.
pub(super) fn is_it(used: &CallUse) -> bool {
    used.syscall != FUTEX && used.again() as f64 >= AGAIN_SHARE_MIN * used.count as f64
}

fn worst<'a>(scene: &'a Scene) -> Result<Option<Asked<'a>>, String> {
    let again = |used: &CallUse| if is_it(used) { used.again() } else { 0 };
    Ok(asked::find(scene, again)?.into_iter().next())
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    worst(scene).is_ok_and(|worst| worst.is_some_and(|worst| worst.syscall == syscall))
}

pub(super) fn judge(scene: &Scene) -> Verdict {
    let Some(worst) = worst(scene)?.filter(|worst| !tiny_io::takes(scene, worst)) else {
        return Ok(Vec::new());
    };
    let waits = worst.uses.iter().map(|used| used.failed_with(&[EAGAIN])).sum::<u64>() * 2 > worst.calls;
    let error = if waits { "EAGAIN" } else { "EINTR" };
    let mut summary = vec![
        worst.said(scene, &format!("in vain ({error})")),
        format!("{} of the calls on the same objects fail so.", percent(worst.again_share())),
    ];
    summary.extend(worst.by_whom(scene));
    let advice = match waits {
        true => "Wait until it is ready (epoll, poll) before the next try, or let the call block",
        false => "Have interrupted calls go on by themselves (SA_RESTART), or fewer signals",
    };
    Ok(vec![Finding {
        rule: INFO.name,
        subject: format!("{} with {error}", worst.name),
        summary,
        cost_ns: worst.cpu_ns(scene),
        gain: worst.gain(scene),
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: worst.evidence(scene),
        advice: vec![advice.into()],
    }])
}
