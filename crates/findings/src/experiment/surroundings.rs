//! What else the machine did during an experiment's runs.

use super::run::{Experiment, Run};

/// A run in which others had more of the CPUs than this was disturbed.
const OTHERS_MAX: f64 = 0.05;
/// … or from which the hypervisor took more than this.
const STOLEN_MAX: f64 = 0.02;
/// … or of which the CPUs' frequency was this far from the median.
const FREQUENCY_MAX: f64 = 0.1;
/// The kernel counts in steps of a hundredth of a second: a shorter run cannot be judged (ns).
const JUDGED_MIN_NS: u64 = 200_000_000;

/// Other activity on the machine during the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Mean share of the machine's CPU time that others used.
    pub others: f64,
    /// Mean share that the hypervisor took.
    pub stolen: f64,
    /// Runs that were disturbed. They count: a fifth at each end is left out of every mean anyway.
    pub disturbed: usize,
    /// Runs that are long enough to be judged.
    pub judged: usize,
}

/// Summarizes all runs that count.
pub fn summarize(experiment: &Experiment) -> Surroundings {
    let judged: Vec<&Run> =
        experiment.runs.iter().filter(|run| run.is_good() && run.wall_ns >= JUDGED_MIN_NS).collect();
    let mean =
        |of: fn(&Run) -> f64| judged.iter().map(|run| of(run)).sum::<f64>() / judged.len().max(1) as f64;
    let mut frequencies: Vec<f64> = judged.iter().filter_map(|run| run.drift.frequency_mhz).collect();
    frequencies.sort_by(f64::total_cmp);
    let usual = frequencies.get(frequencies.len() / 2).copied();
    Surroundings {
        others: mean(|run| run.drift.others),
        stolen: mean(|run| run.drift.stolen),
        disturbed: judged.iter().filter(|run| is_disturbed(run, usual)).count(),
        judged: judged.len(),
    }
}

fn is_disturbed(run: &Run, usual_mhz: Option<f64>) -> bool {
    let off = |mhz: f64| usual_mhz.is_some_and(|usual| (mhz / usual - 1.0).abs() > FREQUENCY_MAX);
    run.drift.others > OTHERS_MAX || run.drift.stolen > STOLEN_MAX || run.drift.frequency_mhz.is_some_and(off)
}
