//! Changes for threads that share a garbage collector: one collector each, and no collector.
//!
//! Processes collect too, each in its own heap. They do not wait for other threads to arrive and to finish,
//! do not compete to become the leader, and do not wake other threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdup_events::tables::SampleRow;
use holdup_events::{ProcessId, ThreadId};

use super::Removal;
use crate::collecting;
use crate::derive::class::Class;
use crate::derive::gc::{self, Gc, GcTimes, LaneGc};
use crate::derive::replay::{Change, Facts, Replays, Speed, forecast_between};
use crate::derive::syscall_names::FUTEX;
use crate::rule::{Judged, Known};
use crate::wording::{count, time};

/// Gives each thread its own collector. Lower bound: no thread waits for others, asleep or spinning. Upper
/// bound: also, no thread wakes others, and idle domains do not help with collections. Each domain collects
/// only when its own young generation is full.
pub fn apart(facts: Facts) -> Removal {
    let least = waits(facts);
    let gc = gc::derive(facts.trace, facts.roles);
    let (helpers, others) = (helpers(&gc), shares_forced_by_other_domains(&gc));
    let goes = |sample: &SampleRow| {
        let wakes = || sample.in_kernel && sample.syscall == FUTEX;
        match facts.roles.class_of_sample(sample) {
            Class::GcWork if wakes() || helpers.contains(&sample.thread) => 1.0,
            Class::GcWork => others.get(&sample.thread).copied().unwrap_or(0.0),
            _ => 0.0,
        }
    };
    let goes = Speed::weighed(facts.trace, goes);
    let more = (!goes.is_empty()).then(|| Change::Ran(Arc::new(goes)));
    let most = least.iter().cloned().chain(more).collect();
    Removal { least, most }
}

/// The share of a domain's collections that began because another domain's young generation was full, by the
/// domain's threads. All domains that share a collector have one size of young generation. It is estimated
/// from the domain that filled the most.
fn shares_forced_by_other_domains(gc: &Gc) -> BTreeMap<ThreadId, f64> {
    let all = collecting::allocating(gc);
    let mut parts = BTreeMap::new();
    for lane in &all {
        let fullest =
            all.iter().filter(|other| other.process == lane.process).map(|other| other.fullest_bytes);
        let own = lane.allocated_bytes as f64 / fullest.max().unwrap_or(0).max(1) as f64;
        let part = (1.0 - own / lane.minor.max(1) as f64).clamp(0.0, 1.0);
        parts.extend(lane.threads.iter().map(|thread| (*thread, part)));
    }
    parts
}

/// Threads that collect for idle domains in a process with other, allocating domains.
fn helpers(gc: &Gc) -> BTreeSet<ThreadId> {
    let allocating = collecting::allocating(gc);
    let is_idle = |lane: &&LaneGc| {
        let mut beside = allocating.iter().filter(|other| other.process == lane.process).peekable();
        beside.peek().is_some() && beside.all(|other| other.lane != lane.lane)
    };
    let mut threads: BTreeSet<ThreadId> =
        gc.lanes.iter().filter(is_idle).flat_map(|lane| lane.threads.iter().copied()).collect();
    for thread in allocating.iter().flat_map(|lane| &lane.threads) {
        threads.remove(thread);
    }
    threads
}

/// Removes collections. Lower bound: no thread waits for others to collect, as with separate processes. Upper
/// bound: no thread collects.
pub fn without_collections(facts: Facts) -> Removal {
    let least = waits(facts);
    let most = least.iter().cloned().chain([Change::WithoutClass(Class::GcWork)]).collect();
    Removal { least, most }
}

/// Removes waits for other threads to collect. If a runtime reports how its threads compete to become the
/// leader, all spinning and its kernel time go too.
fn waits(facts: Facts) -> Vec<Change> {
    let mut changes = vec![Change::WithoutClass(Class::GcWait)];
    if gc::has_retries(facts.trace) {
        let of_retries = |sample: &SampleRow| facts.roles.is_kernel_for_waiting(sample);
        changes.push(Change::WithoutClass(Class::Spin));
        changes.push(Change::Ran(Arc::new(Speed::new(facts.trace, 0.0, of_retries))));
    }
    changes
}

/// Adds a sentence for threads of one process that allocate and share a collector. It has the cost of
/// sharing, and the forecast length with one collector each. It is added once, to the finding about
/// collections.
pub fn report_shared_collector(known: &Known, found: &mut [Judged], unchanged: &mut Option<Replays>) {
    let (facts, derived) = (known.facts, known.derived);
    let place = |one: &Judged| one.rule.info().collector_place;
    let Some(reports) = found.iter_mut().filter(|one| place(one).is_some()).min_by_key(|one| place(one))
    else {
        return;
    };
    let Some((domains, shared)) = sharing(&derived.gc) else { return };
    let removal = apart(facts);
    let unchanged = unchanged.get_or_insert_with(|| Replays::new(facts));
    let forecast = forecast_between(facts, &removal.least, &removal.most, unchanged);
    reports.finding.summary.push(format!(
        "{} share a collector. With a collector each, as in processes, no thread waits for other threads' collections ({}), retries ({}) or lacks a CPU for them ({}). The run would take {} ({} to {}) instead of {}.",
        count(domains, "domain"),
        time(shared.wait_running_ns + shared.wait_blocked_ns),
        time(shared.spin_ns),
        time(shared.queue_ns),
        time(forecast.wall_ns),
        time(forecast.low_ns),
        time(forecast.high_ns),
        time(forecast.recorded_ns),
    ));
}

/// The number of allocating domains that share a process with other ones, and the cost of their collections.
/// `None` if each domain is alone in its process.
fn sharing(gc: &Gc) -> Option<(u64, GcTimes)> {
    let all = collecting::allocating(gc);
    let mut of_process: BTreeMap<ProcessId, u64> = BTreeMap::new();
    all.iter().for_each(|lane| *of_process.entry(lane.process).or_default() += 1);
    let (mut domains, mut sum) = (0, GcTimes::default());
    for lane in all.iter().filter(|lane| of_process.get(&lane.process) > Some(&1)) {
        domains += 1;
        sum.add(&lane.times);
    }
    (domains > 0).then_some((domains, sum))
}
