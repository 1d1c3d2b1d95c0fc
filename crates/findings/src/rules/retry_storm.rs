//! # retry-storm: calls fail temporarily, and are repeated at a high rate
//!
//! ## Symptoms
//! Syscalls that failed with `EAGAIN` (`EWOULDBLOCK`) or were interrupted (`EINTR`), by file, pipe or socket.
//! The counts are exact, for all calls (`--syscalls`) or in short windows.
//!
//! ## Why it hurts
//! Each attempt costs an entry into the kernel and a return, without a result. A thread that retries without
//! waiting spins, and uses CPU time that could make the next attempt succeed.
//!
//! ## How it decides
//! Such failures of one syscall must occur at least 1,000 times a second and take a tenth of the running
//! time. Only descriptors count on which at least half of the calls fail so. Their time is the sampled time
//! in that syscall, by their share of the calls. The gain is that of a replay without these calls. Its lower
//! bound keeps a part of them.
//!
//! ## What to do
//! Wait until the descriptor is ready (`epoll_wait`, `poll`) before the next attempt, or let the call block.
//! Drain a descriptor until it would block, then wait again. For interruptions: `SA_RESTART`, and fewer timer
//! signals.
//!
//! ## Blind spots
//! A failure that indicates success, such as the last read of a drained descriptor, costs the same and is
//! counted. Half of the calls is more than such failures. The cost of a call is assumed to be the same
//! whether it fails or not. Most failures are cheaper.
//!
//! ## References
//! `epoll(7)`, `signal(7)`.

use super::tiny_io;
use crate::counted_calls::{self, Asked};
use crate::derive::calls::{CallUse, EAGAIN};
use crate::derive::syscall_names::FUTEX;
use crate::finding::{About, Confidence, Finding};
use crate::removal::{Removal, calls};
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::wording::percent;

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("retry-storm", "Calls fail temporarily and are repeated at once")
};

/// Minimum share of failing calls on a descriptor.
const AGAIN_SHARE_MIN: f64 = 0.5;

/// Whether most calls of a use must be repeated. futex(2) returns EAGAIN if the word has changed in between.
/// That is normal for locks, and their rules report it.
pub(super) fn is_it(used: &CallUse) -> bool {
    used.syscall != FUTEX && used.again() as f64 >= AGAIN_SHARE_MIN * used.count as f64
}

fn worst<'a>(scene: &'a Scene) -> Result<Option<Asked<'a>>, String> {
    let again = |used: &CallUse| if is_it(used) { used.again() } else { 0 };
    Ok(counted_calls::find(scene, again)?.into_iter().next())
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    worst(scene).is_ok_and(|worst| worst.is_some_and(|worst| worst.syscall == syscall))
}

pub(super) struct RetryStorm;

impl Rule for RetryStorm {
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
    let waits = worst.uses.iter().map(|used| used.failed_with(&[EAGAIN])).sum::<u64>() * 2 > worst.calls;
    let error = if waits { "EAGAIN" } else { "EINTR" };
    let mut summary = vec![
        worst.rate_sentence(scene, &format!("failing ({error})")),
        format!("{} of the calls on the same objects fail this way.", percent(worst.again_share())),
    ];
    summary.extend(worst.caller_sentences(scene));
    let advice = match waits {
        true => "Wait until it is ready (epoll, poll) before the next attempt, or let the call block",
        false => "Restart interrupted calls automatically (SA_RESTART), or send fewer signals",
    };
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Calls(worst.name),
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
