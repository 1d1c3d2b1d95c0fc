//! The answer of `holdup scale`: speed-up by number of workers, the law, where the capacity goes, and what grows.

use super::compare::{self, Change, Question};
use super::growth::{self, Growth, Point};
use super::run::{Experiment, Goal, Run, Table};
use super::speedup_stack::{self, SpeedupStack};
use super::usl::{self, Usl};
use crate::derive::class::Class;

/// The knob with the number of workers.
pub const WORKERS: &str = "workers";
/// Maximum number of growing costs that are reported.
const GROWING_MAX: usize = 12;
/// Minimum share of all CPU time at the greatest number of workers, for a cost to be considered.
const COST_SHARE_MIN: f64 = 0.005;
/// Maximum share of the run that each worker is runnable, for more workers than CPUs not to count as sharing
/// CPUs. Three workers on two CPUs that compute without a pause are runnable for a third of the run.
const QUEUE_SHARE_MAX: f64 = 0.02;

/// Result of runs with different numbers of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// By number of workers.
    pub points: Vec<ScalePoint>,
    /// The law, from the numbers of workers in `carrying`.
    pub usl: Option<Usl>,
    /// The numbers of workers that do not share CPUs and have runs to judge.
    pub carrying: Vec<u32>,
    /// Numbers of workers to add so that the law can be fitted. Empty if it is fitted, or if the machine has
    /// too few CPUs.
    pub missing: Vec<u32>,
    /// Speed-up by the law at the number that was asked for: best, least, greatest.
    pub forecast: Option<(f64, f64, f64)>,
    /// For how many workers something is to be foretold.
    pub at: u32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Costs that grow with the workers. Those that certainly grow come first, the costliest at `at` first.
    pub growing: Vec<Growing>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePoint {
    /// How many.
    pub workers: u32,
    /// Whether the machine has a CPU for each worker, or the workers hardly waited for one. If so, losses are
    /// not due to missing CPUs.
    pub has_cpus: bool,
    /// Mean of the runs' values for the goal.
    pub value: f64,
    /// Speed-up against the least number of workers, with its interval.
    pub speedup: Change,
    /// Where the capacity goes.
    pub stack: Option<SpeedupStack>,
}

/// A cost that grows with the workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Growing {
    /// The kind of cost.
    pub table: Table,
    /// Which.
    pub name: String,
    /// Thread time (ns) for the same work at the smallest number of workers.
    pub first_ns: f64,
    /// At the greatest number of workers that do not share CPUs (or the greatest of all).
    pub last_ns: f64,
    /// The growth. `None` if there are too few numbers of workers.
    pub power: Option<Power>,
}

/// The power of the number of workers with which a cost grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// Best estimate.
    pub exponent: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Cost at the number that was asked for (ns), if it goes on growing by that power.
    pub forecast_ns: f64,
}

impl Growing {
    /// Whether these runs show growth beyond chance.
    pub fn is_sure(&self) -> bool {
        self.power.is_some_and(|power| power.low > 0.0)
    }

    /// The greatest cost that is known or forecast (ns).
    fn greatest_ns(&self) -> f64 {
        self.power.map_or(self.last_ns, |power| power.forecast_ns)
    }
}

/// Judges runs whose settings have the knob [`WORKERS`].
pub fn judge(experiment: &Experiment, (cpus, at): (u32, u32), question: &Question) -> Scaling {
    let mut numbers: Vec<(u32, usize)> = Vec::new();
    for (row, setting) in experiment.settings.iter().enumerate() {
        let knob = setting.knobs.iter().find(|(name, _)| name == WORKERS);
        numbers.extend(knob.and_then(|(_, value)| value.parse().ok()).map(|number: u32| (number, row)));
    }
    numbers.sort_unstable();
    let first = numbers.first().map_or(0, |first| first.1);
    let points: Vec<ScalePoint> = numbers
        .iter()
        .map(|(workers, row)| point(experiment, (first, *row), (*workers, cpus), question))
        .collect();
    let not_sharing = numbers.iter().zip(&points).filter(|(_, point)| point.has_cpus);
    let own: Vec<(u32, usize)> = not_sharing.map(|(number, _)| *number).collect();
    let runs: Vec<(f64, f64)> = own
        .iter()
        .flat_map(|(workers, row)| {
            throughputs(experiment, *row).into_iter().map(|x| (f64::from(*workers), x))
        })
        .collect();
    let usl = usl::fit(&runs, question.risk);
    let forecast = usl.as_ref().map(|law| {
        let (one, (low, high)) = (law.at(1.0), law.range_at(&runs, f64::from(at)));
        (law.at(f64::from(at)) / one, low / one, high / one)
    });
    let used = if own.len() < 2 { &numbers } else { &own };
    let growing = growing(experiment, used, at, question);
    let mut carrying: Vec<u32> = runs.iter().map(|run| run.0 as u32).collect();
    carrying.dedup();
    let missing = missing(&carrying, cpus);
    Scaling { points, usl, carrying, missing, forecast, at, cpus, growing }
}

/// See [`Scaling::missing`]: spread evenly over the numbers that are not there.
fn missing(carrying: &[u32], cpus: u32) -> Vec<u32> {
    let count = usl::POINTS_MIN.saturating_sub(carrying.len());
    let free: Vec<u32> = (1..=cpus).filter(|number| !carrying.contains(number)).collect();
    if free.len() < count {
        return Vec::new();
    }
    let middle_of_part = |part: usize| (2 * part + 1) * free.len() / (2 * count);
    (0..count).filter_map(|part| free.get(middle_of_part(part)).copied()).collect()
}

/// Computes [`ScalePoint::has_cpus`]. Runs without a recording have no wait times.
fn has_cpus(experiment: &Experiment, (workers, setting): (u32, usize), cpus: u32) -> bool {
    let queued = |run: &Run| {
        let capacity = f64::from(workers) * run.wall_ns.max(1) as f64;
        Some(run.ns(Table::Ledger, Class::RunQueue.name())? as f64 / capacity)
    };
    let shares: Vec<f64> = experiment.runs_of(setting).filter_map(queued).collect();
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    workers <= cpus || (!shares.is_empty() && mean <= QUEUE_SHARE_MAX)
}

/// Work per time of each run, greater being better.
fn throughputs(experiment: &Experiment, setting: usize) -> Vec<f64> {
    let values = experiment.values(setting);
    match experiment.goal.more_is_better() {
        true => values,
        false => values.into_iter().map(|value| 1.0 / value).collect(),
    }
}

fn point(
    experiment: &Experiment,
    pair: (usize, usize),
    (workers, cpus): (u32, u32),
    question: &Question,
) -> ScalePoint {
    let throughput = |run: &Run| {
        let value = run.value(experiment.goal)?;
        Some(if experiment.goal.more_is_better() { value } else { 1.0 / value })
    };
    let question = Question { more_is_better: true, ..*question };
    let speedup = compare::paired(&experiment.pairs(pair, throughput), &question);
    let values = experiment.values(pair.1);
    let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let stack = speedup_stack::stack(experiment, pair, workers);
    let has_cpus = has_cpus(experiment, (workers, pair.1), cpus);
    ScalePoint { workers, has_cpus, value, speedup, stack }
}

/// Thread time of each class, lock, function and place of waiting, for the same work, against the number of workers.
fn growing(experiment: &Experiment, used: &[(u32, usize)], at: u32, question: &Question) -> Vec<Growing> {
    let (Some(first), Some(last)) = (used.first().copied(), used.last().copied()) else { return Vec::new() };
    let life = |run: &Run| run.facts.as_ref().map_or(0, |facts| facts.life_ns);
    let all = experiment.runs_of(last.1).map(life).max().unwrap_or(0) as f64;
    let mut keys: Vec<(Table, String)> = Vec::new();
    for row in experiment.runs_of(last.1).filter_map(|run| run.facts.as_ref()).flat_map(|facts| &facts.rows) {
        let wanted = row.table.is_time()
            && !matches!(row.table, Table::Finding | Table::Calls | Table::RunQueue | Table::Collections);
        if wanted && row.amount as f64 >= all * COST_SHARE_MIN {
            keys.push((row.table, row.name.clone()));
        }
    }
    keys.sort();
    keys.dedup();
    let mut growing: Vec<Growing> = keys
        .into_iter()
        .filter(|key| !(key.0 == Table::Ledger && key.1 == "useful"))
        .filter_map(|key| grow(experiment, &key, (used, first.0, last.0), (at, question.risk)))
        .collect();
    growing
        .retain(|one| one.power.is_none_or(|power| power.exponent > 0.2 && power.forecast_ns > one.first_ns));
    growing.sort_by(|a, b| {
        let surer = b.is_sure().cmp(&a.is_sure());
        surer.then(b.greatest_ns().total_cmp(&a.greatest_ns())).then_with(|| a.name.cmp(&b.name))
    });
    growing.truncate(GROWING_MAX);
    growing
}

fn grow(
    experiment: &Experiment,
    (table, name): &(Table, String),
    (used, first, last): (&[(u32, usize)], u32, u32),
    (at, risk): (u32, f64),
) -> Option<Growing> {
    let cost = |run: &Run| {
        let work = if experiment.goal == Goal::Work { run.progress? } else { 1.0 };
        Some(run.ns(*table, name)? as f64 / work)
    };
    let mut points: Vec<Point> = Vec::new();
    let mut means: Vec<(u32, f64)> = Vec::new();
    for (workers, row) in used {
        let costs: Vec<f64> = experiment.runs_of(*row).filter_map(cost).collect();
        let mean = costs.iter().sum::<f64>() / costs.len().max(1) as f64;
        means.push((*workers, mean));
        // Errors are relative to the mean of this number: a run that hardly waited would outweigh all others.
        let point = |ns: f64| Point { n: f64::from(*workers), ns, weight: (ns / mean).powi(2) };
        points.extend(costs.into_iter().map(point));
    }
    let of =
        |workers: u32| means.iter().find(|(number, _)| *number == workers).map_or(0.0, |(_, mean)| *mean);
    let (first_ns, last_ns) = (of(first), of(last));
    if last_ns <= first_ns {
        return None;
    }
    // What one worker alone does not have (waiting for each other) grows with the others: n - 1.
    let alone = first_ns < last_ns * 0.01;
    let shift = if alone { f64::from(first) } else { 0.0 };
    points.iter_mut().for_each(|point| point.n -= shift);
    let more = (f64::from(at) - shift) / (f64::from(last) - shift);
    let power = growth::fit(&points, false, risk).map(|Growth { exponent, low, high, .. }| Power {
        exponent,
        low,
        high,
        forecast_ns: last_ns * more.powf(exponent),
    });
    Some(Growing { table: *table, name: name.clone(), first_ns, last_ns, power })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;
    use crate::experiment::run::{FactRow, RunFacts, Setting};

    const CPUS: u32 = 2;
    const QUESTION: Question =
        Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: true, resamples: 500, trimmed: 0.2 };

    /// Five rounds with 1 to 8 workers. The time follows the law with σ = 0.05 and κ = 0.01, in three
    /// functions. With more workers than CPUs, each worker is runnable for the share `queued` of its time.
    fn experiment(seed: u64, queued: f64) -> Experiment {
        let numbers = [1u32, 2, 3, 4, 6, 8];
        let knobs = |workers: &u32| vec![(WORKERS.to_owned(), workers.to_string())];
        let settings =
            numbers.iter().map(|one| Setting { knobs: knobs(one), ..Setting::default() }).collect();
        let mut random = Random::part(seed, 6);
        let mut runs = Vec::new();
        for round in 0..5 {
            for (setting, workers) in numbers.iter().enumerate() {
                let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let n = f64::from(*workers);
                let scatter = 1e9 * (0.02 * normal).exp();
                let (parallel, serial, exchange) = (0.95 / n, 0.05, 0.01 * (n - 1.0));
                let wall = (parallel + serial + exchange) * scatter;
                let row = |table, name: &str, ns: f64| FactRow::time(table, name, ns as u64);
                let over = if *workers > CPUS { queued } else { 0.0 };
                let rows = vec![
                    row(Table::Ledger, Class::RunQueue.name(), n * wall * over),
                    row(Table::Wait, "compute", n * parallel * scatter),
                    row(Table::Wait, "alone", serial * scatter),
                    row(Table::Wait, "exchange", n * exchange * scatter),
                ];
                let facts = Some(RunFacts { life_ns: (n * wall) as u64, rows, ..RunFacts::default() });
                runs.push(Run { setting, round, wall_ns: wall as u64, facts, ..Run::default() });
            }
        }
        Experiment { settings, runs, ..Experiment::default() }
    }

    #[test]
    fn workers_that_share_cpus_do_not_carry_the_law_and_those_that_wait_for_each_other_do() {
        let found = judge(&experiment(1, 0.3), (CPUS, 24), &QUESTION);
        let own: Vec<u32> = found.points.iter().filter(|one| one.has_cpus).map(|one| one.workers).collect();
        assert_eq!((own, found.usl), (vec![1, 2], None));
        assert!(!found.growing.is_empty(), "{found:?}");
        assert!(
            found.growing.iter().all(|one| one.power.is_none()),
            "two numbers forecast nothing: {found:?}"
        );
        let found = judge(&experiment(1, 0.005), (CPUS, 24), &QUESTION);
        assert!(found.points.iter().all(|one| one.has_cpus));
        assert_eq!(found.usl.map(|law| law.points), Some(6));
        // Without a recording nothing is known of waiting.
        let mut bare = experiment(1, 0.0);
        bare.runs.iter_mut().for_each(|run| run.facts = None);
        assert_eq!(judge(&bare, (CPUS, 24), &QUESTION).usl, None);
    }

    #[test]
    fn a_run_that_hardly_waited_does_not_bend_the_growth() {
        let mut experiment = experiment(2, 0.0);
        let run = experiment.runs.iter_mut().find(|run| run.setting == 1).unwrap();
        let rows = &mut run.facts.as_mut().unwrap().rows;
        rows.iter_mut().find(|row| row.name == "exchange").unwrap().amount = 1000;
        let found = judge(&experiment, (CPUS, 24), &QUESTION);
        // n·(n - 1) against n - 1: a power between one and two.
        let growing = &found.growing[0];
        assert_eq!(growing.name, "exchange");
        assert!(growing.power.is_some_and(|power| (1.0..2.0).contains(&power.exponent)), "{growing:?}");
    }

    #[test]
    fn what_may_not_grow_at_all_is_behind_what_does() {
        let mut experiment = experiment(3, 0.0);
        // Costlier than all else, and so different from run to run that its growth may be chance.
        for run in &mut experiment.runs {
            let workers = f64::from([1u32, 2, 3, 4, 6, 8][run.setting]);
            let ns = (6e9 * workers.powf(0.35) * [0.05, 1.95, 0.05, 1.95, 1.0][run.round as usize]) as u64;
            let rows = &mut run.facts.as_mut().unwrap().rows;
            rows.push(FactRow::time(Table::Wait, "chance", ns));
        }
        let found = judge(&experiment, (CPUS, 24), &QUESTION);
        let (first, chance) =
            (&found.growing[0], found.growing.iter().find(|one| one.name == "chance").unwrap());
        assert!(first.name == "exchange" && first.is_sure(), "{found:?}");
        assert!(!chance.is_sure() && chance.greatest_ns() > first.greatest_ns(), "{chance:?}");
    }

    #[test]
    fn the_cost_that_grows_is_named_first_and_the_law_is_covered() {
        let (mut held, mut named) = (0, 0);
        for seed in 0..40 {
            let found = judge(&experiment(seed, 0.0), (CPUS, 24), &QUESTION);
            let law = found.usl.unwrap();
            let inside = |of: usl::Coefficient, truth: f64| of.low <= truth && truth <= of.high;
            held += u32::from(inside(law.sigma, 0.05) && inside(law.kappa, 0.01));
            let first = found.growing.first().map(|one| one.name.as_str());
            named += u32::from(first == Some("exchange"));
        }
        assert!(held >= 36 && named == 40, "{held} and {named} of 40");
    }

    #[test]
    fn numbers_of_workers_that_a_law_needs_are_named() {
        assert_eq!(missing(&[1, 2], 2), Vec::<u32>::new(), "the machine has no more CPUs");
        assert_eq!(missing(&[1, 2], 5), [3, 4, 5]);
        assert_eq!(missing(&[1, 2], 16), [5, 10, 14]);
        assert_eq!(missing(&[], 8), [1, 3, 5, 6, 8]);
        assert_eq!(missing(&[1, 2, 4, 8, 16], 16), Vec::<u32>::new(), "there are enough");
        let found = judge(&experiment(1, 0.3), (6, 24), &QUESTION);
        assert_eq!((found.carrying, found.usl.map(|law| law.points)), (vec![1, 2, 3, 4, 6], Some(5)));
        let mut few = experiment(1, 0.3);
        // No runs with 3, 4 and 8 workers.
        few.runs.retain(|run| ![2, 3, 5].contains(&run.setting));
        let found = judge(&few, (6, 24), &QUESTION);
        assert_eq!((found.carrying, found.usl, found.forecast), (vec![1, 2, 6], None, None));
        assert_eq!(found.missing, [3, 5]);
    }
}
