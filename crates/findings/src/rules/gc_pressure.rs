//! # gc-pressure: threads collect more than they work
//!
//! ## What it sees
//! Collections as the runtime told them: how many, how much of each domain's time they took, and what for: the
//! collector's work, waiting at its barriers, and retries of domains that want to collect while another one leads.
//!
//! ## Why it hurts
//! Every minor collection of OCaml 5 stops all domains. Its fixed cost, a meeting of all, is paid for each filling of a
//! minor heap by any domain; where little survives, that is nearly all that a collection costs.
//!
//! ## How it decides
//! It fires if collections take a fair part of the time of domains that allocate. The upper end of the gain is that they
//! cost nothing. The lower end is that half as many were made, by a minor heap of twice the size, and each cost the
//! same: of the domain that collections cost least, and without the time in which it had no CPU. Where domains with nothing
//! to do hold up the others, what these wait is stop-the-world-latecomer's, and only their work counts here; and where another
//! program has the CPU of a domain that the others wait for, it is noisy-neighbour's.
//! The size that would halve them follows from what was allocated between two collections. If that is more than 8 MiB already, a larger
//! one is not known to help: the lower end is 0, and it is a hint.
//!
//! ## What to do
//! Who allocates is told by the functions in which threads had to collect for want of memory, as far as samples and stacks show it.
//! A larger minor heap (`OCAMLRUNPARAM=s=…`, in words a domain; try powers of two). Allocate less: holdup shows where, in
//! `report stacks` of the collector's callers. Fewer domains than CPUs; or processes, which do not wait for each other: they
//! collect, too, but each for itself. What that would gain is forecast, and `holdup whatif --without gc-wait` says more;
//! the lower end of `--without gc` is the run without any collection, which nobody can have.
//!
//! ## Blind spots
//! Where much survives, a larger minor heap moves the cost to the old generation. A larger one may also leave the
//! CPU's cache. Retries are sampled. Collections of runtimes that do not tell them are not counted here.
//!
//! ## References
//! Sivaramakrishnan et al.: Retrofitting parallelism onto OCaml (ICFP 2020). OCaml manual, module `Gc`.

use super::{Info, Verdict};
use crate::collecting;
use crate::derive::garbage::Garbage;
use crate::derive::gc::{Gc, LaneGc};
use crate::finding::{Confidence, Evidence, Finding, Gain};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) const INFO: Info = Info {
    name: "gc-pressure",
    summary: "Garbage collections take a large part of the threads' time",
    of_waits_alone: false,
};

/// Functions that are named, and stacks that this takes.
const LISTED_MAX: usize = 3;
const STACKS_MIN: u64 = 20;
/// So few collections may be the program's start.
const COLLECTIONS_MIN: u64 = 20;
/// ... and this many are no chance.
const COLLECTIONS_SURE: u64 = 100;
/// Who fills more between two collections has a minor heap that no CPU's cache holds: twice the size means as much fresh memory for
/// each collection that is saved. Four processes of 32 MiB each gained nothing by 64 or 128.
const ROOMY_BYTES: u64 = 8 << 20;

pub(super) fn judge(scene: &Scene) -> Verdict {
    let gc = &scene.derived.gc;
    let domains = collecting::allocating(gc);
    if gc.minor < COLLECTIONS_MIN || !collecting::is_pressed(gc) {
        return Ok(Vec::new());
    }
    // What is waited because of domains that have nothing to do is stop-the-world-latecomer's.
    let is_theirs = |lane: &LaneGc| collecting::idle_domains(scene, lane.process) > 0;
    let own_ns = |lane: &LaneGc| match is_theirs(lane) {
        true => lane.times.cost_ns() - collecting::waited_ns(lane),
        false => lane.times.cost_ns().saturating_sub(collecting::strangers_ns(scene, lane)),
    };
    let cost = |lane: &&LaneGc| scene.of_wall(own_ns(lane) as f64).clamp(0.0, 1.0);
    let halved = |lane: &&LaneGc| {
        let with_cpu = lane.times.cost_ns() - lane.times.queue_ns;
        scene.of_wall(own_ns(lane).min(with_cpu) as f64 / 2.0).clamp(0.0, 1.0)
    };
    let high = domains.iter().map(cost).fold(0.0, f64::max);
    let low = if is_roomy(&domains) { 0.0 } else { domains.iter().map(halved).fold(high, f64::min) };
    if high < GAIN_MIN {
        return Ok(Vec::new());
    }
    let confidence = match gc.minor {
        _ if is_roomy(&domains) => Confidence::Low,
        COLLECTIONS_SURE.. if gc.matched == gc.events => Confidence::High,
        _ => Confidence::Medium,
    };
    Ok(vec![Finding {
        rule: INFO.name,
        subject: count(gc.minor, "minor collection"),
        summary: summary((gc, &scene.derived.garbage), &domains),
        cost_ns: domains.iter().map(|lane| lane.times.cost_ns()).sum(),
        gain: Gain { low, high },
        likely: None,
        confidence: scene.confidence(confidence),
        evidence: evidence(gc),
        advice: advice(scene, &domains),
    }])
}

fn summary((gc, garbage): (&Gc, &Garbage), domains: &[&LaneGc]) -> Vec<String> {
    let life: u64 = domains.iter().map(|lane| lane.life_ns).sum();
    let sum = |of: fn(&LaneGc) -> u64| domains.iter().map(|lane| of(lane)).sum::<u64>();
    let said = |what: &str, ns: u64| format!("{what} {}", percent(ns as f64 / life.max(1) as f64));
    let cost = sum(|lane| lane.times.cost_ns());
    let parts = [
        ("work", sum(|lane| lane.times.work_ns)),
        ("waiting at barriers", sum(|lane| lane.times.wait_running_ns + lane.times.wait_blocked_ns)),
        ("retries", sum(|lane| lane.times.spin_ns)),
        ("without a CPU meanwhile", sum(|lane| lane.times.queue_ns)),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, ns)| *ns > 0).map(|(what, ns)| said(what, *ns)).collect();
    let allocated = sum(|lane| lane.allocated_bytes);
    let promoted: Option<u64> = domains.iter().map(|lane| lane.promoted_bytes).sum();
    let survived = promoted.map_or(String::new(), |promoted| {
        format!("; {} of it survived", percent(promoted as f64 / allocated.max(1) as f64))
    });
    let mut said = vec![
        format!(
            "Collections took {} of {} that allocate ({} of their time): {}.",
            time(cost),
            count(domains.len() as u64, "domain"),
            percent(cost as f64 / life.max(1) as f64),
            parts.join(" · "),
        ),
        format!("Each filled {} KiB between two collections{survived}.", filled_bytes(domains) >> 10,),
        format!(
            "Half of {} took {} or less, one in a hundred {} or more.",
            count(gc.pauses.count, "pause"),
            time(gc.pauses.p50_ns),
            time(gc.pauses.p99_ns),
        ),
    ];
    said.extend(who_allocates(garbage));
    said
}

/// For whom threads collected, if enough of them were seen.
fn who_allocates(garbage: &Garbage) -> Option<String> {
    let named: Vec<String> = garbage.named(LISTED_MAX);
    (garbage.stacks >= STACKS_MIN && !named.is_empty()).then(|| {
        format!(
            "Who wanted memory when they began ({}): {}.",
            count(garbage.stacks, "stack"),
            named.join(", ")
        )
    })
}

/// What a domain allocated between two collections, each of its own process.
fn filled_bytes(domains: &[&LaneGc]) -> u64 {
    let sum = |of: fn(&LaneGc) -> u64| domains.iter().map(|lane| of(lane)).sum::<u64>();
    sum(|lane| lane.allocated_bytes) / sum(|lane| lane.minor).max(1)
}

/// A larger minor heap is not known to help.
fn is_roomy(domains: &[&LaneGc]) -> bool {
    filled_bytes(domains) > ROOMY_BYTES
}

fn evidence(gc: &Gc) -> Vec<Evidence> {
    let rows = gc.slowest.iter().take(EVIDENCE_MAX).map(|pause| Evidence {
        table: "spans",
        thread: pause.thread,
        start: pause.start,
        duration: pause.end.since(pause.start),
        note: format!("stood still, mostly in {}", pause.mostly),
    });
    rows.collect()
}

fn advice(scene: &Scene, domains: &[&LaneGc]) -> Vec<String> {
    if let Some(other) = domains.iter().find(|lane| !collecting::is_ocaml(lane)) {
        return vec![
            collecting::fewer_collections(scene, other),
            "Allocate less in the loops that run most".to_owned(),
        ];
    }
    // A minor heap is filled nearly to its size by the domain that asks for the collection.
    let words = (filled_bytes(domains) / 8).max(1).next_power_of_two() * 2;
    vec![
        match is_roomy(domains) {
            true => "Keep less alive between two collections: the minor heap is large already".to_owned(),
            false => format!(
                "A minor heap of twice the size makes half as many: OCAMLRUNPARAM=s={}k (words a domain)",
                (words >> 10).max(1)
            ),
        },
        "Allocate less in the loops that run most".to_owned(),
        "Use no more domains than CPUs; processes do not wait for each other's collections".to_owned(),
    ]
}
