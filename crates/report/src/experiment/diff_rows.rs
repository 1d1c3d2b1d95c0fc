//! The tables of `holdup diff`: time by class, locks, syscalls, functions, allocations. Each has the values
//! before and after, and whether the change is real.

use holdup_findings::experiment::difference::{Basis, Figure, RowChange, Trend};
use holdup_findings::experiment::{Experiment, Measure, Table};

use super::page::Page;
use super::{Diff, change, number};
use crate::numbers::{bytes, counted, duration};
use crate::terminal::table::Column;

/// Rows of less than this share of the time of both are left out of the ledger's table.
const LEDGER_SHARE_MIN: f64 = 0.001;

/// Name, A, B, change.
const COLUMNS_WITHOUT_INTERVAL: usize = 4;

const TABLES: [(Table, &str); 7] = [
    (Table::Collections, "COLLECTIONS (thread time per run)"),
    (Table::Finding, "FINDINGS"),
    (Table::Lock, "LOCKS"),
    (Table::Syscall, "SYSCALLS"),
    (Table::Allocation, "ALLOCATIONS"),
    (Table::Function, "FUNCTIONS, RUNNING"),
    (Table::Wait, "PLACES, WAITING"),
];

/// Time by class.
pub(super) fn ledger(diff: &Diff, page: &mut Page) {
    let rows = || diff.difference.rows.iter().filter(|row| row.table == Table::Ledger);
    let size = |row: &RowChange| row.main().a.max(row.main().b);
    let whole: f64 = rows().map(size).sum();
    let mut kept: Vec<&RowChange> = rows().filter(|row| size(row) >= whole * LEDGER_SHARE_MIN).collect();
    kept.sort_by(|a, b| size(b).total_cmp(&size(a)));
    if kept.is_empty() {
        return;
    }
    let all = kept.len();
    kept.retain(|row| diff.rows.undecided || is_decided(row.main()));
    page.heading("WHERE THE TIME WENT (thread time per run)");
    let undecided = all - kept.len();
    page.table(&columns(diff), kept.into_iter().map(|row| cells(&row.name, row.main())).collect());
    add_undecided(undecided, page);
}

/// Whether the runs show if it changed. Also true for figures without an interval.
fn is_decided(figure: &Figure) -> bool {
    figure.trend != Trend::Unclear || figure.change.is_none()
}

/// Whether a row has a decided figure. In rows with several figures, those without an interval do not count.
fn has_decided(row: &RowChange) -> bool {
    let is_judged = |figure: &&Figure| figure.change.is_some();
    let mut judged = row.figures.iter().filter(is_judged).peekable();
    judged.peek().is_none() || judged.any(is_decided)
}

fn add_undecided(rows: usize, page: &mut Page) {
    if rows > 0 {
        page.faint(format!("  {} undecided (--all)", counted(rows as u64, "row")));
    }
}

/// All other tables, and how to read them.
pub(super) fn write(experiment: &Experiment, diff: &Diff, page: &mut Page) {
    for (table, title) in TABLES {
        rows(diff, (table, title), page);
    }
    let figures = || diff.difference.rows.iter().flat_map(|row| &row.figures);
    if figures().any(|figure| figure.change.is_some()) {
        page.faint(match diff.difference.basis {
            Basis::Runs => {
                "Intervals are 95 %. more, less: changes that hold jointly for all figures of the tables, at most 5 % of them wrong. same: no change that matters. Undecided: these runs do not decide (--all: ?)."
            }
            Basis::Blocks => {
                "Intervals are 95 %, over blocks of time within each run. all along: the runs differed throughout, jointly for all figures. One run of each does not show whether another run would differ."
            }
        });
    }
    let known = |setting: usize| {
        let mut facts = experiment.runs_of(setting).filter_map(|run| run.facts.as_ref());
        facts.any(|facts| facts.rows.iter().any(|row| row.table == Table::Allocation))
    };
    if known(0) != known(1) {
        let (with, without) = if known(0) { ("A", "B") } else { ("B", "A") };
        page.faint(format!(
            "Allocations are not compared: {with} was recorded with --allocs, {without} without."
        ));
    }
}

fn rows(diff: &Diff, (table, title): (Table, &str), page: &mut Page) {
    let mut rows: Vec<&RowChange> = diff.difference.rows.iter().filter(|row| row.table == table).collect();
    // The sum of a table comes first, because it is not a change of its own.
    let is_sum = |row: &RowChange| row.name.starts_with('(');
    let is_found = |row: &RowChange| row.figures.iter().any(|figure| figure.trend.is_change());
    let has_sum = matches!(table, Table::Allocation | Table::Collections);
    rows.sort_by_key(|row| (!(has_sum && is_sum(row)), !is_found(row)));
    if rows.is_empty() {
        return;
    }
    let found = rows.len();
    rows.retain(|row| diff.rows.undecided || has_sum && is_sum(row) || has_decided(row));
    let (all, undecided) = (rows.len(), found - rows.len());
    rows.truncate(diff.rows.max);
    page.heading(title);
    let single = table.measures().len() == 1;
    let mut columns = columns(diff);
    // With one run per command, most tables only have the values.
    if rows.iter().flat_map(|row| &row.figures).all(|figure| figure.change.is_none()) {
        columns.truncate(COLUMNS_WITHOUT_INTERVAL);
    }
    let cells = |name: &str, figure: &Figure| {
        let mut cells = cells(name, figure);
        cells.truncate(columns.len());
        cells
    };
    let of = |row: &&RowChange| -> Vec<Vec<String>> {
        if single {
            return vec![cells(&row.name, row.main())];
        }
        let shown = row.figures.iter().filter(|figure| diff.rows.undecided || is_decided(figure));
        let figures = shown.map(|figure| cells(label(table, figure.measure), figure));
        std::iter::once(vec![row.name.clone()]).chain(figures).collect()
    };
    page.table(&columns, rows.iter().flat_map(of).collect());
    if all > rows.len() {
        page.faint(format!("  … and {} more (--rows)", all - rows.len()));
    }
    add_undecided(undecided, page);
}

fn columns(diff: &Diff) -> Vec<Column<'static>> {
    let last = match diff.difference.basis {
        Basis::Runs => "verdict",
        Basis::Blocks => "all along",
    };
    let figures = ["A", "B", "change", "interval"].map(Column::Figure);
    [Column::Text("")].into_iter().chain(figures).chain([Column::Text(last)]).collect()
}

/// Label of a figure below a row's name.
fn label(table: Table, measure: Measure) -> &'static str {
    match (table, measure) {
        (Table::Lock, Measure::Time) => "  waited",
        (Table::Lock, Measure::Count) => "  waits",
        (Table::Lock, Measure::TimeEach) => "  each",
        (Table::Allocation, Measure::Count) => "  objects",
        (_, Measure::Time) => "  time",
        (_, Measure::Bytes) => "  bytes",
        (_, Measure::Count) => "  calls",
        (_, Measure::TimeEach) => "  each",
        (_, Measure::Longest) => "  longest",
    }
}

fn cells(name: &str, figure: &Figure) -> Vec<String> {
    let said = |value: f64| amount(figure.measure, value);
    let relative = match figure.relative() {
        // With sampled bytes, 0 may be a small number.
        Some(relative) if figure.b > 0.0 || figure.measure == Measure::Bytes => change(relative),
        Some(_) => "removed".to_owned(),
        None if figure.b > 0.0 => "new".to_owned(),
        None => String::new(),
    };
    let interval = figure.change.as_ref().map_or(String::new(), |found| {
        format!("{} to {}", signed(figure.measure, found.low), signed(figure.measure, found.high))
    });
    let trend = match (figure.trend, &figure.change) {
        (Trend::More, _) => "more",
        (Trend::Less, _) => "less",
        (Trend::Same, _) => "same",
        (Trend::Unclear, Some(_)) => "?",
        (Trend::Unclear, None) => "",
    };
    vec![name.to_owned(), said(figure.a), said(figure.b), relative, interval, trend.to_owned()]
}

fn amount(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Time | Measure::TimeEach | Measure::Longest => duration(value.round() as u64),
        Measure::Bytes => bytes(value.round() as u64),
        Measure::Count => number(value),
    }
}

fn signed(measure: Measure, value: f64) -> String {
    let sign = if value < 0.0 { '-' } else { '+' };
    format!("{sign}{}", amount(measure, value.abs()))
}

#[cfg(test)]
mod tests {
    use holdup_findings::experiment::compare::Estimate;

    use super::*;

    fn figure(trend: Trend, is_judged: bool) -> Figure {
        let change = is_judged.then(|| Estimate { low: -1.0, high: 1.0, ..Estimate::default() });
        Figure { measure: Measure::Time, a: 1.0, b: 1.0, change, trend, runs_wanted: None }
    }

    #[test]
    fn rows_without_a_decided_figure_are_left_out() {
        let row = |figures: Vec<Figure>| RowChange { table: Table::Lock, name: "l".into(), figures };
        assert!(!has_decided(&row(vec![figure(Trend::Unclear, true), figure(Trend::Unclear, false)])));
        assert!(has_decided(&row(vec![figure(Trend::Unclear, true), figure(Trend::More, true)])));
        assert!(has_decided(&row(vec![figure(Trend::Same, true)])));
        assert!(has_decided(&row(vec![figure(Trend::Unclear, false)])), "too few runs to ask");
    }
}
