//! # gc-pressure: threads spend much of their time on collections
//!
//! ## Symptoms
//! Collections that the runtime reported: their number, their share of each domain's time, and its parts. The
//! parts are the collector's work, waits at its barriers, and retries of domains that want to collect while
//! another one leads.
//!
//! ## Why it hurts
//! Every minor collection of OCaml 5 stops all domains. Its fixed cost, a barrier of all domains, occurs each
//! time any domain fills a minor heap. If little survives, that is nearly the whole cost of a collection.
//!
//! ## How it decides
//! Collections must take a fair share of the time of domains that allocate. The upper bound of the gain
//! removes their cost. The lower bound is half as many collections, with a minor heap of twice the size, at
//! the same cost each. It is taken for the domain with the lowest cost, without the time in which it was
//! runnable. If idle domains delay the others, stop-the-world-latecomer reports these waits, and only the
//! work counts here. If another program uses the CPU of an awaited domain, noisy-neighbour reports it.
//!
//! The heap size for half as many collections follows from the allocations between two collections. If that
//! is more than 8 MiB already, a larger heap is not known to help. Then the lower bound is 0, and the finding
//! is a hint.
//!
//! ## What to do
//! The finding names the functions in which threads had to collect because memory was exhausted, as far as
//! samples and stacks show them. Use a larger minor heap (`OCAMLRUNPARAM=s=…`, in words per domain; try
//! powers of two). Allocate less: `report stacks` of the collector's callers shows where. Use fewer domains
//! than CPUs. Or use processes, which do not wait for each other: they collect too, but each for itself. The
//! gain of that is forecast, and `holdup whatif --without gc-wait` shows more. The lower bound of `--without
//! gc` is the run without any collection, which is not achievable.
//!
//! ## Blind spots
//! If much survives, a larger minor heap moves the cost to the old generation. A larger one may also exceed
//! the CPU's cache. Retries are sampled. Collections of runtimes that do not report them are not counted
//! here.
//!
//! ## References
//! Sivaramakrishnan et al.: Retrofitting parallelism onto OCaml (ICFP 2020). OCaml manual, module `Gc`.

use crate::collecting;
use crate::derive::garbage::Garbage;
use crate::derive::gc::{Gc, LaneGc};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::rule::{ChargedVerdict, Info, OCAML, Remedy, Rule, Verdict, uncharged};
use crate::scene::{EVIDENCE_MAX, GAIN_MIN, Scene};
use crate::wording::{count, percent, time};

pub(super) static INFO: Info = Info {
    collector_place: Some(0),
    remedies: &[
        Remedy::new(OCAML, "minor-heap", &["1M", "8M"], "fewer minor collections"),
        Remedy::new(&["go"], "gogc", &["200", "400"], "fewer collections"),
    ],
    ..Info::new("gc-pressure", "Garbage collections take a large part of the threads' time")
};

/// Functions that are named, and stacks that this takes.
const LISTED_MAX: usize = 3;
const STACKS_MIN: u64 = 20;
/// Minimum number of collections. Fewer may be the program's start.
const COLLECTIONS_MIN: u64 = 20;
/// ... and this many are no chance.
const COLLECTIONS_SURE: u64 = 100;
/// Maximum allocation between two collections for which a larger minor heap is known to help. Beyond it, the
/// minor heap exceeds every CPU's cache: twice the size means as much fresh memory for each saved collection.
/// Four processes of 32 MiB each gained nothing by 64 or 128.
const ROOMY_BYTES: u64 = 8 << 20;

pub(super) struct GcPressure;

impl Rule for GcPressure {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn judge(&self, scene: &Scene) -> ChargedVerdict {
        uncharged(judge(scene))
    }
}

fn judge(scene: &Scene) -> Verdict {
    let gc = &scene.derived.gc;
    let domains = collecting::allocating(gc);
    if gc.minor < COLLECTIONS_MIN || !collecting::is_pressed(gc) {
        return Ok(Vec::new());
    }
    // stop-the-world-latecomer reports the waits due to idle domains.
    let is_theirs = |lane: &LaneGc| collecting::idle_domains(scene, lane.process) > 0;
    let own_ns = |lane: &LaneGc| match is_theirs(lane) {
        true => lane.times.cost_ns() - collecting::waited_ns(lane),
        false => lane.times.cost_ns().saturating_sub(collecting::other_programs_ns(scene, lane)),
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
        about: About::Other,
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
        ("runnable without a CPU", sum(|lane| lane.times.queue_ns)),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|(_, ns)| *ns > 0).map(|(what, ns)| said(what, *ns)).collect();
    let allocated = sum(|lane| lane.allocated_bytes);
    let promoted: Option<u64> = domains.iter().map(|lane| lane.promoted_bytes).sum();
    let survived = promoted.map_or(String::new(), |promoted| {
        format!(", {} of it survived", percent(promoted as f64 / allocated.max(1) as f64))
    });
    let mut said = vec![
        format!(
            "Collections took {} of {} that allocate ({} of their time): {}.",
            time(cost),
            count(domains.len() as u64, "domain"),
            percent(cost as f64 / life.max(1) as f64),
            parts.join(" · "),
        ),
        format!("Each allocated {} KiB between two collections{survived}.", filled_bytes(domains) >> 10,),
        format!(
            "{}: median {}, p99 {}.",
            count(gc.pauses.count, "pause"),
            time(gc.pauses.p50_ns),
            time(gc.pauses.p99_ns),
        ),
    ];
    said.extend(allocators_sentence(garbage));
    said
}

/// A sentence on the functions for which threads collected, if enough of them were seen.
fn allocators_sentence(garbage: &Garbage) -> Option<String> {
    let named: Vec<String> = garbage.named(LISTED_MAX);
    (garbage.stacks >= STACKS_MIN && !named.is_empty()).then(|| {
        format!("Allocating when they began ({}): {}.", count(garbage.stacks, "stack"), named.join(", "))
    })
}

/// Mean allocation of these domains per minor collection, in bytes.
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
        note: format!("stopped, mostly in {}", pause.mostly),
    });
    rows.collect()
}

fn advice(scene: &Scene, domains: &[&LaneGc]) -> Vec<String> {
    if let Some(other) = domains.iter().find(|lane| !collecting::is_ocaml(lane)) {
        return vec![
            collecting::fewer_collections(scene, other),
            "Allocate less in the hottest loops".to_owned(),
        ];
    }
    // A minor heap is filled nearly to its size by the domain that asks for the collection.
    let words = (filled_bytes(domains) / 8).max(1).next_power_of_two() * 2;
    vec![
        match is_roomy(domains) {
            true => {
                "Keep less data alive between two collections: the minor heap is large already".to_owned()
            }
            false => format!(
                "A minor heap of twice the size halves the collections: OCAMLRUNPARAM=s={}k (words per domain)",
                (words >> 10).max(1)
            ),
        },
        "Allocate less in the hottest loops".to_owned(),
        "Use no more domains than CPUs, or processes, which do not wait for each other's collections"
            .to_owned(),
    ]
}
