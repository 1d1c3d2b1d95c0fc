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
//! function nearest to it. From 8 % of the running time on it is told. The upper end of the gain is that all of it
//! went; the lower end is 0, since some of it may be needed.
//! It is a hint, and comes behind what is surely lost: whether the memory is needed, only the reader knows.
//!
//! ## What to do
//! Allocate once and use it again: a buffer that outlives the loop, an arena, a pool; objects within others in place of
//! pointers to them; a vector that is made large enough at once; values on the stack. Let who allocates free, too.
//!
//! ## Blind spots
//! Allocators that were compiled into the program without a name are not known: add a descriptor. A C library without debug
//! symbols names its inner functions badly (`libc6-dbg` mends it). Memory that is slow because it is touched for the first
//! time is told under page-fault-storm; the work of a garbage collector under gc-pressure.
//!
//! ## References
//! Berger, Zorn, McKinley: Reconsidering custom memory allocation (2002). Kanev et al.: Profiling a warehouse-scale computer (2015).

use super::{Info, Verdict};
use crate::derive::amount::Amount;
use crate::derive::services::Service;
use crate::derive::stacks::Allocated;
use crate::scene::Scene;
use crate::served::{self, Words};
use crate::wording::{bytes, percent, rounded};

pub(super) const INFO: Info = Info {
    name: "allocation-hotspot",
    summary: "Much of the running time goes by allocating and freeing memory",
};

/// Sites that are named.
const LISTED_MAX: usize = 3;
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
    let mut findings = served::judge(scene, Service::Allocate, words)?;
    for finding in &mut findings {
        finding.summary.extend(drawn(&scene.derived.allocated));
    }
    Ok(findings)
}

/// What the drawn allocations say, if there are any.
fn drawn(allocated: &Allocated) -> Vec<String> {
    let all = &allocated.all;
    if all.drawn == 0 {
        return Vec::new();
    }
    let part = |amount: &Amount| amount.bytes() as f64 / all.bytes().max(1) as f64;
    let site = |site: &crate::derive::stacks::Site| {
        format!("{} {} ({} each)", site.function, percent(part(&site.all)), bytes(site.all.mean_bytes()))
    };
    let sites: Vec<String> = allocated.sites.iter().take(LISTED_MAX).map(site).collect();
    let mut said = vec![format!(
        "Allocated: {} ± {} in {} objects: {}.",
        bytes(all.bytes()),
        bytes(all.bytes_error()),
        rounded(all.objects() as f64),
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
