//! Everything that changed between two groups of runs: what they are judged by first, then every figure of their
//! recordings, with the share of wrong discoveries among these kept to [`WRONG_SHARE`].

use std::collections::BTreeMap;

use super::compare::{self, Change, Estimate, Question};
use super::discoveries::discoveries;
use super::run::{Experiment, Run, Table};

/// Of the rows that are said to have changed, at most this share is wrong.
pub const WRONG_SHARE: f64 = 0.05;

/// B against A.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Of what the runs are judged by.
    pub goal: Change,
    /// The figures rest on rounds in which both have a run.
    pub paired: bool,
    /// Figures of the recordings, table by table, the greatest change first.
    pub rows: Vec<RowChange>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct RowChange {
    /// Of what kind.
    pub table: Table,
    /// Of which.
    pub name: String,
    /// Mean of A: thread time a run (ns), or of a second of work where that is what runs are judged by.
    pub a_ns: f64,
    /// Mean of B.
    pub b_ns: f64,
    /// The change (ns), with its interval; `None` if there are too few runs.
    pub change: Option<Estimate>,
    /// How often, on average, where that was counted: of A, of B.
    pub counts: Option<(f64, f64)>,
    /// It is among the discoveries.
    pub is_real: bool,
}

impl RowChange {
    /// Relative change; `None` of what A does not have.
    pub fn relative(&self) -> Option<f64> {
        (self.a_ns > 0.0).then(|| self.b_ns / self.a_ns - 1.0)
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
    Difference { goal: compare::paired(&values, &question), paired: true, rows }
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
    Difference { goal: compare::unpaired(&values(a), &values(b), &question), paired: false, rows }
}

type Key = (Table, String);

fn rows((a, b): (&[Run], &[Run]), paired: bool, question: &Question) -> Vec<RowChange> {
    let mut keys: BTreeMap<Key, ()> = BTreeMap::new();
    for row in a.iter().chain(b).filter_map(|run| run.facts.as_ref()).flat_map(|facts| &facts.rows) {
        keys.insert((row.table, row.name.clone()), ());
    }
    let mut rows: Vec<RowChange> = keys
        .into_keys()
        .enumerate()
        .map(|(number, key)| row(key, (a, b), paired, &seeded(question, number)))
        .collect();
    mark_discoveries(&mut rows);
    rows.sort_by(|a, b| {
        let size = |row: &RowChange| (row.b_ns - row.a_ns).abs();
        a.table.cmp(&b.table).then_with(|| size(b).total_cmp(&size(a))).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn seeded(question: &Question, number: usize) -> Question {
    // A row that is there in some runs alone must not be trimmed away.
    Question { seed: question.seed.wrapping_add(number as u64 + 1), trimmed: 0.0, ..*question }
}

/// Findings are made of the other rows: they take no part in the correction for many, and claim nothing themselves.
fn mark_discoveries(rows: &mut [RowChange]) {
    let p: Vec<f64> =
        rows.iter().map(|row| row.change.as_ref().map_or(f64::NAN, |change| change.p)).collect();
    let real = discoveries(&p, WRONG_SHARE);
    for (row, real) in rows.iter_mut().zip(real) {
        row.is_real = real;
    }
}

fn row((table, name): Key, (a, b): (&[Run], &[Run]), paired: bool, question: &Question) -> RowChange {
    let ns = |runs: &[Run]| -> Vec<f64> {
        runs.iter().filter_map(|run| run.ns(table, &name)).map(|ns| ns as f64).collect()
    };
    let (of_a, of_b) = (ns(a), ns(b));
    let change = if paired {
        let differences: Vec<f64> = of_a.iter().zip(&of_b).map(|(a, b)| b - a).collect();
        compare::centre(&differences, question)
    } else {
        compare::two_centres(&of_a, &of_b, question)
    };
    let counts = count(a, table, &name).zip(count(b, table, &name));
    let (a_ns, b_ns) = (mean(&of_a), mean(&of_b));
    RowChange { table, name, a_ns, b_ns, change, counts, is_real: false }
}

fn count(runs: &[Run], table: Table, name: &str) -> Option<f64> {
    let of = |run: &Run| {
        let row = run.facts.as_ref()?.rows.iter().find(|row| row.table == table && row.name == name)?;
        Some(row.count? as f64)
    };
    let counts: Vec<f64> = runs.iter().filter_map(of).collect();
    let counted = matches!(table, Table::Lock | Table::Syscall);
    (counted && !runs.is_empty()).then(|| counts.iter().sum::<f64>() / runs.len() as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
