//! The result of `holdup sweep --set` and `holdup try`: each setting against the baseline, corrected for the
//! number of settings.

use super::compare::{self, Change, Question, Verdict};
use super::discoveries::corrected;
use super::run::Experiment;

/// Comparison of the settings with the first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Each setting but the baseline, in their order.
    pub rows: Vec<SweepRow>,
    /// The row that is best, if one is better than the baseline.
    pub best: Option<usize>,
}

impl Sweep {
    /// Number of runs of each setting that would find the smallest change that matters in every decidable
    /// row. It includes the correction for the number of rows.
    pub fn runs_wanted(&self) -> Option<u32> {
        self.rows.iter().filter_map(|row| row.change.runs_to_make()).max()
    }

    /// The row that needs the most runs, if no row can be decided within [`compare::RUNS_MAX`].
    pub fn beyond_reach(&self) -> Option<&SweepRow> {
        let rows = self.rows.iter().filter(|row| row.change.is_beyond_reach());
        rows.max_by_key(|row| row.change.runs_wanted).filter(|_| self.runs_wanted().is_none())
    }
}

/// One setting against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRow {
    /// Row of [`Experiment::settings`].
    pub setting: usize,
    /// The change, its interval and verdict such that all rows hold together.
    pub change: Change,
    /// The chance of such a change by luck anywhere in the table (Holm).
    pub p_corrected: f64,
}

/// Judges every setting against the first.
pub fn judge(experiment: &Experiment, question: &Question) -> Sweep {
    let goal = experiment.goal;
    let others = experiment.settings.len().saturating_sub(1).max(1) as f64;
    // Each interval is as much wider as there are settings: together they hold with the probability of one.
    let question =
        Question { more_is_better: goal.more_is_better(), risk: question.risk / others, ..*question };
    let mut rows: Vec<SweepRow> = (1..experiment.settings.len())
        .map(|setting| {
            let pairs = experiment.pairs((0, setting), |run| run.value(goal));
            let question = Question { seed: question.seed.wrapping_add(setting as u64), ..question };
            SweepRow { setting, change: compare::paired(&pairs, &question), p_corrected: 1.0 }
        })
        .collect();
    let p: Vec<f64> = rows.iter().map(|row| row.change.p).collect();
    for (row, p) in rows.iter_mut().zip(corrected(&p)) {
        row.p_corrected = p;
    }
    let gain =
        |row: &SweepRow| if question.more_is_better { row.change.relative } else { -row.change.relative };
    let better = (0..rows.len()).filter(|row| rows[*row].change.verdict == Verdict::Faster);
    let best = better.max_by(|a, b| gain(&rows[*a]).total_cmp(&gain(&rows[*b])));
    Sweep { rows, best }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;
    use crate::experiment::run::{Run, Setting};

    /// Scatter of two percent. One run in `disturbed` is disturbed (0: none), and takes up to twice as long.
    fn experiment(seed: u64, effects: &[f64], (rounds, disturbed): (u32, usize)) -> Experiment {
        let mut random = Random::part(seed, 3);
        let mut runs = Vec::new();
        for round in 0..rounds {
            let drift = 1.0 + 0.1 * random.unit();
            for (setting, effect) in effects.iter().enumerate() {
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let is_disturbed = disturbed > 0 && random.below(disturbed) == 0;
                let longer = if is_disturbed { 1.0 + random.unit() } else { 1.0 };
                let wall_ns = (1e9 * drift * longer * (1.0 + effect) * (0.02 * normal).exp()) as u64;
                runs.push(Run { setting, round, wall_ns, ..Run::default() });
            }
        }
        Experiment { settings: vec![Setting::default(); effects.len()], runs, ..Experiment::default() }
    }

    const QUESTION: Question =
        Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: false, resamples: 500, trimmed: 0.2 };

    #[test]
    fn twenty_knobs_without_effect_are_no_discovery() {
        for disturbed in [0, 10, 3] {
            let claims = |seed: &u64| {
                let sweep = judge(&experiment(*seed, &[0.0; 21], (10, disturbed)), &QUESTION);
                sweep.rows.iter().any(|row| matches!(row.change.verdict, Verdict::Faster | Verdict::Slower))
            };
            let claims = (0..100).filter(claims).count();
            // 5 of 100 are allowed. 10 is two standard deviations more.
            assert!(claims <= 10, "one run in {disturbed}: {claims} of 100");
        }
    }

    #[test]
    fn more_settings_want_more_runs_and_find_what_matters_with_them() {
        let question = Question { matters: 0.05, ..QUESTION };
        let many = experiment(5, &[0.0; 21], (10, 0));
        let runs = many.runs.iter().filter(|run| run.setting < 2).cloned().collect();
        let few = Experiment { settings: many.settings[..2].to_vec(), runs, ..many.clone() };
        let wanted = |experiment| judge(experiment, &question).rows[0].change.runs_wanted.unwrap();
        assert!(wanted(&many) > wanted(&few), "the same runs of the first two");
        let mut effects = vec![0.0; 11];
        effects[1] = 0.05;
        let found = |seed: &u64| {
            let pilot = judge(&experiment(*seed, &effects, (10, 0)), &question);
            let rounds = pilot.runs_wanted().unwrap().max(10);
            judge(&experiment(*seed, &effects, (rounds, 0)), &question).rows[0].change.verdict
                == Verdict::Slower
        };
        let found = (0..100).filter(found).count();
        assert!(found >= 80, "{found} of 100");
        assert_eq!(Sweep { rows: Vec::new(), best: None }.runs_wanted(), None);
    }

    #[test]
    fn the_best_is_found() {
        let sweep = judge(&experiment(1, &[0.0, 0.01, -0.2, -0.08, 0.15], (10, 0)), &QUESTION);
        assert_eq!(sweep.best.map(|row| sweep.rows[row].setting), Some(2));
        assert_eq!(sweep.rows[3].change.verdict, Verdict::Slower);
        assert!(judge(&Experiment::default(), &QUESTION).rows.is_empty());
    }
}
