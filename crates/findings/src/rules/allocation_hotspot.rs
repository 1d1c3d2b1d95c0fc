//! # allocation-hotspot: much of the time is spent allocating and freeing memory
//!
//! ## Symptoms
//! CPU samples in allocators (glibc's malloc and free, jemalloc, tcmalloc, Rust's, and those of runtimes),
//! and the functions of the program that call them. With sampled allocations (`--allocs`): bytes and objects
//! by site, and the threads that free other threads' allocations.
//!
//! ## Why it hurts
//! A single allocation costs little. An allocation per item costs its search, the first touch of cold memory
//! and its free each time. Blocks that other threads free return through locks.
//!
//! ## How it decides
//! Descriptors list the allocating functions (role `allocator`, docs/descriptors.md). A sample counts for the
//! nearest function of the program itself. Syscalls of an allocator (to get memory, to return it, to wait for
//! its locks) count too, unless page-fault-storm reports them. The rule reports at least 8 % of the running
//! time. The upper bound of the gain removes all of this time, and the rest of functions that mostly
//! allocate. The lower bound is 0, because some of it may be necessary.
//!
//! The finding is a hint, and ranks after certain losses, unless the peak of memory is known. The kernel
//! reports a command's peak when the command exits. Blocks beyond the peak reuse the memory of earlier
//! blocks, so they could have been kept. The minimum number of blocks follows from the time, at a microsecond
//! for each, or from the sampled allocations. That part of the time counts for the lower bound. If it is most
//! of the allocator's time, and that is a quarter of all running time or more, the finding is likely. Both
//! bounds are widened like forecasts.
//!
//! Compiled OCaml code allocates inline, without an allocator that could be sampled. Its runtime reports the
//! allocations. The rule applies if a domain allocates 1 GiB/s or more, nearly nothing survives, and the
//! collections cost too little for gc-pressure. Then it names the functions that had to collect because
//! memory was exhausted. The upper bound is their self time, as far as the allocated bytes can account for
//! it, and the collections.
//!
//! ## What to do
//! Allocate once and reuse: a buffer outside the loop, an arena, a pool. Embed objects instead of pointers to
//! them. Create vectors with their final capacity. Keep values on the stack. Free memory in the thread that
//! allocated it.
//!
//! ## Blind spots
//! Allocators that were compiled into the program without symbols are not recognised: add a descriptor. A C
//! library without debug symbols has misleading names for inner functions (`libc6-dbg` solves that). The peak
//! is known for commands started by holdup, and for one process. page-fault-storm reports memory that is slow
//! because it is touched for the first time. gc-pressure reports the work of a garbage collector.
//!
//! ## References
//! Berger, Zorn, McKinley: Reconsidering custom memory allocation (2002). Kanev et al.: Profiling a
//! warehouse-scale computer (2015).

use crate::derive::amount::Amount;
use crate::derive::services::{Service, ServiceUse, blocks_taken_again};
use crate::derive::stacks::Allocated;
use crate::finding::{Confidence, Finding};
use crate::rule::{ChargedVerdict, Estimate, Info, Rule, Verdict, uncharged};
use crate::scene::Scene;
use crate::service_findings::{self, Words};
use crate::short_lived;
use crate::wording::{bytes, percent, rounded};

pub(super) static INFO: Info = Info {
    estimate: Estimate::Computed,
    ..Info::new("allocation-hotspot", "Much of the CPU time is spent allocating and freeing memory")
};

/// Sites that are named.
const LISTED_MAX: usize = 3;
/// Minimum share of the running time in the allocator for a likely finding. The memory is then hardly for the
/// other work …
const MUCH: f64 = 0.25;
/// … and minimum share of the blocks that reuse memory of earlier ones.
const MOSTLY_AGAIN: f64 = 0.5;
/// Minimum share of the bytes that other threads free, to be reported.
const OTHERS_TOLD: f64 = 0.1;

pub(super) struct AllocationHotspot;

impl Rule for AllocationHotspot {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let words = Words {
        rule: INFO.name,
        doing: "allocating and freeing memory",
        advice: vec![
            "Allocate once and reuse it: a buffer that outlives the loop, an arena, a pool".into(),
            match scene.derived.allocated.all.drawn {
                0 => "Record the allocations by function: holdup run --allocs".into(),
                _ => "List the callers: holdup report allocs --function NAME".into(),
            },
        ],
    };
    // The allocator's syscalls belong to page-fault-storm, if that rule has a finding.
    let service = match service_findings::costly(scene, Service::Fault) {
        Some(_) => Service::Allocate,
        None => Service::AllocateByKernel,
    };
    let mut findings = service_findings::judge(scene, service, words)?;
    let used = scene.derived.services.get(&Service::Allocate);
    for finding in &mut findings {
        finding.summary.extend(drawn(&scene.derived.allocated));
        used.into_iter().for_each(|used| could_be_kept(scene, finding, used));
    }
    findings.extend(short_lived::finding(scene, INFO.name));
    Ok(findings)
}

/// The share of the allocations that certainly reused the memory of earlier blocks (0 to 1).
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
            "At least {} of the blocks reused memory of freed blocks (by the peak of memory in use).",
            percent(again)
        ));
    }
    if much && again >= MOSTLY_AGAIN {
        finding.confidence = scene.confidence(Confidence::Medium);
    }
}

/// Sentences on the sampled allocations, if there are any.
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
            "{} of the bytes are freed by a thread other than the one that allocated them.",
            percent(others)
        ));
    }
    said
}
