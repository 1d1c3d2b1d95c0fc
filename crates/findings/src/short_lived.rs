//! Memory of a garbage-collected runtime that is allocated at a high rate and dies young.
//! `allocation-hotspot` uses this finding where no allocator function is sampled, because compiled code
//! allocates inline.

use crate::collecting;
use crate::derive::garbage::{self, Site};
use crate::derive::split::share_error;
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::scene::Scene;
use crate::service_findings::SHARE_MIN;
use crate::wording::{bytes, count, percent, time};

/// Minimum allocation rate of one lane (bytes/s). A loop that only allocates reaches 13 to 32 GiB/s on a
/// current CPU. A program that works with its allocations reaches some tenths of 1 GiB/s.
const FAST: f64 = 1_073_741_824.0;
/// Maximum share of a function's own time that is attributed to allocation (ns per allocated byte). Loops
/// that only allocate took 0.07 for blocks of 16 bytes. They took 0.03 to 0.04 for blocks of 40 bytes, inside
/// and outside a cache.
const BYTE_NS_MAX: f64 = 0.15;
/// If more survives than this, it is not dead at once.
const SURVIVES_MAX: f64 = 0.1;
/// Maximum share that is printed as "hardly any".
const HARDLY: f64 = 0.001;
/// Fewer stacks, or samples, may be chance.
const SEEN_MIN: u64 = 20;
/// Functions that are named.
const LISTED_MAX: usize = 3;

/// The finding, where collections themselves cost too little for gc-pressure.
pub fn finding(scene: &Scene, rule: &'static str) -> Option<Finding> {
    let (gc, seen) = (&scene.derived.gc, &scene.derived.garbage);
    let (all, rate) = garbage::allocated(gc);
    let promoted: u64 = gc.lanes.iter().filter_map(|lane| lane.promoted_bytes).sum();
    if gc.lanes.iter().any(|lane| lane.allocated_bytes > 0 && lane.promoted_bytes.is_none()) {
        return None;
    }
    let survived = promoted as f64 / all.max(1) as f64;
    if rate < FAST || survived > SURVIVES_MAX || seen.stacks < SEEN_MIN || collecting::is_pressed(gc) {
        return None;
    }
    let part = |site: &Site| site.stacks as f64 / seen.stacks.max(1) as f64;
    let most_ns = |site: &Site| part(site) * all as f64 * BYTE_NS_MAX;
    let taken = |site: &Site| (most_ns(site) / site.itself_ns.max(1) as f64).min(1.0);
    let itself_ns: f64 = seen.sites.iter().map(|site| site.itself_ns as f64 * taken(site)).sum();
    let samples: u64 = seen.sites.iter().map(|site| site.samples).sum();
    let collecting_ns: u64 = gc.lanes.iter().map(|lane| lane.times.running_ns()).sum();
    let running = scene.derived.ledger.running_ns().max(1) as f64;
    if samples < SEEN_MIN || (itself_ns + collecting_ns as f64) < SHARE_MIN * running {
        return None;
    }
    let gains = seen.sites.iter().map(|site| taken(site) * scene.gain(&site.itself, |_, ns| ns).high);
    let longest = gc.lanes.iter().map(|lane| lane.times.cost_ns()).max().unwrap_or(0);
    let high = (gains.sum::<f64>() + scene.of_wall(longest as f64)).min(1.0);
    let error_ns = share_error(samples, scene.derived.ledger.samples) * running;
    let first = &seen.sites.first()?.function;
    Some(Finding {
        rule,
        about: About::Other,
        subject: first.clone(),
        summary: vec![
            format!(
                "{} allocated {}, at most {} per second in one of {}. {} of it survived a collection.",
                gc.lanes.first()?.runtime,
                bytes(all),
                bytes(rate as u64),
                count(gc.lanes.len() as u64, "heap"),
                if survived < HARDLY { "Hardly any".to_owned() } else { percent(survived) }
            ),
            format!(
                "Allocating when collections began ({}): {}.",
                count(seen.stacks, "stack"),
                seen.named(LISTED_MAX).join(", ")
            ),
            format!(
                "These functions themselves took {} ± {} ({} of all running time), collections {}.",
                time(itself_ns as u64),
                time(error_ns as u64),
                percent(itself_ns / running),
                time(collecting_ns)
            ),
        ],
        cost_ns: itself_ns as u64 + collecting_ns,
        gain: Gain { low: 0.0, high },
        likely: None,
        // The runtime reports the allocations, but not whether they are necessary.
        confidence: scene.confidence(Confidence::Low),
        evidence: seen
            .seen
            .iter()
            .map(|(thread, at)| Evidence::sample(*thread, *at, "triggered a collection".to_owned()))
            .collect(),
        advice: vec![
            format!(
                "Allocate nothing per item in {first}: pass values instead of a closure over them, keep numbers unboxed, reuse buffers"
            ),
            format!("List its callers: holdup report stacks --function '{first}'"),
        ],
    })
}
