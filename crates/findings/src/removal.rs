//! What removing a finding's cause means for a replay, and what it would gain.

use holdup_events::Trace;
use holdup_events::recording::Rung;
use holdup_events::tables::ThreadState;

use crate::analysis::Derived;
use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::replay::{Change, Facts, Replays, forecast};
use crate::derive::syscall_names::is_sync_call;
use crate::finding::{Finding, Gain};
use crate::merging::Charged;

/// Longer traces (in slices) are not replayed for each finding: that would take longer than all the rest. `holdup
/// whatif` replays them.
const SLICES_MAX: usize = 1_000_000;

/// Rules whose gain is forecast.
const FORECAST: [&str; 5] =
    ["lock-contention", "oversubscription", "noisy-neighbour", "blocking-io", "sync-per-item"];

/// The changes that remove a finding's cause; `None` if it is not made of what a replay can leave out.
pub fn changes(trace: &Trace, derived: &Derived, finding: &Finding, charge: &Charge) -> Option<Vec<Change>> {
    match finding.rule {
        "lock-contention" => {
            let lock = derived.locks.iter().find(|lock| lock.name == finding.subject)?;
            let key = (lock.process, lock.object, lock.reason);
            let number = derived.occupancy.locks.locks.iter().position(|known| *known == key)?;
            Some(vec![Change::WithoutLock(number as u32)])
        }
        "oversubscription" => Some(vec![Change::WithoutClass(Class::RunQueue)]),
        "noisy-neighbour" => Some(vec![Change::WithoutOthers]),
        "blocking-io" => Some(vec![Change::WithoutClass(Class::IoWait)]),
        "sync-per-item" => {
            let waits = Charge::of(trace, |slice| {
                slice.state == ThreadState::Blocked && is_sync_call(trace.wait(slice.wait).syscall)
            });
            (!waits.is_empty()).then(|| vec![Change::WithoutWaits(waits)])
        }
        "cpu-throttled" | "oversleep" | "poll-loop" | "delayed-ack" if !charge.is_empty() => {
            Some(vec![Change::WithoutWaits(charge.clone())])
        }
        _ => None,
    }
}

/// What changes suppose, in words.
pub fn said(changes: &[Change]) -> &'static str {
    match changes.first() {
        Some(Change::WithoutLock(_)) => {
            "What the lock guards can run side by side, and takes as long as it did"
        }
        Some(Change::WithoutClass(Class::RunQueue)) => "Every thread has a CPU whenever it wants one",
        Some(Change::WithoutOthers) => "Other programs use no CPU",
        _ => "What these waits are for is there at once",
    }
}

/// Narrows the rules' own estimates by what replays forecast, where a finding's cause can be left out of a replay.
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
        let Some(changes) = changes(facts.trace, derived, finding, charge) else { continue };
        let unchanged = unchanged.get_or_insert_with(|| Replays::new(facts));
        let forecast = forecast(facts, &changes, unchanged);
        let (_, low, high) = forecast.gain();
        // The run is one chain of what threads do: without so much of it, it is shorter by no more.
        let most = (finding.cost_ns as f64 / facts.trace.wall().0.max(1) as f64).min(1.0);
        finding.gain = merged(finding, Gain { low: low.clamp(0.0, most), high: high.clamp(0.0, most) });
    }
}

fn merged(finding: &Finding, forecast: Gain) -> Gain {
    let own = finding.gain;
    let narrowed = Gain { low: own.low.max(forecast.low), high: own.high.min(forecast.high) };
    let gain = match finding.rule {
        // The lock's own cost in CPU time is the rule's to know.
        "lock-contention" => Gain { high: own.high, ..narrowed },
        "noisy-neighbour" => narrowed,
        // A remedy may do less than leave the cause out: fewer threads are not more CPUs, and waits for the disk may
        // only be overlapped. What that gains is the rule's.
        _ => Gain { low: own.low, ..narrowed },
    };
    if gain.low <= gain.high {
        return gain;
    }
    // They contradict each other: neither is sure.
    Gain { low: own.low.min(forecast.low), high: own.high.max(forecast.high) }
}
