//! What false-sharing and shared-counter have in common: both judge memory that threads take from each other.

use std::collections::BTreeSet;

use holdup_events::Trace;
use holdup_events::recording::Backend;
use holdup_events::tables::AccessKind;

use crate::derive::lines::{LINE_BYTES, LineThread, SharedData, Sharing, Watched};
use crate::finding::{About, Confidence, Evidence, Finding, Gain};
use crate::scene::{GAIN_MIN, Scene};
use crate::wording::{count, percent, thread, time};

/// Findings of one rule.
pub const NAMED_MAX: usize = 3;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 12;
/// Minimum number of alternating samples for a sure finding.
const SAMPLES_SURE: u64 = 40;
/// Maximum size of a HotSpot metaspace chunk, in which the data of one class loader is stored
/// (metaspace/chunklevel.hpp).
const METHOD_DATA_NEAR: u64 = 4 << 20;
/// Threads and functions that are named.
const LISTED_MAX: usize = 3;

/// Err if samples have no address of the memory access.
pub fn needs_addresses(scene: &Scene) -> Result<(), String> {
    let told = |kind: AccessKind| kind != AccessKind::None;
    if scene.trace.samples.iter().any(|sample| told(sample.data.kind)) || is_alone_everywhere(scene.trace) {
        return Ok(());
    }
    Err(match scene.trace.manifest.backend {
        Backend::Bpf => "no sample has the address of the memory access".to_owned(),
        _ => "samples have no registers with this backend: the accessed memory is not known".to_owned(),
    })
}

/// Whether no process has two threads of the program. No memory is shared then, and the recorder does not
/// record addresses.
fn is_alone_everywhere(trace: &Trace) -> bool {
    let mut seen = BTreeSet::new();
    trace.manifest.backend == Backend::Bpf
        && !trace.samples.is_empty()
        && trace.threads.iter().filter(|thread| thread.target).all(|thread| seen.insert(thread.process))
}

/// Worth a reader's time.
pub fn is_costly(scene: &Scene, data: &SharedData) -> bool {
    data.samples >= SAMPLES_MIN
        && scene.of_wall(data.saved.1 * data.stall.saved_ns) >= GAIN_MIN
        && !is_of_interpreter(scene, data)
}

/// Whether the data are counters of an interpreter, which are stored next to the function.
/// `stays-interpreted` reports these.
fn is_of_interpreter(scene: &Scene, data: &SharedData) -> bool {
    let interpreted = scene.derived.interpreted.as_ref();
    interpreted.is_some_and(|one| {
        let is_near = |line: &u64| line.abs_diff(one.method) < METHOD_DATA_NEAR;
        one.process == data.process && data.lines.iter().all(is_near)
    })
}

/// The finding of a rule, given its name, what the threads touch, and what to try.
pub fn finding(
    scene: &Scene,
    data: &SharedData,
    (rule, what, advice): (&'static str, &str, Vec<String>),
) -> Finding {
    let (low, high) = data.saved;
    // Samples prove that the line is shared. Its cost is known only if the line was also accessed by one
    // thread alone.
    let seen = data.samples >= SAMPLES_SURE || is_confirmed(data);
    let sure = if seen && low > 0.0 { Confidence::High } else { Confidence::Medium };
    let most = scene.gain(&data.stall, |_, ns| ns);
    Finding {
        rule,
        about: About::Other,
        subject: subject(data),
        summary: summary(scene, data, what),
        cost_ns: data.ns,
        gain: Gain { low: low * most.low, high: (high * most.high).min(1.0) },
        likely: None,
        confidence: scene.confidence(sure),
        evidence: evidence(data),
        advice,
    }
}

/// The variable, else the function that touches it most, with the address.
pub fn subject(data: &SharedData) -> String {
    let address = data.lines.first().copied().unwrap_or_default();
    match (data.name.as_str(), data.functions.first()) {
        ("", Some((function, _))) => format!("memory at {address:#x} in {function}"),
        ("", None) => format!("memory at {address:#x}"),
        (name, _) => name.to_owned(),
    }
}

fn summary(scene: &Scene, data: &SharedData, what: &str) -> Vec<String> {
    let listed = |one: &LineThread| {
        let how = match (one.reads, one.writes) {
            (_, 0) => "reads",
            (0, _) => "writes",
            _ => "reads and writes",
        };
        format!("{} {how} {}", thread(scene.trace, one.thread), touched(data, one))
    };
    let threads: Vec<String> = data.threads.iter().take(LISTED_MAX).map(listed).collect();
    let functions: Vec<&str> =
        data.functions.iter().take(LISTED_MAX).map(|(function, _)| function.as_str()).collect();
    let mut lines = vec![
        format!(
            "{} access {what}: {} ± {} of CPU time ({} of all running time).",
            count(data.threads.len() as u64, "thread"),
            time(data.ns),
            time(data.error_ns),
            percent(data.ns as f64 / scene.derived.ledger.running_ns().max(1) as f64),
        ),
        format!(
            "{} of {} bytes: {}{}.",
            count(data.lines.len() as u64, "line"),
            LINE_BYTES,
            threads.join(", "),
            if data.threads.len() > LISTED_MAX { ", ..." } else { "" },
        ),
        format!(
            "In {} of {} samples the line came from another CPU. Functions: {}.",
            data.turns,
            data.samples,
            functions.join(", ")
        ),
    ];
    lines.extend(data.watched.as_ref().map(watched));
    lines
}

/// Whether watchpoints confirm the samples' kind of sharing.
fn is_confirmed(data: &SharedData) -> bool {
    data.watched.as_ref().is_some_and(|watched| watched.sharing == Some(data.sharing))
}

fn watched(watched: &Watched) -> String {
    let how = match watched.sharing {
        Some(Sharing::True) => {
            format!(
                "at bytes that several threads access ({} of {})",
                watched.common_places,
                count(watched.places, "place")
            )
        }
        Some(Sharing::False) => format!("at bytes of one thread only ({})", count(watched.places, "place")),
        None => "which does not show which thread owns the bytes".to_owned(),
    };
    format!(
        "Hardware watchpoints hit {} {}, {how}.",
        count(watched.threads, "thread"),
        count(watched.hits, "time")
    )
}

/// The part that a thread accessed most: its name, or else the bytes' distance from the first line's start.
fn touched(data: &SharedData, one: &LineThread) -> String {
    if !one.part.is_empty() && !one.part.starts_with('+') {
        return format!("{}{}", data.name, one.part);
    }
    let first = data.lines.first().copied().unwrap_or_default();
    let (from, to) = one.bytes;
    format!("bytes {}..{}", from.saturating_sub(first), to.saturating_sub(first))
}

fn evidence(data: &SharedData) -> Vec<Evidence> {
    let row = |(thread, at, address): &(_, _, u64)| {
        Evidence::sample(*thread, *at, format!("takes the line {address:#x} from another CPU"))
    };
    data.turned.iter().map(row).collect()
}
