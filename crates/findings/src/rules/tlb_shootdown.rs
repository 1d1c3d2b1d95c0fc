//! # tlb-shootdown: much time is spent invalidating other CPUs' address translations
//!
//! ## Symptoms
//! How often each thread changed mappings so that other CPUs had to be interrupted, and in which syscall. How
//! often each thread was interrupted. The kernel's tracepoint `tlb_flush` counts both. It also sees the
//! duration of the handlers of these interrupts. CPU samples show the kernel functions that send them and
//! wait for the acknowledgement.
//!
//! ## Why it hurts
//! A CPU caches address translations (TLB). A thread may free memory or make it read-only (`munmap`,
//! `madvise`, `mprotect`, a page copied after `fork`). Then each CPU that runs a thread of its process may
//! have an old translation. All of them are interrupted, and the caller waits until the last one has
//! acknowledged. This takes 1 to 20 µs, and more on virtual machines and with more CPUs. Every thread pays,
//! whatever its work.
//!
//! ## How it decides
//! The time is the sampled time of sending and waiting, and the handlers' time in the interrupted threads.
//! The rule reports at least 5 % of the running time. The gain is forecast by replay. The lower bound removes
//! that time. The upper bound also removes all syscalls in which shootdowns were sent, because the remedy is
//! to make fewer of them.
//!
//! ## What to do
//! Change mappings for many items at once. Keep memory instead of freeing it (`MALLOC_TRIM_THRESHOLD_`, an
//! arena, larger `M_MMAP_THRESHOLD`). Use `MADV_FREE` instead of `MADV_DONTNEED`. Map code or tables a second
//! time, writable, instead of toggling the protection. Use a separate process for private memory. Use huge
//! pages, which are fewer.
//!
//! ## Blind spots
//! The rule needs the names of kernel functions (`kernel.kptr_restrict`). The cost of an interrupt outside
//! its handler, and the interrupted thread's TLB misses after it, are not counted. Interrupts of idle CPUs
//! interrupt no thread. On aarch64 hardware invalidates without an interrupt.
//!
//! ## References
//! Black et al.: Translation lookaside buffer consistency (ASPLOS 1989). Amit: Optimizing the TLB shootdown
//! algorithm (USENIX ATC 2017).

use std::collections::BTreeMap;

use holdup_events::tables::{FrameKind, SampleRow};
use holdup_events::{Duration, ThreadId, Trace};

use crate::analysis::Derived;
use crate::derive::paging::{Flushing, Paging};
use crate::derive::replay::Speed;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::removal::{Removal, ran};
use crate::rule::{Cause, ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::{SHOOTDOWNS, Scene, syscall_text};
use crate::wording::{count, percent, rounded, thread, time};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Replayed,
    ..Info::new("tlb-shootdown", "Much CPU time is spent invalidating other CPUs' TLBs")
};

/// Minimum share of all running time that is reported.
const SHARE_MIN: f64 = 0.05;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 20;
/// Syscalls that are named.
const LISTED_MAX: usize = 3;
/// Syscalls that sent less than this of all are not.
const LISTED_PART_MIN: f64 = 0.01;

pub(super) struct TlbShootdown;

impl Rule for TlbShootdown {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }

    fn removal(&self, cause: &Cause) -> Option<Removal> {
        without_shootdowns(cause.trace(), cause.derived())
    }
}

/// Removes TLB shootdowns: no thread sends them and waits, and no thread is interrupted. Upper bound: the
/// syscalls that sent them are not made either.
fn without_shootdowns(trace: &Trace, derived: &Derived) -> Option<Removal> {
    let paging = &derived.paging;
    let flushing = Flushing::new(trace);
    let running: BTreeMap<ThreadId, u64> =
        derived.ledger.threads.iter().map(|thread| (thread.thread, thread.running_ns())).collect();
    // An interrupt's handler is not sampled: it is as much of each moment of the thread that was interrupted.
    let of_thread: BTreeMap<ThreadId, f64> = paging
        .threads
        .iter()
        .filter_map(|(id, counts)| {
            Some((*id, counts.interrupt_ns as f64 / (*running.get(id)?).max(1) as f64))
        })
        .collect();
    let interrupts = |sample: &SampleRow| of_thread.get(&sample.thread).copied().unwrap_or(0.0);
    let sends = |sample: &SampleRow| paging.sent_in.iter().any(|(call, _)| *call == sample.syscall);
    let least = Speed::weighed(trace, |sample| match flushing.holds(sample) {
        true => 1.0,
        false => interrupts(sample),
    });
    let most = Speed::weighed(trace, |sample| {
        let call = sample.in_kernel && sample.syscall >= 0 && sends(sample);
        if call || flushing.holds(sample) { 1.0 } else { interrupts(sample) }
    });
    (!least.is_empty()).then(|| Removal { least: vec![ran(least)], most: vec![ran(most)] })
}

fn judge(scene: &Scene) -> Verdict {
    let paging = &scene.derived.paging;
    if !paging.counted {
        return Err("shootdowns were not counted".to_owned());
    }
    let kernel = || scene.trace.frames.iter().filter(|frame| frame.kind == FrameKind::Kernel);
    if kernel().next().is_some() && kernel().all(|frame| frame.function.is_empty()) {
        return Err("kernel symbols are not available (kernel.kptr_restrict)".to_owned());
    }
    let lost_ns = paging.sending.ns + paging.all.interrupt_ns;
    let share = lost_ns as f64 / scene.derived.ledger.running_ns().max(1) as f64;
    if paging.all.sent == 0 || paging.sending.samples < SAMPLES_MIN || share < SHARE_MIN {
        return Ok(Vec::new());
    }
    Ok(vec![finding(scene, paging, lost_ns)])
}

fn finding(scene: &Scene, paging: &Paging, lost_ns: u64) -> Finding {
    let call = paging.sent_in.first().map_or(-1, |(syscall, _)| *syscall);
    let most = scene.gain(&paging.sending.stall, |_, ns| ns);
    let is_uncounted = scene.trace.losses.iter().any(|loss| loss.source == SHOOTDOWNS);
    Finding {
        rule: INFO.name,
        about: About::Other,
        subject: syscall_text(call).to_owned(),
        summary: vec![sent(scene, paging), interrupted(scene, paging)],
        cost_ns: lost_ns,
        // Used without a replay. The lower bound is 0, because the other threads may not wait for the sender.
        gain: Gain { low: 0.0, high: most.high },
        likely: None,
        confidence: scene.confidence(if is_uncounted { Confidence::Medium } else { Confidence::High }),
        evidence: evidence(paging),
        advice: vec![
            format!(
                "Fewer {}: for many items at once, and keep memory instead of returning it",
                cause_text(call)
            ),
            "If protection is changed back and forth: use a second, writable mapping of the same memory"
                .into(),
        ],
    }
}

fn cause_text(call: i32) -> String {
    if call < 0 { "copied pages".to_owned() } else { format!("calls of {}", syscall_text(call)) }
}

/// A sentence on the senders, their counts and their time.
fn sent(scene: &Scene, paging: &Paging) -> String {
    let of_all = |count: u64| percent(count as f64 / paging.all.sent.max(1) as f64);
    let worth_a_word = |count: u64| count as f64 >= LISTED_PART_MIN * paging.all.sent as f64;
    let calls = paging.sent_in.iter().take(LISTED_MAX).filter(|(_, count)| worth_a_word(*count));
    let calls: Vec<String> =
        calls.map(|(call, count)| format!("{} {}", syscall_text(*call), of_all(*count))).collect();
    let sender = paging.threads.iter().max_by_key(|(_, counts)| counts.sent);
    let sender = sender.map(|(id, counts)| format!("{} {}", thread(scene.trace, *id), of_all(counts.sent)));
    format!(
        "{} TLB shootdowns were sent, from {} (by {}): sending and waiting took {} ± {}.",
        rounded(paging.all.sent as f64),
        calls.join(", "),
        sender.unwrap_or_default(),
        time(paging.sending.ns),
        time(paging.sending.error_ns),
    )
}

/// A sentence on the interrupted threads.
fn interrupted(scene: &Scene, paging: &Paging) -> String {
    let hit = paging.threads.iter().filter(|(_, counts)| counts.interrupts > 0);
    let worst = hit.clone().max_by_key(|(_, counts)| counts.interrupts);
    let worst = worst.map_or_else(String::new, |(id, counts)| {
        let part = percent(counts.interrupts as f64 / paging.all.interrupts.max(1) as f64);
        format!("; {} {part}", thread(scene.trace, *id))
    });
    format!(
        "{} interrupted {} times for it, {} in the handlers alone{worst}.",
        was(hit.count() as u64),
        rounded(paging.all.interrupts as f64),
        time(paging.all.interrupt_ns),
    )
}

fn was(threads: u64) -> String {
    format!("{} {}", count(threads, "thread"), if threads == 1 { "was" } else { "were" })
}

fn evidence(paging: &Paging) -> Vec<Evidence> {
    let row = |(thread, at): &(holdup_events::ThreadId, holdup_events::Timestamp)| Evidence {
        table: "samples",
        thread: *thread,
        start: *at,
        duration: Duration(0),
        note: "invalidates other CPUs' TLBs".to_owned(),
    };
    paging.sending.seen.iter().map(row).collect()
}
