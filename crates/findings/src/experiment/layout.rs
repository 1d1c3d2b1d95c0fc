//! # layout-sensitive: The program's speed is luck of the memory layout
//!
//! ## Symptoms
//! `holdup sweep --layout` runs a program with the same work in different layouts. It moves large
//! allocations, makes the environment longer, changes the random addresses, and places threads differently.
//! Each factor has several levels. The design keeps the effects of any two factors apart.
//!
//! ## Why it hurts
//! Two builds, two machines or two users differ by more than the gain of most improvements. A change to the
//! code that only moves the code looks like a gain.
//!
//! ## How it decides
//! Analysis of variance of the logarithms, without the rounds' means. It compares each factor's variance with
//! the variance of runs of the same layout, corrected for the four factors. A finding needs a factor that is
//! beyond chance. The factor's levels must differ by at least the smallest change that matters.
//!
//! ## What to do
//! Pad or align the data that the factor moves. For malloc-pad, these are arrays whose rows are a multiple of
//! 4096 bytes apart. For env-size it is hot data on the stack, and for aslr-seed and thp large tables. For
//! pin, threads share a cache line or a CPU. Compare builds with `holdup diff` over several layouts.
//!
//! ## Blind spots
//! The order of functions in the binary is not varied. Padding and pinning reach only dynamically linked
//! programs that use glibc's allocator and threads.
//!
//! ## References
//! - Mytkowicz, Diwan, Hauswirth, Sweeney (ASPLOS 2009), *Producing Wrong Data Without Doing Anything
//!   Obviously Wrong!*
//! - Curtsinger, Berger (ASPLOS 2013), *STABILIZER: Statistically Sound Performance Evaluation*

use std::collections::BTreeMap;

use super::discoveries::corrected;
use super::distributions::fisher_tail;
use super::run::Experiment;

/// The factors and their levels, the usual one first.
pub const FACTORS: [(&str, [&str; 4]); 4] = [
    ("malloc-pad", ["0", "272", "1040", "4176"]),
    ("env-size", ["0", "52", "1064", "3016"]),
    ("aslr-seed", ["1", "2", "3", "4"]),
    ("pin", ["none", "spread", "pack", "none"]),
];

/// How much of the program's speed is luck.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// Each factor.
    pub factors: Vec<Factor>,
    /// Scatter of runs of the same layout: one standard deviation, relative.
    pub scatter: f64,
    /// Runs that it rests on.
    pub runs: usize,
    /// A factor is beyond chance, and its levels differ by at least what matters.
    pub sensitive: bool,
}

/// One factor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Factor {
    /// Which.
    pub name: String,
    /// Share of all variance that is due to it.
    pub share: f64,
    /// Spread of its levels: one standard deviation, relative, chance taken off.
    pub spread: f64,
    /// The slowest level over the fastest, less one.
    pub range: f64,
    /// The fastest and the slowest level.
    pub ends: (String, String),
    /// The chance of such a difference by luck, corrected for all factors.
    pub p: f64,
}

/// The 16 settings: an orthogonal array of four factors with four levels (the lines of the plane over GF(4)).
pub fn design() -> Vec<Vec<(String, String)>> {
    // Multiplication of GF(4), whose addition is the exclusive or.
    const TIMES: [[usize; 4]; 4] = [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]];
    let row = |row: usize| {
        let (a, b) = (row / 4, row % 4);
        let levels = [a, b, a ^ b, a ^ TIMES[2][b]];
        let knob =
            |(factor, level): ((&str, [&str; 4]), usize)| (factor.0.to_owned(), factor.1[level].to_owned());
        FACTORS.into_iter().zip(levels).map(knob).collect()
    };
    (0..16).map(row).collect()
}

/// Judges runs of [`design`].
pub fn judge(experiment: &Experiment, matters: f64, risk: f64) -> Layout {
    let values = without_rounds(experiment);
    let runs = values.len();
    let all: f64 = values.iter().map(|(_, value)| value * value).sum();
    let rounds: std::collections::BTreeSet<u32> = experiment.runs.iter().map(|run| run.round).collect();
    let mut explained = 0.0;
    let mut freedom = runs as f64 - rounds.len() as f64;
    let mut found: Vec<(Factor, f64, f64, f64)> = Vec::new();
    for (name, _) in FACTORS {
        let levels = levels(experiment, &values, name);
        if levels.len() < 2 {
            continue;
        }
        let squares: f64 = levels.values().map(|(sum, count)| sum * sum / count).sum();
        let between = levels.len() as f64 - 1.0;
        explained += squares;
        freedom -= between;
        let means: Vec<(f64, &String)> =
            levels.iter().map(|(level, (sum, count))| (sum / count, level)).collect();
        let least = means.iter().min_by(|a, b| a.0.total_cmp(&b.0));
        let most = means.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(least), Some(most)) = (least, most) else { continue };
        let (fast, slow) = if experiment.goal.more_is_better() { (most, least) } else { (least, most) };
        let factor = Factor {
            name: name.to_owned(),
            range: (slow.0 - fast.0).abs().exp_m1(),
            ends: (fast.1.clone(), slow.1.clone()),
            ..Factor::default()
        };
        found.push((factor, squares, between, runs as f64 / levels.len() as f64));
    }
    if freedom < 1.0 || found.is_empty() {
        return Layout { runs, ..Layout::default() };
    }
    let noise = ((all - explained) / freedom).max(1e-18);
    let p: Vec<f64> = found
        .iter()
        .map(|(_, squares, between, _)| fisher_tail(squares / between / noise, *between, freedom))
        .collect();
    let mut factors = Vec::new();
    for ((mut factor, squares, between, per_level), p) in found.into_iter().zip(corrected(&p)) {
        let variance = ((squares / between - noise) / per_level).max(0.0);
        factor.p = p;
        factor.spread = variance.sqrt();
        factor.share = ((squares - between * noise) / all.max(1e-18)).clamp(0.0, 1.0);
        factors.push(factor);
    }
    let sensitive = factors.iter().any(|factor| factor.p <= risk && factor.range >= matters);
    Layout { factors, scatter: noise.sqrt(), runs, sensitive }
}

/// Setting and logarithm of each run, minus its round's mean. Only rounds in which every setting has a run.
fn without_rounds(experiment: &Experiment) -> Vec<(usize, f64)> {
    let mut rounds: BTreeMap<u32, Vec<(usize, f64)>> = BTreeMap::new();
    for run in &experiment.runs {
        if let Some(value) = run.value(experiment.goal) {
            rounds.entry(run.round).or_default().push((run.setting, value.ln()));
        }
    }
    let whole = rounds.into_values().filter(|round| round.len() == experiment.settings.len());
    let mut values = Vec::new();
    for round in whole {
        let mean = round.iter().map(|(_, value)| value).sum::<f64>() / round.len() as f64;
        values.extend(round.into_iter().map(|(setting, value)| (setting, value - mean)));
    }
    values
}

/// Sum and number of the values of each level.
fn levels(experiment: &Experiment, values: &[(usize, f64)], factor: &str) -> BTreeMap<String, (f64, f64)> {
    let mut levels: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (setting, value) in values {
        let knobs = &experiment.settings[*setting].knobs;
        if let Some((_, level)) = knobs.iter().find(|(name, _)| name == factor) {
            let sum = levels.entry(level.clone()).or_default();
            sum.0 += value;
            sum.1 += 1.0;
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;
    use crate::experiment::run::{Run, Setting};

    #[test]
    fn every_two_factors_meet_in_every_way() {
        let design = design();
        for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)] {
            let mut met: Vec<_> = design.iter().map(|row| (row[a].1.clone(), row[b].1.clone())).collect();
            met.sort();
            met.dedup();
            assert_eq!(met.len(), if b == 3 { 12 } else { 16 });
        }
    }

    fn experiment(seed: u64, effect: f64) -> Experiment {
        let mut random = Random::part(seed, 4);
        let settings: Vec<Setting> =
            design().into_iter().map(|knobs| Setting { knobs, ..Setting::default() }).collect();
        let mut runs = Vec::new();
        for round in 0..4 {
            for (setting, its) in settings.iter().enumerate() {
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let slow = if its.knobs[1].1 == "1064" { 1.0 + effect } else { 1.0 };
                runs.push(Run {
                    setting,
                    round,
                    wall_ns: (1e9 * slow * (0.02 * normal).exp()) as u64,
                    ..Run::default()
                });
            }
        }
        Experiment { settings, runs, ..Experiment::default() }
    }

    #[test]
    fn layout_sensitive_programs_are_detected() {
        let found = judge(&experiment(1, 0.1), 0.03, 0.05);
        assert!(found.sensitive && found.runs == 64, "{found:?}");
        let worst = found.factors.iter().max_by(|a, b| a.share.total_cmp(&b.share)).unwrap();
        assert_eq!((worst.name.as_str(), worst.ends.1.as_str()), ("env-size", "1064"));
        let alarms = (0..100).filter(|seed| judge(&experiment(*seed, 0.0), 0.0, 0.05).sensitive).count();
        assert!(alarms <= 10, "{alarms} of 100");
        assert!(!judge(&Experiment::default(), 0.03, 0.05).sensitive);
    }
}
