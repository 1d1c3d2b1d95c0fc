//! Call rates by syscall: counted exactly in short windows, and extrapolated to the whole recording.
//!
//! The rate is the calls in all windows divided by the length of the windows. The error is half a 95 %
//! confidence interval from the variation between windows (Cochran, Sampling Techniques, §6.4: a ratio), with
//! Student's t for few windows.
//!
//! Counting slows each call down by the time that the recorder measured. A busy program therefore makes fewer
//! calls in a window. Counts are scaled up by the share of the running time that counting took in the window.
//! Part of this correction is added to the error.

use std::collections::BTreeMap;

use holdup_events::tables::{SyscallRow, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::parallel;
use super::split::ERRORS_95;
use super::syscall_names::is_ring_operation;
use crate::experiment::distributions::student_quantile;

/// Relative error of the counting cost: caches differ, and some programs wait for others.
const COST_ERROR: f64 = 0.3;

/// No window is believed to have lost more of its running time than this to counting.
const COST_SHARE_MAX: f64 = 0.75;

/// The windows of a recording, and the rates found in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyscallRates {
    /// Number of windows.
    pub windows: u64,
    /// Total length of the windows (ns).
    pub windows_ns: u64,
    /// By syscall number.
    pub by_number: BTreeMap<i32, CallRate>,
}

/// Rate of one syscall.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallRate {
    /// Calls in the windows, exactly.
    pub counted: u64,
    /// Estimated calls a second, of the whole recording.
    pub per_second: f64,
    /// Half the width of the 95 % confidence interval of `per_second`. `None` for a single window.
    pub error_per_second: Option<f64>,
}

impl CallRate {
    /// Estimated calls in `ns`, and half the width of their 95 % interval.
    pub fn calls_in(&self, ns: u64) -> (f64, Option<f64>) {
        let seconds = ns as f64 / 1e9;
        (self.per_second * seconds, self.error_per_second.map(|error| error * seconds))
    }
}

/// One window: the calls in it.
struct Window<'a> {
    start: Timestamp,
    end: Timestamp,
    rows: &'a [SyscallRow],
}

impl Window<'_> {
    fn calls(&self, number: i32) -> u64 {
        self.rows.iter().filter(|row| row.syscall == number).map(|row| row.count).sum()
    }

    /// By what counts are to be multiplied, given the program's running time (ns) in the window.
    fn correction(&self, running_ns: u64) -> f64 {
        let cost_ns: f64 = self.rows.iter().map(|row| row.count as f64 * f64::from(row.cost_ns)).sum();
        let share = if running_ns > 0 { cost_ns / running_ns as f64 } else { 0.0 };
        1.0 / (1.0 - share.min(COST_SHARE_MAX))
    }
}

/// Derives the rates. Empty if no calls were counted.
pub fn derive(trace: &Trace) -> SyscallRates {
    if trace.syscalls.is_empty() {
        return exact(trace);
    }
    let mut windows: Vec<Window> = trace
        .syscalls
        .chunk_by(|a, b| (a.start, a.end) == (b.start, b.end))
        .map(|rows| Window { start: rows[0].start, end: rows[0].end, rows })
        .filter(|window| window.end > window.start)
        .collect();
    windows.sort_by_key(|window| (window.end, window.start));
    let running = running_in(trace, &windows);
    let corrections: Vec<f64> =
        windows.iter().zip(&running).map(|(window, running)| window.correction(*running)).collect();
    let mut numbers: Vec<i32> =
        trace.syscalls.iter().map(|row| row.syscall).filter(|one| *one >= 0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let by_number =
        numbers.into_iter().map(|number| (number, rate(&windows, &corrections, number))).collect();
    SyscallRates {
        windows: windows.len() as u64,
        windows_ns: windows.iter().map(|window| window.end.since(window.start).0).sum(),
        by_number,
    }
}

/// All calls were counted: nothing is extrapolated.
fn exact(trace: &Trace) -> SyscallRates {
    let seconds = trace.wall().0.max(1) as f64 / 1e9;
    let mut rates = SyscallRates::default();
    for row in trace.calls.rows.iter().filter(|row| !is_ring_operation(row.syscall)) {
        rates.by_number.entry(row.syscall).or_default().counted += row.count;
    }
    for rate in rates.by_number.values_mut() {
        rate.per_second = rate.counted as f64 / seconds;
        rate.error_per_second = Some(0.0);
    }
    rates
}

fn rate(windows: &[Window], corrections: &[f64], number: i32) -> CallRate {
    let seconds = |window: &Window| window.end.since(window.start).0 as f64 / 1e9;
    let counts: Vec<u64> = windows.iter().map(|window| window.calls(number)).collect();
    let corrected: Vec<f64> =
        counts.iter().zip(corrections).map(|(count, correction)| *count as f64 * correction).collect();
    let time: f64 = windows.iter().map(seconds).sum();
    let counted: u64 = counts.iter().sum();
    let per_second = corrected.iter().sum::<f64>() / time;
    let n = windows.len() as f64;
    let squares: f64 = windows
        .iter()
        .zip(&corrected)
        .map(|(window, count)| (count - per_second * seconds(window)).powi(2))
        .sum();
    let error = || {
        let scatter = student_quantile(0.025, n - 1.0) * (n / (n - 1.0) * squares).sqrt() / time;
        let systematic = ERRORS_95 * COST_ERROR * (per_second - counted as f64 / time);
        scatter.hypot(systematic)
    };
    CallRate { counted, per_second, error_per_second: (windows.len() > 1).then(error) }
}

/// Total running time of target threads in each window (ns).
fn running_in(trace: &Trace, windows: &[Window]) -> Vec<u64> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut running = vec![0u64; windows.len()];
        for thread in groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target) {
            let life = &trace.threads[thread.index()];
            let from = windows.partition_point(|window| window.end <= life.start);
            let within = windows.iter().zip(&mut running).skip(from);
            for (window, sum) in within.take_while(|(window, _)| window.start < life.end) {
                *sum += running_of(trace, thread, window);
            }
        }
        running
    });
    (0..windows.len()).map(|window| parts.iter().map(|part| part[window]).sum()).collect()
}

fn running_of(trace: &Trace, thread: ThreadId, window: &Window) -> u64 {
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, window.start).unwrap_or(rows.start);
    (first..rows.end)
        .map(|row| trace.slices.at(thread, row))
        .take_while(|slice| slice.start < window.end)
        .filter(|slice| slice.state == ThreadState::Running)
        .map(|slice| slice.end.min(window.end).since(slice.start.max(window.start)).0)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn row(window: u64, syscall: i32, count: u64) -> SyscallRow {
        let start = Timestamp(window * 500 * MS);
        let end = Timestamp(start.0 + 10 * MS);
        SyscallRow { process: None, syscall, start, end, count, cost_ns: 0 }
    }

    fn derived(syscalls: Vec<SyscallRow>) -> SyscallRates {
        derive(&Trace { syscalls, ..Trace::default() })
    }

    #[test]
    fn equal_windows_have_no_error_and_scattered_ones_have() {
        let rates = derived((0..4).map(|window| row(window, 0, 1000)).collect());
        assert_eq!((rates.windows, rates.windows_ns), (4, 40 * MS));
        let read = rates.by_number[&0];
        assert_eq!((read.counted, read.error_per_second), (4000, Some(0.0)));
        assert!((read.per_second - 100_000.0).abs() < 1e-6);
        // Alternately 50,000 and 150,000 per second: deviations of 500 calls, √(4/3 · 4 · 500²) / 0.04 s, t
        // with 3 degrees of freedom.
        let rates = derived((0..4).map(|window| row(window, 0, 500 + window % 2 * 1000)).collect());
        let error = rates.by_number[&0].error_per_second.unwrap();
        assert!((error / ((4.0f64 / 3.0 * 4.0).sqrt() * 500.0 / 0.04) - 3.1824).abs() < 1e-3, "{error}");
    }

    #[test]
    fn windows_without_calls_count_and_one_window_has_no_error() {
        // Called in one of two windows. The other window has a row without calls.
        let rates = derived(vec![row(0, 1, 1000), row(1, -1, 0)]);
        assert_eq!(rates.by_number.keys().copied().collect::<Vec<_>>(), [1]);
        assert!((rates.by_number[&1].per_second - 50_000.0).abs() < 1e-6);
        assert_eq!(derived(vec![row(0, 1, 1000)]).by_number[&1].error_per_second, None);
        assert_eq!(derived(Vec::new()), SyscallRates::default());
    }

    #[test]
    fn processes_are_summed() {
        let mut rows = vec![row(0, 1, 1000), row(0, 1, 500), row(1, 1, 1500)];
        rows[1].process = Some(holdup_events::ProcessId(1));
        let rate = derived(rows).by_number[&1];
        assert_eq!((rate.counted, rate.error_per_second), (3000, Some(0.0)));
    }

    #[test]
    fn what_counting_took_is_given_back() {
        let window = |cost_ns| [SyscallRow { cost_ns, ..row(0, 1, 20_000) }];
        let correction = |rows: &[SyscallRow], running| {
            Window { start: rows[0].start, end: rows[0].end, rows }.correction(running)
        };
        // 20,000 calls of 100 ns: 2 of 10 ms.
        assert!((correction(&window(100), 10 * MS) - 1.25).abs() < 1e-9);
        assert!((correction(&window(0), 10 * MS) - 1.0).abs() < 1e-9);
        assert!((correction(&window(100), 0) - 1.0).abs() < 1e-9);
        assert!((correction(&window(10_000), MS) - 4.0).abs() < 1e-9);
    }
}
