//! # tiny-io: data is read or written in tiny pieces, a syscall each
//!
//! ## What it sees
//! Reads, writes, sends and receives, by file, pipe or socket: how many there are a second, and how many bytes each of them
//! moved. Counted exactly, all of them (`--syscalls`) or those in short windows.
//!
//! ## Why it hurts
//! Entering and leaving the kernel costs as much as moving some kilobytes. A program that moves a few bytes a call
//! spends its time on the way there.
//!
//! ## How it decides
//! Calls that moved fewer than 128 bytes are tiny. It fires for a syscall of which tiny calls (those on descriptors where
//! most calls that succeed are tiny) are at least 1,000 a second and take a tenth of the running time. Their time is
//! the samples' in that syscall, by their part of the calls. The gain is that of a replay in which these calls are left out; its lower
//! end keeps a part of them.
//!
//! ## What to do
//! Collect what is written, and read more than is wanted at once: a buffer (`setvbuf`, `BufWriter`, `bufio`), `readv`
//! and `writev`, `sendmmsg`. Where the bytes only wake somebody: one wakeup for many (`eventfd`, a flag that says
//! that one is on its way), or a condition variable.
//!
//! ## Blind spots
//! What calls like `sendmsg` and `ioctl` were asked to move is not known, only what they returned. In windows, a program
//! whose small calls come in bursts may be missed. Sizes are known to a power of two.
//!
//! ## References
//! Soares, Stumm: FlexSC (OSDI 2010). `setvbuf(3)`, `eventfd(2)`.

use super::{Info, Verdict};
use crate::asked::{self, Asked};
use crate::derive::calls::CallUse;
use crate::derive::syscall_names::moves_bytes;
use crate::finding::{Confidence, Finding};
use crate::scene::Scene;
use crate::wording::percent;

pub(super) const INFO: Info =
    Info { name: "tiny-io", summary: "Data is read or written in tiny pieces, a syscall each" };

/// Calls that move less than 2 to this power bytes are tiny.
const TINY_BITS: u8 = 7;

/// Of the calls on a descriptor that succeed, so many are tiny.
const TINY_SHARE_MIN: f64 = 0.5;

/// Told if so many calls failed for now.
const AGAIN_TOLD: f64 = 0.02;

/// How many of a use's calls are tiny: none, if most are not.
fn tiny(used: &CallUse) -> u64 {
    let tiny = used.results.below(TINY_BITS);
    let most = tiny as f64 >= TINY_SHARE_MIN * used.results.total() as f64;
    if moves_bytes(used.syscall) && most && !super::retry_storm::is_it(used) { tiny } else { 0 }
}

/// The costliest of them, if the rule fires.
fn worst<'a>(scene: &'a Scene) -> Result<Option<Asked<'a>>, String> {
    Ok(asked::find(scene, tiny)?.into_iter().next())
}

/// Whether the rule fires for this syscall.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    worst(scene).is_ok_and(|worst| worst.is_some_and(|worst| worst.syscall == syscall))
}

pub(super) fn judge(scene: &Scene) -> Verdict {
    let Some(worst) = worst(scene)? else { return Ok(Vec::new()) };
    let mut summary = vec![worst.said(scene, "for fewer than 128 bytes"), sizes(&worst)];
    summary.extend(worst.by_whom(scene));
    Ok(vec![Finding {
        rule: INFO.name,
        subject: format!("{} of few bytes", worst.name),
        summary,
        cost_ns: worst.cpu_ns(scene),
        gain: worst.gain(scene),
        confidence: scene.confidence(Confidence::High),
        evidence: worst.evidence(scene),
        advice: vec![
            format!("Do more with each {}: a buffer, readv or writev", worst.name),
            "Where the bytes only wake somebody: an eventfd, and none while one is on its way".into(),
        ],
    }])
}

/// How many bytes, and how many calls failed for now.
fn sizes(worst: &Asked) -> String {
    let moved: u64 = worst.uses.iter().map(|used| used.returned).sum();
    let done: u64 = worst.uses.iter().map(|used| used.results.total()).sum();
    let again = worst.again_share();
    let failed = match again >= AGAIN_TOLD {
        true => format!("; {} of these calls failed for now (EAGAIN, EINTR)", percent(again)),
        false => String::new(),
    };
    let mean = moved as f64 / done.max(1) as f64;
    let digits = if mean < 10.0 { 1 } else { 0 };
    format!("A call that succeeds moves {mean:.digits$} bytes on average{failed}.")
}
