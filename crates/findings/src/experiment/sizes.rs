//! # superlinear-growth: Time grows faster than the input
//!
//! ## Symptoms
//! `holdup sweep --size n=1k,3k,10k,30k,100k` runs a program with inputs of different sizes. It measures the
//! growth of the run's length, of the time in each function, and of the time in each wait.
//!
//! ## Why it hurts
//! A tenth of the time at the tested size is nearly all of the time at ten times the size.
//!
//! ## How it decides
//! Each time is fitted as a·n^b. From five sizes on, the run's length has an additional constant for work
//! that does not depend on the size. A finding names functions and waits for which the whole interval of b is
//! above 1.2. They must take at least a twentieth of the time at the greatest size. The one that takes the
//! most comes first.
//!
//! ## What to do
//! Search for a loop in a loop. A list is searched for each element, a table is copied each time it grows, or a
//! queue is scanned for expired entries.
//!
//! ## Blind spots
//! A power needs at least four sizes, with a constant five. A range below a factor of ten shows little. n·log
//! n has a b of about 1.1 at a million and gives no finding. Caches that overflow bend a curve although no
//! loop is wrong.
//!
//! ## References
//! - Goldsmith, Aiken, Wilkerson (FSE 2007), *Measuring Empirical Computational Complexity*
//! - Coppa, Demetrescu, Finocchi (PLDI 2012), *Input-Sensitive Profiling*

use super::growth::{self, Growth, Point};
use super::run::{Experiment, Goal, Run, Table};

/// An exponent is superlinear if it is above this with its whole interval.
const SUPERLINEAR: f64 = 1.2;
/// … and if it is of something that takes this share of the time at the greatest size.
const SHARE_MIN: f64 = 0.05;
/// On-CPU time rests on samples: below this time (ns) it counts for less.
const SURE_NS: f64 = 50e6;

/// How time grows with the size.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// The knob that is the size.
    pub knob: String,
    /// By size: the number, and the mean length (ns).
    pub points: Vec<(f64, f64)>,
    /// Of the whole.
    pub whole: Option<Growth>,
    /// Functions and waits with a notable share at the greatest size, the one that takes the most first.
    pub rows: Vec<SizeRow>,
}

/// One function, or place of waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeRow {
    /// The kind of time.
    pub table: Table,
    /// Which.
    pub name: String,
    /// Mean thread time at the greatest size (ns).
    pub last_ns: f64,
    /// Share of the thread time at the greatest size that is not idle.
    pub share: f64,
    /// How it grows.
    pub growth: Growth,
    /// `superlinear-growth` is raised for it.
    pub superlinear: bool,
}

/// Parses `10k` as 10,000. Also accepts M, G, and plain numbers.
pub fn parse_size(text: &str) -> Option<f64> {
    let (digits, scale) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'm' | 'M') => (&text[..at], 1e6),
        (at, 'g' | 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().map(|number| number * scale).filter(|size| *size > 0.0 && size.is_finite())
}

/// Judges runs whose settings differ in one knob that is a number.
pub fn judge(experiment: &Experiment, risk: f64) -> Sizes {
    let size =
        |run: &Run| experiment.settings[run.setting].knobs.first().and_then(|(_, value)| parse_size(value));
    let good: Vec<(f64, &Run)> = experiment
        .runs
        .iter()
        .filter(|run| run.is_good())
        .filter_map(|run| Some((size(run)?, run)))
        .collect();
    let knob = experiment
        .settings
        .first()
        .and_then(|one| one.knobs.first())
        .map_or(String::new(), |one| one.0.clone());
    let point = |n: f64, ns: f64| Point { n, ns, weight: 1.0 };
    let length = |run: &Run| match experiment.goal {
        Goal::Cost => run.progress,
        _ => Some(run.wall_ns as f64),
    };
    let whole: Vec<Point> = good.iter().filter_map(|(n, run)| Some(point(*n, length(run)?))).collect();
    let mut numbers: Vec<f64> = good.iter().map(|(n, _)| *n).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let points =
        numbers.iter().map(|n| (*n, mean(whole.iter().filter(|point| point.n == *n).map(|point| point.ns))));
    let points: Vec<(f64, f64)> = points.collect();
    let last = numbers.last().copied().unwrap_or(0.0);
    Sizes { knob, points, whole: growth::fit(&whole, true, risk), rows: rows(&good, last, risk) }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

fn rows(good: &[(f64, &Run)], last: f64, risk: f64) -> Vec<SizeRow> {
    let at_last: Vec<&Run> = good.iter().filter(|(n, _)| *n == last).map(|(_, run)| *run).collect();
    let on_cpu = |run: &&Run| -> f64 {
        let classes = crate::derive::class::Class::ON_CPU;
        classes.iter().filter_map(|class| run.ns(Table::Ledger, class.name())).sum::<u64>() as f64
    };
    let running = mean(at_last.iter().map(on_cpu));
    let wall = mean(at_last.iter().map(|run| run.wall_ns as f64));
    let mut keys: Vec<(Table, String)> = Vec::new();
    for row in at_last.iter().filter_map(|run| run.facts.as_ref()).flat_map(|facts| &facts.rows) {
        if matches!(row.table, Table::Ledger | Table::Function | Table::Calls | Table::Wait | Table::Lock) {
            keys.push((row.table, row.name.clone()));
        }
    }
    keys.sort();
    keys.dedup();
    let mut rows = Vec::new();
    for (table, name) in keys {
        let of_cpu = matches!(table, Table::Function | Table::Calls);
        let last_ns = mean(at_last.iter().filter_map(|run| run.ns(table, &name)).map(|ns| ns as f64));
        let share = last_ns / if of_cpu { running } else { wall }.max(1.0);
        if share < SHARE_MIN {
            continue;
        }
        let point = |(n, run): &(f64, &Run)| {
            let ns = run.ns(table, &name)? as f64;
            Some(Point { n: *n, ns, weight: (ns / SURE_NS).min(1.0) })
        };
        let points: Vec<Point> = good.iter().filter_map(point).collect();
        let Some(growth) = growth::fit(&points, false, risk) else { continue };
        // A class of the ledger is a sum. Only its parts are named.
        let superlinear = growth.low > SUPERLINEAR && table != Table::Ledger;
        rows.push(SizeRow { table, name, last_ns, share, growth, superlinear });
    }
    rows.sort_by(|a, b| {
        let rank = |row: &SizeRow| (!row.superlinear, row.table == Table::Calls);
        rank(a).cmp(&rank(b)).then_with(|| b.last_ns.total_cmp(&a.last_ns)).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::run::{FactRow, RunFacts, Setting};

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [parse_size("10k"), parse_size("1.5M"), parse_size("7")],
            [Some(1e4), Some(1.5e6), Some(7.0)]
        );
        assert_eq!([parse_size(""), parse_size("k"), parse_size("-1"), parse_size("é")], [None; 4]);
    }

    #[test]
    fn the_function_that_grows_is_named() {
        let sizes = ["1k", "3k", "10k", "30k"];
        let setting =
            |size: &&str| Setting { knobs: vec![("n".into(), (*size).into())], ..Setting::default() };
        let mut runs = Vec::new();
        for (setting, size) in sizes.iter().enumerate() {
            for round in 0..3 {
                let n = parse_size(size).unwrap();
                let times = [("scan", n * n), ("parse", 20_000.0 * n), ("sort", 1500.0 * n * n.ln())];
                let row = |(name, ns): (&str, f64)| {
                    FactRow::time(Table::Function, name, (ns * (1.0 + 0.02 * f64::from(round))) as u64)
                };
                let wall_ns = times.iter().map(|(_, ns)| *ns as u64).sum();
                let mut rows: Vec<FactRow> = times.map(row).to_vec();
                rows.push(FactRow::time(Table::Ledger, "useful", wall_ns));
                let facts = Some(RunFacts { rows, ..RunFacts::default() });
                runs.push(Run { setting, round, wall_ns, facts, ..Run::default() });
            }
        }
        let experiment =
            Experiment { settings: sizes.iter().map(setting).collect(), runs, ..Experiment::default() };
        let found = judge(&experiment, 0.05);
        let named: Vec<&str> =
            found.rows.iter().filter(|row| row.superlinear).map(|row| row.name.as_str()).collect();
        assert_eq!(named, ["scan"]);
        assert!((found.rows[0].growth.exponent - 2.0).abs() < 0.15);
        assert_eq!(found.points.len(), 4);
    }
}
