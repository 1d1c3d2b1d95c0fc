//! A CPU profile: samples of equal length for each stack.

use holdup_events::Event;

use super::message::{Profile, Sample};
use super::stacks::Places;
use super::values::{Column, Columns, CpuColumn};
use super::{EmittedRows, ROWS_MAX, SPAN_MAX_NS, THREAD};
use crate::imported::Laid;
use crate::readers::ReadError;

/// A sample whose length is not in the profile is shown as so long (ns).
const SHOWN_NS: u64 = 1_000_000;
/// Minimum number of samples for the smallest value, if values are not multiples of the period. Limits the
/// error of a share to an eighth.
const PARTS_MIN: u64 = 4;

/// Emits the samples of each stack.
pub(super) fn emit(
    profile: &Profile,
    places: &Places,
    column: CpuColumn,
    sink: &mut dyn FnMut(Event),
) -> Result<EmittedRows, ReadError> {
    let period_ns = Columns::new(profile, places).period_ns();
    let (values, each_ns, known) = match column {
        CpuColumn::Time(column) => (column, 1, true),
        CpuColumn::Samples(column, each_ns) => (column, each_ns.unwrap_or(SHOWN_NS), each_ns.is_some()),
    };
    let time = |sample: &Sample| values.amount(&sample.value).saturating_mul(each_ns);
    let all_ns = profile.sample.iter().fold(0u64, |sum, sample| sum.saturating_add(time(sample)));
    if all_ns > SPAN_MAX_NS {
        return Err(ReadError::Broken { what: "its CPU time is more than 30 days", offset: 0 });
    }
    let wanted_ns = match column {
        CpuColumn::Time(column) => sample_ns(profile, column, period_ns),
        CpuColumn::Samples(..) => each_ns,
    };
    let wanted = all_ns.div_ceil(wanted_ns);
    // After thinning, each sample represents more time.
    let sample_ns = if wanted > ROWS_MAX { all_ns.div_ceil(ROWS_MAX) } else { wanted_ns };
    let mut laid = Laid::new(THREAD, sample_ns, sink);
    let (mut seen_ns, mut told) = (0u64, 0);
    for sample in &profile.sample {
        seen_ns = seen_ns.saturating_add(time(sample));
        let until = seen_ns.saturating_add(sample_ns / 2) / sample_ns;
        if until > told {
            laid.add(places.stack(&sample.location_id), until - told);
        }
        told = until;
    }
    let span = laid.finish();
    let thinned = if told < wanted && wanted > ROWS_MAX { wanted } else { told };
    Ok(EmittedRows {
        source: "cpu-samples",
        limits: limits(sample_ns, known),
        rows: told,
        wanted: thinned,
        period_ns: sample_ns,
        span,
    })
}

fn limits(sample_ns: u64, known: bool) -> String {
    let length = sample_ns as f64 / 1e6;
    let basis = "it has sums by stack alone, no times and no threads";
    match known {
        true => format!(
            "a CPU profile: {basis}; its samples, of {length:.3} ms of CPU time each, are shown as one thread's, one behind the other"
        ),
        false => format!(
            "a profile of samples: {basis}, and not how much time a sample stands for; each is shown as {length:.3} ms of one thread, \
             one behind the other: only their shares mean something"
        ),
    }
}

/// Time of a sample (ns): the period if all values are multiples of it. Some writers store an unrelated
/// period. The time is then short enough that no stack is lost.
fn sample_ns(profile: &Profile, column: Column, period_ns: Option<u64>) -> u64 {
    let values = || profile.sample.iter().map(|sample| column.amount(&sample.value)).filter(|ns| *ns > 0);
    let smallest = values().min().unwrap_or(1);
    let is_multiple = |period: u64| {
        values().all(|ns| {
            let samples = ns.saturating_add(period / 2) / period;
            // A value is rounded to its unit for each sample.
            samples > 0
                && ns.abs_diff(samples.saturating_mul(period)) <= samples.saturating_mul(column.scale())
        })
    };
    if let Some(period) = period_ns.filter(|period| is_multiple(*period)) {
        return period;
    }
    let common = values().fold(0, greatest_common_divisor);
    let short_enough = smallest.min(period_ns.unwrap_or(smallest)) / PARTS_MIN;
    common.max(short_enough).max(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
