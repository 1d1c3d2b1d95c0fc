//! # allocation-hotspot: much of the time goes by allocating and freeing memory
//!
//! ## What it sees
//! Samples of the CPU in allocators (glibc's malloc and free, jemalloc, tcmalloc, Rust's, and those of runtimes), and for
//! which functions of the program they work. Where allocations were drawn (`--allocs`): bytes and objects by site, and who
//! frees what others allocated.
//!
//! ## Why it hurts
//! An allocation that is made once costs little. One that is made for each item costs its search, its first touch of cold
//! memory and its free each time; blocks that other threads free go back through locks.
//!
//! ## How it decides
//! Descriptors say which functions allocate (role `allocator`, docs/descriptors.md); a sample counts for the program's own
//! function nearest to it. Syscalls that an allocator makes (to get memory, to give it back, to wait for its locks) count, too, where
//! page-fault-storm does not tell them. From 8 % of the running time on it is told. The upper end of the gain is that all of it
//! went, with the rest of the functions that are mostly about it; the lower end is 0, since some of it may be needed.
//! It is a hint, and comes behind what is surely lost, as long as nobody knows whether the memory is needed. How much a command had at
//! the most, the kernel says when it ends: blocks beyond that lay where others had been, which could have been kept. How many
//! blocks there were at the least follows from the time, at a microsecond for each, or from what was drawn. That part of the time
//! counts for the lower end, and where it is most of a quarter of all running time or more, it is likely. Both ends are widened as forecasts are.
//!
//! Compiled code of OCaml allocates by itself, without an allocator that could be sampled. Where the runtime tells that a
//! domain allocates a GiB a second or more, of which nearly nothing survives, and its collections cost too little for
//! gc-pressure, the functions are named in which threads had to collect for want of memory. At the most their own time goes, as far
//! as so many bytes can take it, and the collections.
//!
//! ## What to do
//! Allocate once and use it again: a buffer that outlives the loop, an arena, a pool; objects within others in place of
//! pointers to them; a vector that is made large enough at once; values on the stack. Let who allocates free, too.
//!
//! ## Blind spots
//! Allocators that were compiled into the program without a name are not known: add a descriptor. A C library without debug
//! symbols names its inner functions badly (`libc6-dbg` mends it). The peak is known of commands that were run, and of one process. Memory that is slow because it is touched for the first
//! time is told under page-fault-storm; the work of a garbage collector under gc-pressure.
//!
//! ## References
//! Berger, Zorn, McKinley: Reconsidering custom memory allocation (2002). Kanev et al.: Profiling a warehouse-scale computer (2015).

use super::{Info, Verdict};
use crate::derive::amount::Amount;
use crate::derive::services::{Service, ServiceUse, blocks_taken_again};
use crate::derive::stacks::Allocated;
use crate::finding::{Confidence, Finding};
use crate::scene::Scene;
use crate::served::{self, Words};
use crate::short_lived;
use crate::wording::{bytes, percent, rounded};

pub(super) const INFO: Info = Info {
    name: "allocation-hotspot",
    summary: "Much of the running time goes by allocating and freeing memory",
    of_waits_alone: false,
};

/// Sites that are named.
const LISTED_MAX: usize = 3;
/// With so much of the running time in the allocator, what else is done can hardly be what the memory is for …
const MUCH: f64 = 0.25;
/// … if so many of the blocks lie where others had been.
const MOSTLY_AGAIN: f64 = 0.5;
/// It is told who frees what others allocated from this share of the bytes on.
const OTHERS_TOLD: f64 = 0.1;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "allocating and freeing memory",
        advice: vec![
            "Allocate once and use it again: a buffer that outlives the loop, an arena, a pool".into(),
            match scene.derived.allocated.all.drawn {
                0 => "See what is allocated where: holdup run --allocs".into(),
                _ => "See who asks for it: holdup report allocs --function NAME".into(),
            },
        ],
    };
    // What allocators ask of the kernel is told as page-fault-storm, where that is.
    let service = match served::costly(scene, Service::Fault) {
        Some(_) => Service::Allocate,
        None => Service::AllocateByKernel,
    };
    let mut findings = served::judge(scene, service, words)?;
    let used = scene.derived.services.get(&Service::Allocate);
    for finding in &mut findings {
        finding.summary.extend(drawn(&scene.derived.allocated));
        used.into_iter().for_each(|used| could_be_kept(scene, finding, used));
    }
    findings.extend(short_lived::finding(scene, INFO.name));
    Ok(findings)
}

/// The part of what was allocated that surely lay where other blocks had been (0 to 1).
fn again(scene: &Scene, used: &ServiceUse) -> Option<f64> {
    let by_time = blocks_taken_again(scene.trace, used.ns.saturating_sub(used.error_ns) as f64)?;
    let (all, peak) = (&scene.derived.allocated.all, scene.trace.manifest.memory?.peak_bytes);
    let bytes = all.bytes().saturating_sub(all.bytes_error()).max(1);
    let by_bytes = (1.0 - peak as f64 / bytes as f64).max(0.0);
    Some(if all.drawn > 0 { by_time.max(by_bytes) } else { by_time })
}

/// Blocks are given back and taken again: that much need not be done.
fn could_be_kept(scene: &Scene, finding: &mut Finding, used: &ServiceUse) {
    let (allocating, around) = (scene.gain(&used.stall, |_, ns| ns), scene.gain(&used.around, |_, ns| ns));
    let again = again(scene, used).unwrap_or(0.0);
    finding.gain.low = allocating.low * again;
    finding.gain.high = (finding.gain.high + around.high).min(1.0);
    let much = used.ns as f64 >= MUCH * scene.derived.ledger.running_ns().max(1) as f64;
    if again >= MOSTLY_AGAIN {
        finding.summary.push(format!(
            "At least {} of the blocks lay where others had been (by the most memory that there was).",
            percent(again)
        ));
    }
    if much && again >= MOSTLY_AGAIN {
        finding.confidence = scene.confidence(Confidence::Medium);
    }
}

/// What the drawn allocations say, if there are any.
fn drawn(allocated: &Allocated) -> Vec<String> {
    let all = &allocated.all;
    if all.drawn == 0 || allocated.is_census {
        return Vec::new();
    }
    let part = |amount: &Amount| amount.bytes() as f64 / all.bytes().max(1) as f64;
    let site = |site: &crate::derive::stacks::Site| {
        let each = site.all.mean_bytes().map_or(String::new(), |each| format!(" ({} each)", bytes(each)));
        format!("{} {}{each}", site.function, percent(part(&site.all)))
    };
    let sites: Vec<String> = allocated.sites.iter().take(LISTED_MAX).map(site).collect();
    let mut said = vec![format!(
        "Allocated: {} ± {}{}: {}.",
        bytes(all.bytes()),
        bytes(all.bytes_error()),
        all.objects().map_or(String::new(), |objects| format!(" in {} objects", rounded(objects as f64))),
        sites.join(", "),
    )];
    let others = part(&allocated.freed_by_others);
    if others >= OTHERS_TOLD {
        said.push(format!(
            "{} of the bytes are freed by another thread than allocated them.",
            percent(others)
        ));
    }
    said
}
