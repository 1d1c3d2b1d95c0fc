//! Gains for an attached process that continues to run: there is no run to shorten, but more work in the same
//! time.

use holdup_events::Trace;
use holdup_findings::Finding;
use holdup_findings::derive::ledger::{Ledger, is_nearly_idle};

/// How a recording's gains are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// As the share of the run that would be saved.
    Time,
    /// As work in the same time, relative to the recording.
    Throughput,
    /// Not at all: the process was nearly idle.
    Unknown,
}

/// The measure for a recording with this ledger.
pub(crate) fn measure(trace: &Trace, ledger: &Ledger) -> Measure {
    if !trace.is_part_of_run() {
        return Measure::Time;
    }
    match is_nearly_idle(trace, ledger) {
        true => Measure::Unknown,
        false => Measure::Throughput,
    }
}

/// How many times as much work the same time would hold without the cause.
pub(crate) struct Throughput {
    pub low: f64,
    /// `None`: not estimated.
    pub likely: Option<f64>,
    /// `None`: no limit is known.
    pub high: Option<f64>,
}

impl Throughput {
    pub(crate) fn new(finding: &Finding) -> Throughput {
        let times = |gain: f64| (gain < 1.0).then(|| 1.0 / (1.0 - gain));
        Throughput {
            // A gain of all the time is never sure.
            low: times(finding.gain.low).unwrap_or(1.0),
            likely: finding.likely.and_then(times),
            high: times(finding.gain.high),
        }
    }
}
