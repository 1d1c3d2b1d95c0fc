//! The answer of `holdup scale`: speed-up by number of workers, the law, where the capacity goes, and what grows.

use super::compare::{self, Change, Question};
use super::growth::{self, Growth, Point};
use super::run::{Experiment, Goal, Run, Table};
use super::speedup_stack::{self, SpeedupStack};
use super::usl::{self, Usl};

/// The knob that says how many workers there are.
pub const WORKERS: &str = "workers";
/// Growing costs that are told.
const GROWING_MAX: usize = 12;
/// A cost below this share of all CPU time at the greatest number is not looked at.
const COST_SHARE_MIN: f64 = 0.005;

/// What runs with different numbers of workers say.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// By number of workers.
    pub points: Vec<ScalePoint>,
    /// The law, from the numbers of workers that the machine has CPUs for.
    pub usl: Option<Usl>,
    /// Speed-up by the law at the number that was asked for: best, least, greatest.
    pub forecast: Option<(f64, f64, f64)>,
    /// For how many workers something is to be foretold.
    pub at: u32,
    /// CPUs of the machine.
    pub cpus: u32,
    /// What grows with the workers, the one that costs the most at `at` first.
    pub growing: Vec<Growing>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePoint {
    /// How many.
    pub workers: u32,
    /// Mean of what runs are judged by.
    pub value: f64,
    /// Speed-up against the least number of workers, with its interval.
    pub speedup: Change,
    /// Where the capacity goes.
    pub stack: Option<SpeedupStack>,
}

/// A cost that grows with the workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Growing {
    /// What kind.
    pub table: Table,
    /// Which.
    pub name: String,
    /// Thread time for the same work at the least number of workers (ns).
    pub first_ns: f64,
    /// At the greatest number that the machine has CPUs for (or the greatest of all).
    pub last_ns: f64,
    /// The power with which it grows; its interval is wide where few points carry it.
    pub exponent: f64,
    /// Interval of the exponent, where there are enough points for one.
    pub interval: Option<(f64, f64)>,
    /// What it will cost at the number that was asked for (ns).
    pub forecast_ns: f64,
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
    let points =
        numbers.iter().map(|(workers, row)| point(experiment, (first, *row), *workers, question)).collect();
    let runs: Vec<(f64, f64)> = numbers
        .iter()
        .filter(|(workers, _)| *workers <= cpus)
        .flat_map(|(workers, row)| {
            throughputs(experiment, *row).into_iter().map(|x| (f64::from(*workers), x))
        })
        .collect();
    let usl = usl::fit(&runs, question.risk);
    let forecast = usl.as_ref().map(|law| {
        let (one, (low, high)) = (law.at(1.0), law.range_at(&runs, f64::from(at)));
        (law.at(f64::from(at)) / one, low / one, high / one)
    });
    let growing = growing(experiment, &numbers, (cpus, at), question);
    Scaling { points, usl, forecast, at, cpus, growing }
}

/// Work per time of each run, greater being better.
fn throughputs(experiment: &Experiment, setting: usize) -> Vec<f64> {
    let values = experiment.values(setting);
    match experiment.goal.more_is_better() {
        true => values,
        false => values.into_iter().map(|value| 1.0 / value).collect(),
    }
}

fn point(experiment: &Experiment, pair: (usize, usize), workers: u32, question: &Question) -> ScalePoint {
    let throughput = |run: &Run| {
        let value = run.value(experiment.goal)?;
        Some(if experiment.goal.more_is_better() { value } else { 1.0 / value })
    };
    let question = Question { more_is_better: true, ..*question };
    let speedup = compare::paired(&experiment.pairs(pair, throughput), &question);
    let values = experiment.values(pair.1);
    let value = values.iter().sum::<f64>() / values.len().max(1) as f64;
    ScalePoint { workers, value, speedup, stack: speedup_stack::stack(experiment, pair, workers) }
}

/// Thread time of each class, lock, function and place of waiting, for the same work, against the number of workers.
fn growing(
    experiment: &Experiment,
    numbers: &[(u32, usize)],
    (cpus, at): (u32, u32),
    question: &Question,
) -> Vec<Growing> {
    let mut used: Vec<(u32, usize)> =
        numbers.iter().copied().filter(|(workers, _)| *workers <= cpus).collect();
    if used.len() < 2 {
        used = numbers.to_vec();
    }
    let (Some(first), Some(last)) = (used.first().copied(), used.last().copied()) else { return Vec::new() };
    let life = |run: &Run| run.facts.as_ref().map_or(0, |facts| facts.life_ns);
    let all = experiment.runs_of(last.1).map(life).max().unwrap_or(0) as f64;
    let mut keys: Vec<(Table, String)> = Vec::new();
    for row in experiment.runs_of(last.1).filter_map(|run| run.facts.as_ref()).flat_map(|facts| &facts.rows) {
        let wanted = !matches!(row.table, Table::Finding | Table::Calls | Table::RunQueue);
        if wanted && row.ns as f64 >= all * COST_SHARE_MIN {
            keys.push((row.table, row.name.clone()));
        }
    }
    keys.sort();
    keys.dedup();
    let mut growing: Vec<Growing> = keys
        .into_iter()
        .filter(|key| !(key.0 == Table::Ledger && key.1 == "useful"))
        .filter_map(|key| grow(experiment, &key, (&used, first.0, last.0), (at, question.risk)))
        .collect();
    growing.retain(|one| one.exponent > 0.2 && one.forecast_ns > one.first_ns);
    growing.sort_by(|a, b| b.forecast_ns.total_cmp(&a.forecast_ns).then_with(|| a.name.cmp(&b.name)));
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
        means.push((*workers, costs.iter().sum::<f64>() / costs.len().max(1) as f64));
        points.extend(costs.into_iter().map(|ns| Point { n: f64::from(*workers), ns, weight: 1.0 }));
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
    let fitted = growth::fit(&points, false, risk);
    let (from, to) = (f64::from(first) - shift, f64::from(last) - shift);
    let exponent = match &fitted {
        Some(Growth { exponent, .. }) => *exponent,
        None if from > 0.0 && first_ns > 0.0 => (last_ns / first_ns).ln() / (to / from).ln(),
        None => 1.0,
    };
    let forecast_ns = last_ns * ((f64::from(at) - shift) / to).powf(exponent);
    let interval = fitted.map(|growth| (growth.low, growth.high));
    Some(Growing { table: *table, name: name.clone(), first_ns, last_ns, exponent, interval, forecast_ns })
}
