//! The upper bound of a gain by what the CPUs allow, and the likely gain between the bounds.

use holdup_events::Trace;

use crate::analysis::Derived;
use crate::derive::class::Class;
use crate::finding::{Confidence, Finding, Gain};
use crate::rule::Judged;

use super::OFF;

/// Position of the likely gain between the bounds of a forecast. The casebook has pairs whose cause was
/// really removed. The median of their measured gains was at 0.79 to 0.86 (three line-ups of 47 and 48 pairs).
/// The middle was off by 13 to 18 points on average, this position by 9 to 14. Positions 0.7 and 0.9 are
/// within 1.5 points of it.
const POSITION: f64 = 0.8;

/// Maximum distance of the bounds, as a share of the run, at which a likely gain is reported. Between wider
/// bounds no value is better than another.
const DISTANCE_MAX: f64 = 0.5;

/// Maximum difference between the replay of the unchanged program and the recording, as a share of the run. Beyond it the
/// replay does not reproduce the recording.
const DIFFERENCE_MAX: f64 = 0.1;

/// Whether a replay of the unchanged program, `unchanged` times as long as the recording, reproduces the recording.
pub fn is_reproduced(unchanged: f64) -> bool {
    (unchanged - 1.0).abs() <= DIFFERENCE_MAX
}

/// The likely gain between forecast bounds. `None` if the bounds are too far apart.
pub fn likely(gain: Gain) -> Option<f64> {
    (gain.high - gain.low <= DISTANCE_MAX).then_some(gain.low + POSITION * (gain.high - gain.low))
}

/// Lowers upper bounds to the CPUs' capacity for causes that are only waits. The work remains, and takes at
/// least its CPU time on all CPUs. Kernel and spinning time may go with the waits. The work is known as well as
/// its samples, without the cost of recording (`part`, a share of all running time). A remedy that divides the
/// work evenly reaches this bound, so it gets the margin for the difference of two runs.
pub fn bound_by_cpus(trace: &Trace, derived: &Derived, part: f64, findings: &mut [Judged]) {
    let capacity_ns = f64::from(derived.occupancy.cpus.max(1)) * trace.wall().0.max(1) as f64;
    let (work_ns, error_ns) =
        (derived.ledger.class_ns(Class::Useful), derived.ledger.error_ns(Class::Useful));
    let most = capacity(work_ns.saturating_sub(error_ns) as f64 / capacity_ns, part);
    for Judged { rule, finding, .. } in findings {
        if rule.info().waits_only {
            finding.gain = bounded(finding.gain, most);
        }
    }
}

/// Upper bound of a gain if work that takes this share of all CPUs remains, `part` of it the cost of recording.
fn capacity(work: f64, part: f64) -> f64 {
    1.0 - work * (1.0 - part) + OFF
}

fn bounded(gain: Gain, most: f64) -> Gain {
    let high = gain.high.min(most.max(0.0));
    Gain { low: gain.low.min(high), high }
}

/// Sets the likely gain of findings whose gain was forecast ([`note_forecast`]). Drops it if the bounds are too
/// far apart, or if the finding is a hint whose lower bound is 0.
pub fn estimate(findings: &mut [Judged]) {
    for Judged { finding, .. } in findings {
        let is_unsure = finding.confidence == Confidence::Low && is_nothing(finding.gain.low);
        finding.likely = finding.likely.filter(|_| !is_unsure).and_then(|_| likely(finding.gain));
    }
}

/// Whether a report rounds this gain (0 to 1) to 0 %.
pub fn is_nothing(gain: f64) -> bool {
    gain < 0.005
}

/// Notes that the gain of a finding was forecast: [`estimate`] replaces the value when the bounds are final.
pub fn note_forecast(finding: &mut Finding) {
    finding.likely = Some(finding.gain.high);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::Charge;
    use crate::finding::About;

    fn gain(low: f64, high: f64) -> Gain {
        Gain { low, high }
    }

    #[test]
    fn bounds_that_are_far_apart_have_no_likely_value() {
        assert_eq!(likely(gain(0.0, 1.0)), None);
        assert_eq!(likely(gain(0.3, 0.9)), None);
        let between = likely(gain(0.4, 0.6)).unwrap();
        assert!((between - 0.56).abs() < 1e-9, "{between}");
    }

    #[test]
    fn the_upper_bound_is_what_the_cpus_allow() {
        // 7.5 CPU-seconds of work in 8 s on 2 CPUs.
        let most = 1.0 - 7.5 / 16.0;
        assert_eq!(bounded(gain(0.0, 1.0), most), gain(0.0, 0.53125));
        assert!((capacity(7.5 / 16.0, 0.0) - most - OFF).abs() < 1e-9);
        // A tenth of the recorded work was the recorder's.
        assert!((capacity(7.5 / 16.0, 0.1) - (1.0 - 6.75 / 16.0) - OFF).abs() < 1e-9);
        assert_eq!(bounded(gain(0.1, 0.2), most), gain(0.1, 0.2));
        assert_eq!(bounded(gain(0.1, 0.2), -0.1), gain(0.0, 0.0));
    }

    #[test]
    fn a_hint_that_may_gain_nothing_has_no_single_figure() {
        let likely = |confidence: Confidence, low: f64| {
            let finding = Finding {
                rule: "lock-contention",
                about: About::Other,
                subject: String::new(),
                summary: Vec::new(),
                cost_ns: 1,
                gain: gain(low, 0.3),
                likely: Some(0.3),
                confidence,
                evidence: Vec::new(),
                advice: Vec::new(),
            };
            let mut found = [Judged {
                rule: crate::rules::named("lock-contention").unwrap(),
                finding,
                charge: Charge::default(),
            }];
            estimate(&mut found);
            found[0].finding.likely
        };
        assert_eq!(likely(Confidence::Low, 0.0), None);
        assert_eq!(likely(Confidence::Low, 0.004), None);
        assert!(likely(Confidence::Low, 0.01).is_some());
        assert!(likely(Confidence::High, 0.0).is_some());
    }

    #[test]
    fn a_replay_that_is_too_long_or_short_reproduces_nothing() {
        assert!(is_reproduced(0.95) && is_reproduced(1.05));
        assert!(!is_reproduced(0.8) && !is_reproduced(1.2));
    }
}
