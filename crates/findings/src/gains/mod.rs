//! The gain of a finding. It starts with the rule's own estimate. A replay without the cause replaces or narrows it.
//! The number of CPUs and the cost of recording limit it.

mod classes;
pub mod estimate;

use holdup_events::Trace;
use holdup_events::recording::Backend;

use crate::analysis::Derived;
use crate::derive::replay::{Replays, forecast_between, unforeseen};
use crate::finding::{Confidence, Finding, Gain};
use crate::removal::collectors;
use crate::rule::{Cause, Estimate, Judged, Known, forecast_gain};

/// Longer traces (in slices) are not replayed for each finding: that would take longer than all the rest. `holdup
/// whatif` replays them.
const SLICES_MAX: usize = 1_000_000;

/// Maximum number of slices for a replay of the findings with the largest upper bounds.
const SLICES_SOME: usize = 2_000_000;

/// How many findings these are.
const SOME: usize = 5;

/// Share of all thread time below which a cause that may gain nothing is a hint. A higher cost is real, even
/// if a replay does not show the effect of its removal.
pub(crate) const COSTS_LITTLE: f64 = 0.1;

/// Margin of both bounds, as a share of the run. No two runs take equally long, and a fix changes slightly
/// more than the cause. On a quiet machine, 84 % of 98 pairs of programs lay between the bounds without the
/// margin, and 86 % with it. For 48 other pairs, which were not used to choose it, it was 73 % and 79 %.
const OFF: f64 = 0.02;

/// Maximum recording cost, as a share of the run, that a forecast is corrected for in proportion.
const RECORDING_MAX: f64 = 0.5;

/// Minimum lower bound of a gain. Below it, the gain may be nothing.
pub const SURELY: f64 = 0.01;

/// Sentence on the gain if threads work until a timer expires.
const BY_TIMER: &str =
    "The run ends when a timer expires: the gain is more work per second, not a shorter run.";

/// Replaces the rules' own estimates by forecasts of replays, for findings whose cause can be left out of a
/// replay.
///
/// The cause must be removable without side effects. The purpose of a sleep, or of a peer's delay, is not
/// known.
pub fn forecast(known: &Known, found: &mut [Judged]) {
    let trace = known.facts.trace;
    let slices = trace.slices.len();
    if trace.manifest.backend != Backend::Bpf || slices > SLICES_SOME {
        return;
    }
    let enough = if slices > SLICES_MAX { upper_bound_of_rank(found, SOME) } else { 0.0 };
    let mut unchanged = None;
    collectors::report_shared_collector(known, found, &mut unchanged);
    for one in found {
        match one.rule.info().estimate {
            Estimate::Computed => {
                one.finding.gain = widened(one.finding.gain);
                estimate::note_forecast(&mut one.finding);
            }
            Estimate::Replayed if one.finding.gain.high >= enough => replay(known, one, &mut unchanged),
            Estimate::Replayed | Estimate::ByRule => {}
        }
    }
}

/// Forecasts the gain of one finding. `unchanged` holds the replay of the unchanged program once there is one.
fn replay(known: &Known, one: &mut Judged, unchanged: &mut Option<Replays>) {
    let facts = known.facts;
    let Some(removal) = one.rule.removal(&one.cause(known)) else { return };
    let unchanged = unchanged.get_or_insert_with(|| Replays::new(facts));
    let forecast = forecast_between(facts, &removal.least, &removal.most, unchanged);
    let (_, timed) = unchanged.endings().count();
    let cause = one.cause(known);
    let gain = one.rule.gain(&cause, forecast_gain(&forecast));
    one.finding.gain = consistent(gain, &cause, forecast_gain(&forecast));
    if estimate::is_reproduced(forecast.unchanged) {
        estimate::note_forecast(&mut one.finding);
        one.finding.summary.extend(classes::classes_removed(&forecast, &known.derived.ledger));
    }
    let is_usual = one.rule.info().is_usual && gains_little(&one.finding);
    let may_be_nothing = forecast.may_be_nothing() || is_usual;
    if may_be_nothing && one.cause(known).cost_share() < COSTS_LITTLE {
        one.finding.confidence = Confidence::Low;
    }
    limit_confidence(known, one);
    if timed > 0 {
        one.finding.summary.push(BY_TIMER.to_owned());
    }
}

fn limit_confidence(known: &Known, one: &mut Judged) {
    let most = one.rule.confidence_max(&one.cause(known));
    one.finding.confidence = one.finding.confidence.min(most);
}

/// The gain, or a wider one if the rule and the replay contradict each other: then neither is certain.
fn consistent(gain: Gain, cause: &Cause, forecast: Gain) -> Gain {
    if gain.low <= gain.high {
        return gain;
    }
    let own = cause.finding.gain;
    let high = own.high.max(forecast.high).min(cost_of_run(cause));
    Gain { low: own.low.min(forecast.low).min(high), high }
}

/// The bounds on which the rule and the replay agree.
pub(crate) fn narrowed(cause: &Cause, forecast: Gain) -> Gain {
    let own = cause.finding.gain;
    Gain { low: own.low.max(forecast.low), high: own.high.min(forecast.high).min(cost_of_run(cause)) }
}

/// A forecast whose upper bound is at least the rule's own, for causes whose effects a replay keeps in part.
pub(crate) fn up_to_own_bound(cause: &Cause, forecast: Gain) -> Gain {
    Gain { low: forecast.low, high: forecast.high.max(widened(cause.finding.gain).high) }
}

/// The cost as a share (0 to 1) of the run. If the run is a single chain of thread activity, it becomes shorter
/// by at most the removed part.
fn cost_of_run(cause: &Cause) -> f64 {
    (cause.finding.cost_ns as f64 / cause.trace().wall().0.max(1) as f64).min(1.0)
}

/// Whether a computed finding, or one of a wait for the outside, gains less than a tenth and may gain nothing.
pub fn may_be_chance(one: &Judged) -> bool {
    let info = one.rule.info();
    (info.estimate == Estimate::Computed || info.is_of_outside) && gains_little(&one.finding)
}

/// Whether the gain may be nothing, and is below a tenth.
pub(crate) fn gains_little(finding: &Finding) -> bool {
    finding.gain.low < SURELY && finding.gain.high < COSTS_LITTLE
}

/// Corrects the gains for the cost of recording. Lower bound: all of that cost was part of the cause. Upper
/// bound: it was part of the remaining time.
pub fn without_recording(known: &Known, found: &mut [Judged]) {
    let part = recording_part(known.facts.trace, known.derived);
    if part <= 0.0 {
        return;
    }
    for one in found {
        one.finding.gain = unrecorded(one.finding.gain, part);
        limit_confidence(known, one);
    }
}

/// The cost of recording as a share of all running time. If less than one CPU was busy, as a share of the run.
pub fn recording_part(trace: &Trace, derived: &Derived) -> f64 {
    let cost = &trace.manifest.cost;
    let spent = cost.recorder_cpu_ns.saturating_add(cost.probes_cpu_ns) as f64;
    let running = derived.ledger.running_ns().max(trace.wall().0).max(1) as f64;
    (spent / running).min(RECORDING_MAX)
}

fn unrecorded(gain: Gain, part: f64) -> Gain {
    let (low, high) = ((gain.low - part) / (1.0 - part), gain.high / (1.0 - part));
    Gain { low: (low - OFF).max(0.0), high: (high + OFF).min(1.0) }
}

/// The upper bound of the finding with the `count`-th largest, among those that a replay can forecast.
fn upper_bound_of_rank(found: &[Judged], count: usize) -> f64 {
    let replayed = found.iter().filter(|one| one.rule.info().estimate == Estimate::Replayed);
    let mut highs: Vec<f64> = replayed.map(|one| one.finding.gain.high).collect();
    highs.sort_by(|a, b| b.total_cmp(a));
    highs.get(count.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The bounds with the margin for unforeseen effects of a replay.
pub(crate) fn widened(gain: Gain) -> Gain {
    let (low, high) = (gain.low - unforeseen(gain.low), gain.high + unforeseen(gain.high));
    Gain { low: low.max(0.0), high: high.min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_bounds_include_the_cost_of_recording() {
        let Gain { low, high } = unrecorded(Gain { low: 0.5, high: 0.8 }, 0.1);
        assert!(
            (low - 0.4 / 0.9 + OFF).abs() < 1e-9 && (high - 0.8 / 0.9 - OFF).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(unrecorded(Gain { low: 0.05, high: 0.95 }, 0.1), Gain { low: 0.0, high: 1.0 });
    }
}
