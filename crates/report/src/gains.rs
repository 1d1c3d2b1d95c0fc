//! The gain of a finding as text, in the measure of the recording: a shorter run, or more work in the same time.

use holdup_events::Trace;
use holdup_findings::Finding;
use holdup_findings::derive::ledger::Ledger;

use crate::numbers::whole_percent;
use crate::throughput::{Measure, Throughput, measure};

/// Text of the gain, for the finding's title line: `run 26–82 % shorter`.
pub(crate) fn short(trace: &Trace, ledger: &Ledger, finding: &Finding) -> String {
    match measure(trace, ledger) {
        Measure::Time => format!("run {}", shorter(finding)),
        Measure::Throughput => format!("throughput {}", times(finding)),
        Measure::Unknown => "gain unknown: nearly idle".to_owned(),
    }
}

/// The same as the end of a sentence: `the run would be 26–82 % shorter`. `None` without a measure.
pub(crate) fn clause(trace: &Trace, ledger: &Ledger, finding: &Finding) -> Option<String> {
    match measure(trace, ledger) {
        Measure::Time => Some(format!("the run would be {}", shorter(finding))),
        Measure::Throughput => Some(format!("throughput would be {}", times(finding))),
        Measure::Unknown => None,
    }
}

/// The likely gain with its bounds. Without a likely one, the bounds alone.
fn shorter(finding: &Finding) -> String {
    let [low, high] = [finding.gain.low, finding.gain.high].map(whole_percent);
    match finding.likely.map(whole_percent) {
        Some(likely) => format!("{likely} % shorter ({low}–{high})"),
        None if low == "0" => format!("up to {high} % shorter"),
        None => format!("{low}–{high} % shorter"),
    }
}

fn times(finding: &Finding) -> String {
    let Throughput { low, likely, high } = Throughput::new(finding);
    let low = format!("{low:.1}");
    // Above a factor of ten, the figure is not meaningful.
    let high = high.filter(|times| *times <= 10.0).map_or("10+".to_owned(), |times| format!("{times:.1}"));
    match likely {
        Some(likely) => format!("× {likely:.1} ({low}–{high})"),
        None if low == "1.0" => format!("up to × {high}"),
        None => format!("× {low}–{high}"),
    }
}
