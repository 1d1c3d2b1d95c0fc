//! # tiny-io: data is read or written in tiny pieces, a syscall each
//!
//! ## Symptoms
//! Reads, writes, sends and receives, by file, pipe or socket: their rate, and the bytes that each of them
//! moved. The counts are exact, for all calls (`--syscalls`) or in short windows.
//!
//! ## Why it hurts
//! Entering and leaving the kernel costs as much as moving some kilobytes. A program that moves a few bytes
//! per call spends its time on entries and exits.
//!
//! ## How it decides
//! Calls that moved fewer than 128 bytes are tiny. A descriptor counts if most of its successful calls are
//! tiny. Tiny calls of one syscall on such descriptors must occur at least 1,000 times a second and take a
//! tenth of the running time. Their time is the sampled time in that syscall, by their share of the calls.
//! The gain is that of a replay without these calls. Its lower bound keeps a part of them.
//!
//! Other tiny calls on the same pipes, files or sockets belong to the same finding. So do queries of their
//! state (`ioctl`), and calls on them that are repeated until they succeed. Messages are no pieces. Calls on
//! a socket, or on a service's descriptors, with as many messages received as sent, do not count.
//!
//! ## What to do
//! Collect writes, and read more than is needed at once: a buffer (`setvbuf`, `BufWriter`, `bufio`), `readv`
//! and `writev`, `sendmmsg`. If the bytes only wake a thread: use one wakeup for many (`eventfd`, a flag for
//! a pending wakeup), or a condition variable.
//!
//! ## Blind spots
//! The requested size of calls like `sendmsg` and `ioctl` is not known, only their return value. In windows,
//! a program whose small calls come in bursts may be missed. Sizes are known to a power of two. A client that
//! could send many requests before it reads the responses (pipelining) is not reported.
//!
//! ## References
//! Soares, Stumm: FlexSC (OSDI 2010). `setvbuf(3)`, `eventfd(2)`.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::ObjectKind;

use super::status_poll;
use crate::counted_calls::{self, Asked};
use crate::derive::calls::{CallUse, Calls};
use crate::derive::exchanges::exchanges;
use crate::derive::syscall_names::moves_bytes;
use crate::derive::syscalls::SyscallUse;
use crate::finding::{About, Confidence, Finding};
use crate::removal::Removal;
use crate::removal::calls;
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::wording::{percent, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("tiny-io", "Data is read or written in tiny pieces, one syscall each")
};

/// Calls that move less than 2 to this power bytes are tiny.
const TINY_BITS: u8 = 7;

/// Minimum share of tiny calls among the successful calls on a descriptor.
const TINY_SHARE_MIN: f64 = 0.5;

/// Minimum share of temporarily failed calls that is reported.
const AGAIN_TOLD: f64 = 0.02;

/// How many of a use's calls are tiny: none, if most are not, or if they are messages.
fn tiny(used: &CallUse, exchanges: &BTreeSet<u64>) -> u64 {
    if used.object_kind == ObjectKind::Socket && exchanges.contains(&used.object) {
        return 0;
    }
    let tiny = used.results.below(TINY_BITS);
    let most = tiny as f64 >= TINY_SHARE_MIN * used.results.total() as f64;
    if moves_bytes(used.syscall) && most && !super::retry_storm::is_it(used) { tiny } else { 0 }
}

/// The tiny calls, including temporarily failed ones. A thread that uses an object in tiny pieces also gets
/// these failures because of them.
fn tiny_or_again(used: &CallUse, exchanges: &BTreeSet<u64>) -> u64 {
    let pieces = used.results.below(TINY_BITS);
    let most = pieces as f64 >= TINY_SHARE_MIN * used.results.total() as f64;
    let exchanged = used.object_kind == ObjectKind::Socket && exchanges.contains(&used.object);
    if moves_bytes(used.syscall) && most && !exchanged { pieces + used.again() } else { 0 }
}

/// From this part on, calls of another name are about the same.
const MOSTLY: f64 = 0.5;

/// The costliest of them, if the rule fires.
fn worst<'a>(scene: &'a Scene) -> Result<Option<Asked<'a>>, String> {
    let exchanges = exchanges(&scene.derived.calls);
    Ok(counted_calls::find(scene, |used| tiny(used, &exchanges))?.into_iter().next())
}

/// All calls that go together with tiny calls of this name. Returns syscalls, each with the share of its
/// calls that are tiny or only query the same objects.
pub(super) fn family(calls: &Calls, name: &str) -> Vec<(i32, f64)> {
    let (exchanges, devices) = (exchanges(calls), status_poll::by_device(&calls.by_object));
    let is_tiny = |used: &&CallUse| used.name == name && tiny(used, &exchanges) > 0;
    let object = |used: &CallUse| (used.object_kind, used.object);
    let objects: BTreeSet<_> = calls.by_object.iter().filter(is_tiny).map(object).collect();
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for used in &calls.by_object {
        let on_it = used.object_kind != ObjectKind::None && objects.contains(&object(used));
        let count = match used.name == name {
            true if tiny(used, &exchanges) == 0 => 0,
            true => tiny_or_again(used, &exchanges),
            false if on_it => tiny_or_again(used, &exchanges).max(status_poll::asks(used, &devices)),
            false => 0,
        };
        *counts.entry(used.syscall).or_default() += count;
    }
    let all =
        |syscall| calls.by_syscall.iter().find(|used| used.syscall == syscall).map_or(0, |used| used.count);
    let part = |(syscall, count): (i32, u64)| (syscall, count as f64 / all(syscall).max(1) as f64);
    counts.into_iter().filter(|(_, count)| *count > 0).map(part).collect()
}

/// Whether these calls go together with reported tiny calls.
pub(super) fn takes(scene: &Scene, others: &Asked) -> bool {
    let Ok(Some(worst)) = worst(scene) else { return false };
    let family = family(&scene.derived.calls, worst.name);
    let on_it = |used: &&CallUse| {
        worst.uses.iter().any(|of| (of.object_kind, of.object) == (used.object_kind, used.object))
    };
    family.iter().any(|(syscall, _)| *syscall == others.syscall) && others.uses.iter().all(on_it)
}

/// Whether the rule fires for this syscall, or most calls of it go with those that it fires for.
pub(super) fn explains(scene: &Scene, syscall: i32) -> bool {
    let Ok(Some(worst)) = worst(scene) else { return false };
    let goes_with = |(other, part): &(i32, f64)| *other == syscall && *part >= MOSTLY;
    worst.syscall == syscall || family(&scene.derived.calls, worst.name).iter().any(goes_with)
}

pub(super) struct TinyIo;

impl Rule for TinyIo {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        calls::fewer(cause.trace(), &family(&cause.derived().calls, calls::name(cause.finding)))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let Some(worst) = worst(scene)? else { return Ok(Vec::new()) };
    let mut summary = vec![worst.rate_sentence(scene, "for fewer than 128 bytes"), sizes(&worst)];
    let family: Vec<(&SyscallUse, f64)> = family(&scene.derived.calls, worst.name)
        .into_iter()
        .filter_map(|(syscall, part)| {
            Some((scene.derived.syscalls.iter().find(|of| of.number == syscall)?, part))
        })
        .collect();
    summary.extend(other_calls_sentence(&family, &worst));
    summary.extend(worst.caller_sentences(scene));
    Ok(vec![Finding {
        rule: INFO.name,
        about: About::Calls(worst.name),
        subject: format!("{} of few bytes", worst.name),
        summary,
        cost_ns: family.iter().map(|(of, part)| (of.cpu_ns as f64 * part) as u64).sum(),
        gain: worst.gain(scene),
        likely: None,
        confidence: scene.confidence(Confidence::High),
        evidence: worst.evidence(scene),
        advice: vec![
            format!("Move more per {}: a buffer, readv or writev", worst.name),
            "If the bytes only wake a thread: use an eventfd, and write none while one is pending".into(),
        ],
    }])
}

/// A sentence on other calls on the same objects.
fn other_calls_sentence(family: &[(&SyscallUse, f64)], worst: &Asked) -> Option<String> {
    let others = family.iter().filter(|(of, _)| of.number != worst.syscall);
    let said: Vec<String> =
        others.map(|(of, part)| format!("{} {}", of.name, time((of.cpu_ns as f64 * part) as u64))).collect();
    (!said.is_empty()).then(|| {
        format!("Other small or polling calls on the same descriptors: {} of CPU time.", said.join(", "))
    })
}

/// How many bytes, and how many calls failed for now.
fn sizes(worst: &Asked) -> String {
    let moved: u64 = worst.uses.iter().map(|used| used.returned).sum();
    let done: u64 = worst.uses.iter().map(|used| used.results.total()).sum();
    let again = worst.again_share();
    let failed = match again >= AGAIN_TOLD {
        true => format!(", {} of these calls failed temporarily (EAGAIN, EINTR)", percent(again)),
        false => String::new(),
    };
    let mean = moved as f64 / done.max(1) as f64;
    let digits = if mean < 10.0 { 1 } else { 0 };
    format!("A call that succeeds moves {mean:.digits$} bytes on average{failed}.")
}
