//! What removing a finding's cause means for a replay, and what it would gain.
//!
//! A forecast is about the same program without the cause, not about one remedy. What goes with the cause for sure is
//! its least: threads do not wait for a lock, nor enter the kernel for it. What may go with it, too, is its most: the
//! functions that took it. The forecast lies between the two, each with its error.

use std::sync::Arc;

use holdup_events::Trace;
use holdup_events::recording::Rung;
use holdup_events::tables::{SampleRow, ThreadState};

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::lock_calls::{Calls, LockCalls};
use crate::derive::replay::{Change, Facts, Forecast, Replays, Speed, forecast_between};
use crate::derive::syscall_names::is_sync_call;
use crate::finding::{Finding, Gain};
use crate::merging::Charged;
use crate::rules;

/// Longer traces (in slices) are not replayed for each finding: that would take longer than all the rest. `holdup
/// whatif` replays them.
const SLICES_MAX: usize = 1_000_000;

/// Rules whose gain is forecast.
const FORECAST: [&str; 7] = [
    "lock-contention",
    "spin-wait",
    "serial-section",
    "oversubscription",
    "noisy-neighbour",
    "blocking-io",
    "sync-per-item",
];

/// What work that is spread over CPUs costs them at the most: half of what they add is lost to cutting it, handing it
/// out and uneven pieces.
const SPREAD_LOST: f64 = 0.5;

/// Changes that remove a cause.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    /// What surely goes with it.
    pub least: Vec<Change>,
    /// What may go with it.
    pub most: Vec<Change>,
}

impl Removal {
    /// It is known exactly.
    pub fn exact(changes: Vec<Change>) -> Removal {
        Removal { least: changes.clone(), most: changes }
    }

    /// What it supposes, in words.
    pub fn said(&self) -> &'static str {
        match self.most.first() {
            Some(Change::WithoutLock(_)) => {
                "What the lock guards can run side by side, and takes as long as it did; nobody sleeps or wakes others \
                 for it, at the most nobody takes it at all"
            }
            Some(Change::WithoutClass(Class::RunQueue)) => "Every thread has a CPU whenever it wants one",
            Some(Change::WithoutOthers) => "Other programs use no CPU",
            Some(Change::Ran(speed)) if speed.is_spread() => {
                "What one thread did alone is done by all CPUs, at the least with half of what the others add"
            }
            Some(Change::Ran(_)) => "What threads spin for is there at once",
            _ => "What these waits are for is there at once",
        }
    }
}

/// Of a lock: what it guards runs side by side.
pub fn of_lock(calls: &LockCalls, trace: &Trace, lock: u32) -> Removal {
    let with = |which: Calls| {
        let shares = calls.shares(lock, which);
        vec![Change::WithoutLock(lock), Change::Ran(Arc::new(Speed::weighed(trace, shares)))]
    };
    Removal { least: with(Calls::Kernel), most: with(Calls::Whole) }
}

/// The changes that remove a finding's cause; `None` if it is not made of what a replay can leave out.
pub fn of_finding(facts: Facts, derived: &Derived, finding: &Finding, charge: &Charge) -> Option<Removal> {
    let trace = facts.trace;
    match finding.rule {
        "lock-contention" => {
            let lock = derived.locks.iter().find(|lock| lock.name == finding.subject)?;
            let key = (lock.process, lock.object, lock.reason);
            let number = facts.locks.locks.iter().position(|known| *known == key)?;
            Some(of_lock(&LockCalls::new(trace, facts.locks), trace, number as u32))
        }
        "spin-wait" => of_spin(facts, derived, finding),
        "serial-section" => Some(of_serial(facts, derived)),
        "oversubscription" => Some(Removal::exact(vec![Change::WithoutClass(Class::RunQueue)])),
        "noisy-neighbour" => Some(Removal::exact(vec![Change::WithoutOthers])),
        "blocking-io" => Some(Removal::exact(vec![Change::WithoutClass(Class::IoWait)])),
        "sync-per-item" => of_syncs(trace),
        "cpu-throttled" | "oversleep" | "poll-loop" | "delayed-ack" if !charge.is_empty() => {
            Some(Removal::exact(vec![Change::WithoutWaits(charge.clone())]))
        }
        _ => None,
    }
}

/// Of the loop that a finding is about.
fn of_spin(facts: Facts, derived: &Derived, finding: &Finding) -> Option<Removal> {
    let is_it = |spin: &&crate::derive::spin::SpinUse| rules::spin_subject(spin) == finding.subject;
    let spin = derived.spins.iter().find(is_it)?;
    let spins = |sample: &SampleRow| {
        spin.stacks.contains(&sample.stack) && facts.roles.class_of_sample(sample) == Class::Spin
    };
    Some(Removal::exact(vec![Change::Ran(Arc::new(Speed::new(facts.trace, 0.0, spins)))]))
}

/// What one thread did alone is spread over the CPUs.
fn of_serial(facts: Facts, derived: &Derived) -> Removal {
    let over = rules::spread_over(facts, derived);
    let with = |added: f64| {
        let left = 1.0 / (1.0 + added.max(0.0));
        vec![Change::Ran(Arc::new(Speed::spread(facts.trace, &derived.occupancy.serial, left)))]
    };
    Removal { least: with((over - 1.0) * (1.0 - SPREAD_LOST)), most: with(over - 1.0) }
}

/// The calls that force data to the disk are not made; at the most the kernel's own threads do nothing for them, either.
fn of_syncs(trace: &Trace) -> Option<Removal> {
    let waits = Charge::of(trace, |slice| {
        slice.state == ThreadState::Blocked && is_sync_call(trace.wait(slice.wait).syscall)
    });
    if waits.is_empty() {
        return None;
    }
    let calls = Speed::new(trace, 0.0, |sample| sample.in_kernel && is_sync_call(sample.syscall));
    let least = vec![Change::WithoutWaits(waits), Change::Ran(Arc::new(calls))];
    let mut most = least.clone();
    most.push(Change::WithoutKernelThreads);
    Some(Removal { least, most })
}

/// Puts forecasts of replays in place of the rules' own estimates, where a finding's cause can be left out of a replay.
///
/// Only where the cause can go without a trace: what a sleep is good for, or a peer's delay, is not known.
pub fn forecast_gains(facts: Facts, derived: &Derived, findings: &mut [Charged]) {
    if facts.trace.manifest.rung != Rung::Bpf || facts.trace.slices.len() > SLICES_MAX {
        return;
    }
    let mut unchanged = None;
    for Charged { finding, charge } in findings {
        if !FORECAST.contains(&finding.rule) {
            continue;
        }
        let Some(removal) = of_finding(facts, derived, finding, charge) else { continue };
        let unchanged = unchanged.get_or_insert_with(|| Replays::new(facts));
        let forecast = forecast_between(facts, &removal.least, &removal.most, unchanged);
        finding.gain = merged(facts.trace, finding, &forecast);
    }
}

fn merged(trace: &Trace, finding: &Finding, forecast: &Forecast) -> Gain {
    let (_, low, high) = forecast.gain();
    let forecast = Gain { low: low.clamp(0.0, 1.0), high: high.clamp(0.0, 1.0) };
    let own = finding.gain;
    // The run is one chain of what threads do: without so much of it, it is shorter by no more.
    let most = (finding.cost_ns as f64 / trace.wall().0.max(1) as f64).min(1.0);
    let narrowed = Gain { low: own.low.max(forecast.low), high: own.high.min(forecast.high).min(most) };
    let gain = match finding.rule {
        "noisy-neighbour" => narrowed,
        // A remedy may do less than leave the cause out: fewer threads are not more CPUs, and waits for the disk may
        // only be overlapped. What that gains is the rule's.
        "oversubscription" | "blocking-io" => Gain { low: own.low, ..narrowed },
        _ => return forecast,
    };
    if gain.low <= gain.high {
        return gain;
    }
    // They contradict each other: neither is sure.
    Gain { low: own.low.min(forecast.low), high: own.high.max(forecast.high).min(most) }
}
