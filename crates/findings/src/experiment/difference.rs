//! All changes between two groups of runs: first the goal, then every figure of their recordings. The share
//! of wrong discoveries among the figures is at most [`WRONG_SHARE`].

use std::collections::BTreeSet;

use super::compare::{self, Change, Estimate, Question};
use super::discoveries::discoveries;
use super::run::{Experiment, FactRow, Measure, Run, Table};

/// Maximum share of wrong ones among the figures that are reported as changed.
pub const WRONG_SHARE: f64 = 0.05;

/// Runs with at least one wait that the time of a wait takes.
const RATIOS_MIN: usize = 3;

/// B against A.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The change of the goal.
    pub goal: Change,
    /// The figures rest on rounds in which both have a run.
    pub paired: bool,
    /// The population of the figures' intervals.
    pub basis: Basis,
    /// Rows of the recordings, table by table, the greatest change first.
    pub rows: Vec<RowChange>,
}

/// The population of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Runs: whether another run would show it.
    Runs,
    /// Blocks of time within one run of each: whether these two runs differed all along.
    Blocks,
}

/// One lock, function, ...
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// Of what kind.
    pub table: Table,
    /// Of which.
    pub name: String,
    /// The row's figures, in the order of [`Table::measures`]. The first one is always present.
    pub figures: Vec<Figure>,
}

/// One figure of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of what.
    pub measure: Measure,
    /// Mean of the runs of A, in the measure's unit.
    pub a: f64,
    /// Mean of B.
    pub b: f64,
    /// The change, with its interval. `None` if there are too few runs.
    pub change: Option<Estimate>,
    /// The trend, corrected for the number of figures.
    pub trend: Trend,
    /// For an unclear figure: number of runs of each that would find the smallest change that matters in four
    /// cases of five. It assumes that this is the only figure.
    pub runs_wanted: Option<u32>,
}

/// The trend of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trend {
    /// There is more of it: it is among the discoveries.
    More,
    /// There is less of it.
    Less,
    /// No discovery, and the interval contains no change that matters.
    Same,
    /// Neither.
    Unclear,
}

impl Trend {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Trend::More => "more",
            Trend::Less => "less",
            Trend::Same => "no-difference",
            Trend::Unclear => "cannot-tell",
        }
    }

    /// A change is shown.
    pub fn is_change(self) -> bool {
        matches!(self, Trend::More | Trend::Less)
    }
}

impl Figure {
    /// Relative change. `None` if A does not have it.
    pub fn relative(&self) -> Option<f64> {
        (self.a > 0.0).then(|| self.b / self.a - 1.0)
    }
}

impl RowChange {
    /// The first figure, by which rows are ordered.
    pub fn main(&self) -> &Figure {
        &self.figures[0]
    }

    /// Another one.
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.measure == measure)
    }

    /// How great the change is, in the unit of the first figure.
    fn size(&self) -> f64 {
        (self.main().b - self.main().a).abs()
    }
}

/// Compares two settings of an experiment, round by round.
pub fn between(experiment: &Experiment, (a, b): (usize, usize), question: &Question) -> Difference {
    let goal = experiment.goal;
    let question = Question { more_is_better: goal.more_is_better(), ..*question };
    let values = experiment.pairs((a, b), |run| run.value(goal));
    let runs = experiment.pairs((a, b), |run| run.facts.is_some().then(|| run.clone()));
    let (of_a, of_b): (Vec<Run>, Vec<Run>) = runs.into_iter().unzip();
    let rows = rows((&of_a, &of_b), true, &question);
    Difference { goal: compare::paired(&values, &question), paired: true, basis: Basis::Runs, rows }
}

/// Compares a setting of one experiment with one of another: nothing pairs their runs.
pub fn across(a: (&Experiment, usize), b: (&Experiment, usize), question: &Question) -> Difference {
    let goal = a.0.goal;
    let question = Question { more_is_better: goal.more_is_better(), ..*question };
    let values = |(experiment, setting): (&Experiment, usize)| -> Vec<f64> {
        experiment.runs_of(setting).filter_map(|run| run.value(goal)).collect()
    };
    let runs = |(experiment, setting): (&Experiment, usize)| -> Vec<Run> {
        experiment.runs_of(setting).filter(|run| run.facts.is_some()).cloned().collect()
    };
    let rows = rows((&runs(a), &runs(b)), false, &question);
    let goal = compare::unpaired(&values(a), &values(b), &question);
    Difference { goal, paired: false, basis: Basis::Runs, rows }
}

/// Runs that have facts, row by row.
pub(super) fn rows((a, b): (&[Run], &[Run]), paired: bool, question: &Question) -> Vec<RowChange> {
    let of = |runs: &[Run]| -> BTreeSet<(Table, String)> {
        let rows = runs.iter().filter_map(|run| run.facts.as_ref()).flat_map(|facts| &facts.rows);
        rows.map(|row| (row.table, row.name.clone())).collect()
    };
    let (of_a, of_b) = (of(a), of(b));
    // Where one side alone recorded allocations, the other's are not none: they are not known. So are collections of older sets.
    let has = |keys: &BTreeSet<(Table, String)>, table: Table| keys.iter().any(|key| key.0 == table);
    let is_known = |table| has(&of_a, table) && has(&of_b, table);
    let unknown: Vec<Table> =
        [Table::Allocation, Table::Collections].into_iter().filter(|table| !is_known(*table)).collect();
    let keys = of_a.union(&of_b).filter(|key| !unknown.contains(&key.0));
    let row = |(number, (table, name)): (usize, &(Table, String))| {
        let figure = |measure: &Measure| {
            let seed = (number * 8 + *measure as usize + 1) as u64;
            // A row that is there in some runs alone must not be trimmed away.
            let question = Question { seed: question.seed.wrapping_add(seed), trimmed: 0.0, ..*question };
            let of = |runs| series(runs, (*table, name), *measure);
            let mut found = figure((&of(a)?, &of(b)?), *measure, paired, &question);
            if *measure == Measure::TimeEach && ![a, b].iter().all(|runs| scatters(runs, (*table, name))) {
                (found.change, found.runs_wanted) = (None, None);
            }
            Some(found)
        };
        let figures = table.measures().iter().filter_map(figure).collect();
        RowChange { table: *table, name: name.clone(), figures }
    };
    let mut rows: Vec<RowChange> = keys.enumerate().map(row).collect();
    rows.retain(|row| !row.figures.is_empty());
    rows.retain(|row| row.table != Table::Collections || row.size() > 0.0 || row.main().a > 0.0);
    judge(&mut rows, question.matters);
    rows.sort_by(|a, b| {
        let order = a.table.cmp(&b.table).then_with(|| b.size().total_cmp(&a.size()));
        order.then_with(|| a.name.cmp(&b.name))
    });
    rows
}

/// Sets the trend of each figure, corrected for their number. Findings are derived from the other rows, so
/// they are dependent. Positive dependence leaves the share of wrong discoveries as it is (Benjamini and
/// Yekutieli 2001).
pub(super) fn judge(rows: &mut [RowChange], matters: f64) {
    let figures = || rows.iter().flat_map(|row| &row.figures);
    let p: Vec<f64> =
        figures().map(|figure| figure.change.as_ref().map_or(f64::NAN, |change| change.p)).collect();
    let found = discoveries(&p, WRONG_SHARE);
    for (figure, found) in rows.iter_mut().flat_map(|row| &mut row.figures).zip(found) {
        let Some(change) = &figure.change else { continue };
        let enough = matters * figure.a;
        figure.trend = match found {
            true if change.centre > 0.0 => Trend::More,
            true => Trend::Less,
            false if change.low >= -enough && change.high <= enough => Trend::Same,
            false => Trend::Unclear,
        };
        if figure.trend != Trend::Unclear {
            figure.runs_wanted = None;
        }
    }
}

/// A figure of a row in each run, 0 for a run without the row. `None` if no run has the figure, or if the
/// divisor is 0.
///
/// The time of one wait is the total time over the number of waits, and no mean of means. Each run
/// contributes that ratio and its own deviation (the ratio's first-order terms). So the mean is the ratio,
/// and the scatter is that of the runs.
fn series(runs: &[Run], (table, name): (Table, &str), measure: Measure) -> Option<Vec<f64>> {
    let of = |known: fn(&FactRow) -> Option<u64>| -> Option<Vec<f64>> {
        let rows: Vec<Option<&FactRow>> =
            runs.iter().filter_map(|run| run.facts.as_ref()).map(|facts| facts.row(table, name)).collect();
        // A row that is in no run counts as 0. A row that exists without this figure does not.
        let is_known =
            rows.iter().all(Option::is_none) || rows.iter().flatten().any(|row| known(row).is_some());
        is_known.then(|| rows.iter().map(|row| row.and_then(known).unwrap_or(0) as f64).collect())
    };
    let amounts = || of(|row| Some(row.amount));
    match measure {
        Measure::Time | Measure::Bytes => amounts(),
        Measure::Count => of(|row| row.count),
        Measure::Longest => of(|row| row.longest_ns),
        Measure::TimeEach => {
            let (amounts, counts) = (amounts()?, of(|row| row.count)?);
            let all: f64 = counts.iter().sum();
            let (ratio, mean) = (amounts.iter().sum::<f64>() / all, all / counts.len() as f64);
            let off = |(amount, count): (&f64, &f64)| ratio + (amount - ratio * count) / mean;
            (all > 0.0).then(|| amounts.iter().zip(&counts).map(off).collect())
        }
    }
}

/// First-order terms of a ratio show its scatter only if several runs have a divisor. A single run with all
/// of it lies on the ratio itself.
fn scatters(runs: &[Run], (table, name): (Table, &str)) -> bool {
    let facts = || runs.iter().filter_map(|run| run.facts.as_ref());
    let has = |row: &FactRow| row.count.is_some_and(|count| count > 0);
    let having = facts().filter(|facts| facts.row(table, name).is_some_and(has)).count();
    having >= RATIOS_MIN && 2 * having >= facts().count()
}

fn figure((a, b): (&[f64], &[f64]), measure: Measure, paired: bool, question: &Question) -> Figure {
    let change = if paired {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        compare::centre(&differences, question)
    } else {
        compare::two_centres(a, b, question)
    };
    let (mean_a, mean_b) = (mean(a), mean(b));
    let wanted = |found: &Estimate| {
        compare::runs_to_find(found, a.len().min(b.len()), (question.matters * mean_a, question.risk))
    };
    let runs_wanted = change.as_ref().filter(|_| mean_a > 0.0).map(wanted);
    Figure { measure, a: mean_a, b: mean_b, change, trend: Trend::Unclear, runs_wanted }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;
    use crate::experiment::run::{RunFacts, Setting};

    const QUESTION: Question =
        Question { seed: 0, matters: 0.03, risk: 0.05, more_is_better: false, resamples: 500, trimmed: 0.2 };

    /// Ten rounds. The amounts and counts of the rows of A and of B scatter by a hundredth.
    fn experiment(a: &[FactRow], b: &[FactRow]) -> Experiment {
        let mut random = Random::part(4, 4);
        let mut runs = Vec::new();
        for round in 0..10 {
            for (setting, rows) in [a, b].into_iter().enumerate() {
                let mut near = |value: u64| (value as f64 * (0.99 + 0.02 * random.unit())) as u64;
                let row = |row: &FactRow| FactRow {
                    amount: near(row.amount),
                    count: row.count.map(&mut near),
                    longest_ns: row.longest_ns.map(&mut near),
                    ..row.clone()
                };
                let facts = Some(RunFacts { rows: rows.iter().map(row).collect(), ..RunFacts::default() });
                runs.push(Run { setting, round, wall_ns: 1_000_000, facts, ..Run::default() });
            }
        }
        Experiment { settings: vec![Setting::default(); 2], runs, ..Experiment::default() }
    }

    fn lock(name: &str, ns: u64, waits: u64, longest: u64) -> FactRow {
        FactRow { count: Some(waits), longest_ns: Some(longest), ..FactRow::time(Table::Lock, name, ns) }
    }

    fn trends(found: &Difference, name: &str) -> Vec<(Measure, Trend)> {
        let row = found.rows.iter().find(|row| row.name == name).unwrap();
        row.figures.iter().map(|figure| (figure.measure, figure.trend)).collect()
    }

    #[test]
    fn a_lock_with_half_the_waits_is_compared_by_each_measure() {
        let a = [lock("m", 4_000_000, 1000, 90_000), lock("n", 5_000_000, 500, 80_000)];
        let b = [lock("m", 2_000_000, 500, 90_000), lock("n", 5_000_000, 500, 80_000)];
        let found = between(&experiment(&a, &b), (0, 1), &QUESTION);
        let same = Trend::Same;
        assert_eq!(
            trends(&found, "m"),
            [
                (Measure::Time, Trend::Less),
                (Measure::Count, Trend::Less),
                (Measure::TimeEach, same),
                (Measure::Longest, same)
            ]
        );
        // The near miss: one that is as it was.
        assert!(trends(&found, "n").iter().all(|(_, trend)| *trend == same), "{found:?}");
        let each = found.rows[0].figure(Measure::TimeEach).unwrap();
        assert!((3_900.0..4_100.0).contains(&each.a) && (3_900.0..4_100.0).contains(&each.b), "{each:?}");
    }

    #[test]
    fn the_time_of_a_wait_is_that_of_all_over_their_number() {
        let facts =
            |ns: u64, waits: u64| RunFacts { rows: vec![lock("m", ns, waits, 1)], ..RunFacts::default() };
        let none = RunFacts::default();
        let runs: Vec<Run> = [facts(100, 1), facts(900, 99), none]
            .map(|facts| Run { facts: Some(facts), ..Run::default() })
            .to_vec();
        let of = |runs: &[Run], measure| series(runs, (Table::Lock, "m"), measure);
        // Not the mean of 100 and 9, and a run without a wait is none.
        assert!((mean(&of(&runs, Measure::TimeEach).unwrap()) - 10.0).abs() < 1e-9);
        assert_eq!(of(&runs, Measure::Count), Some(vec![1.0, 99.0, 0.0]));
        // Without any wait there is no time of one.
        assert_eq!(of(&runs[2..], Measure::TimeEach), None);
        assert_eq!(of(&runs[2..], Measure::Longest), Some(vec![0.0]));
        // An older set does not contain the longest wait.
        let old = RunFacts {
            rows: vec![FactRow { longest_ns: None, ..lock("m", 5, 1, 1) }],
            ..RunFacts::default()
        };
        assert_eq!(of(&[Run { facts: Some(old), ..Run::default() }], Measure::Longest), None);
    }

    #[test]
    fn a_time_of_a_wait_that_few_runs_have_is_no_discovery() {
        let told = |waiting: usize| {
            let mut experiment = experiment(&[lock("m", 6_600, 1, 1)], &[lock("m", 5_400, 1, 1)]);
            for run in experiment.runs.iter_mut().filter(|run| run.round as usize >= waiting) {
                run.facts.as_mut().unwrap().rows.clear();
            }
            for run in experiment.runs.iter_mut().filter(|run| (run.round as usize) < waiting) {
                run.facts.as_mut().unwrap().rows[0].count = Some(1);
            }
            let found = between(&experiment, (0, 1), &QUESTION);
            found.rows[0].figure(Measure::TimeEach).unwrap().clone()
        };
        let one = told(1);
        assert_eq!((one.trend, &one.change), (Trend::Unclear, &None), "{one:?}");
        assert_eq!(told(10).trend, Trend::Less);
    }

    #[test]
    fn allocations_have_bytes_and_objects_and_are_compared_where_both_have_them() {
        let site = |bytes: u64, objects: u64| FactRow {
            table: Table::Allocation,
            name: "parse".to_owned(),
            amount: bytes,
            count: Some(objects),
            longest_ns: None,
        };
        let found = between(
            &experiment(&[site(133_100_000, 100_000)], &[site(10_900_000, 100_000)]),
            (0, 1),
            &QUESTION,
        );
        assert_eq!(trends(&found, "parse"), [(Measure::Bytes, Trend::Less), (Measure::Count, Trend::Same)]);
        assert_eq!(found.rows[0].figure(Measure::Time), None);
        let half = between(&experiment(&[site(100, 1)], &[lock("m", 5, 1, 1)]), (0, 1), &QUESTION);
        assert!(half.rows.iter().all(|row| row.table == Table::Lock), "{half:?}");
    }

    #[test]
    fn an_undecided_change_gives_the_needed_runs_and_one_run_gives_none() {
        let wild = |round: usize| lock("m", [1_000_000, 3_000_000][round % 2], 10, 5);
        let mut experiment = experiment(&[lock("m", 1, 1, 1)], &[lock("m", 1, 1, 1)]);
        for run in &mut experiment.runs {
            run.facts.as_mut().unwrap().rows[0] = wild(run.round as usize + run.setting * 3);
        }
        let found = between(&experiment, (0, 1), &QUESTION);
        let time = found.rows[0].main();
        assert_eq!(time.trend, Trend::Unclear, "{time:?}");
        assert!(time.runs_wanted.unwrap() > 10, "{time:?}");
        experiment.runs.truncate(2);
        let one = between(&experiment, (0, 1), &QUESTION);
        let figure = one.rows[0].main();
        assert_eq!((figure.trend, figure.change, figure.runs_wanted), (Trend::Unclear, None, None));
    }

    #[test]
    fn of_many_figures_without_a_change_hardly_one_is_claimed() {
        let (mut claimed, mut figures) = (0, 0);
        for seed in 0..20 {
            let mut random = Random::part(seed, 5);
            let names: Vec<String> = (0..30).map(|name| format!("lock {name}")).collect();
            let mut runs = Vec::new();
            for round in 0..10 {
                for setting in 0..2 {
                    let mut near = |value: f64| (value * (0.7 + 0.6 * random.unit())) as u64;
                    let row = |name: &String| lock(name, near(1e6), near(1e3), near(1e5));
                    let facts =
                        Some(RunFacts { rows: names.iter().map(row).collect(), ..RunFacts::default() });
                    runs.push(Run { setting, round, wall_ns: 1_000_000, facts, ..Run::default() });
                }
            }
            let same = Experiment { settings: vec![Setting::default(); 2], runs, ..Experiment::default() };
            let found = between(&same, (0, 1), &QUESTION);
            let all = || found.rows.iter().flat_map(|row| &row.figures);
            claimed += all().filter(|figure| figure.trend.is_change()).count();
            figures += all().count();
        }
        // Where nothing changed, every claim is wrong: the control allows one comparison of twenty to make any.
        assert!(figures == 2400 && claimed <= 12, "{claimed} of {figures}");
    }
}
