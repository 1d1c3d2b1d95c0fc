//! `holdup diff`: the verdict, then what changed in the recordings.

use holdup_findings::experiment::compare::{BOOTSTRAP_MIN, Change, Verdict};
use holdup_findings::experiment::difference::RowChange;
use holdup_findings::experiment::{Goal, Table};

use super::page::Page;
use super::{Diff, Shown, change, head, number, range, signed_time, value};
use crate::numbers::{counted, duration};
use crate::terminal::table::Column;
use crate::text::Tint;

/// Rows of less than this share of the time of both are left out of the ledger's table.
const LEDGER_SHARE_MIN: f64 = 0.001;

pub(super) fn write(shown: &Shown, diff: &Diff, page: &mut Page) {
    page.text(format!("A  {}", diff.names.0));
    page.text(format!("B  {}", diff.names.1));
    if diff.recordings.is_none() {
        head::settings(shown, page);
    }
    verdict(shown.experiment.goal, diff, page);
    if diff.within.is_empty() {
        ledger(diff, page);
    } else {
        within(diff, page);
    }
    for (table, title) in TABLES {
        rows(diff, (table, title), page);
    }
    if diff.difference.rows.iter().any(|row| row.change.is_some()) {
        page.faint(
            "Intervals are of 95 %. 'real' marks changes that hold with all rows of the tables taken together: of those, \
             one in twenty is wrong at the most.",
        );
    }
    if let Some((a, b)) = &diff.recordings {
        page.faint(format!("Stacks: holdup export {b} --to flamegraph --against {a} -o diff.svg"));
    }
    head::foot(shown, page);
}

const TABLES: [(Table, &str); 5] = [
    (Table::Finding, "FINDINGS"),
    (Table::Lock, "LOCKS"),
    (Table::Syscall, "SYSCALLS"),
    (Table::Function, "FUNCTIONS, RUNNING"),
    (Table::Wait, "PLACES, WAITING"),
];

fn verdict(goal: Goal, diff: &Diff, page: &mut Page) {
    let found = &diff.difference.goal;
    let values = format!("A {}, B {}", value(goal, found.a), value(goal, found.b));
    if found.runs < 2 {
        let text = format!("B against A: {} ({values}).", change(found.relative));
        page.verdict(Tint::Strong, text);
        page.text(match found.runs {
            0 => "No run of both succeeded: nothing can be compared.".to_owned(),
            _ => {
                "One run of each: how much runs differ from each other is not known, so this may be chance. \
                  `holdup diff --a CMD --b CMD` tells."
                    .to_owned()
            }
        });
        return;
    }
    let tint = match found.verdict {
        Verdict::Faster => Tint::Good,
        Verdict::Slower => Tint::Bad,
        Verdict::Same => Tint::Strong,
        Verdict::Unclear => Tint::Warning,
    };
    page.verdict(tint, said(goal, found));
    let unit = if diff.difference.paired { "pair" } else { "run" };
    let basis = if found.runs < BOOTSTRAP_MIN { "Student's t" } else { "bootstrap" };
    page.text(format!(
        "{values}; {} (95 % interval by {basis}, {}).",
        range(found.low, found.high),
        counted(found.runs as u64, unit)
    ));
    more(found, page);
}

/// The verdict in words.
fn said(goal: Goal, found: &Change) -> String {
    let what = match goal {
        Goal::Wall => "time",
        Goal::Work => "work a second",
        Goal::Rate | Goal::Cost => "of the measure",
    };
    let size = change(found.relative);
    match found.verdict {
        Verdict::Faster => format!("B is faster: {size} {what}."),
        Verdict::Slower => format!("B is slower: {size} {what}."),
        Verdict::Same => format!("No difference that matters: {size} {what}."),
        Verdict::Unclear => format!("Cannot tell: {size} {what}."),
    }
}

fn more(found: &Change, page: &mut Page) {
    if found.verdict != Verdict::Unclear {
        return;
    }
    match found.runs_wanted {
        Some(wanted) if wanted as usize > found.runs => page.text(format!(
            "{} more of each would find the smallest change that matters in four cases of five (--resume, -n {wanted}).",
            counted(u64::from(wanted) - found.runs as u64, "run")
        )),
        Some(_) => page.text("The change is near the smallest one that matters: more runs (-n) would narrow it down."),
        None => page.text(
            "So much do runs differ here that a thousand would not tell: a quieter machine, or longer runs, would.",
        ),
    }
}

fn ledger(diff: &Diff, page: &mut Page) {
    let rows: Vec<&RowChange> = diff
        .difference
        .rows
        .iter()
        .filter(|row| matches!(row.table, Table::Ledger | Table::RunQueue))
        .collect();
    let whole: f64 =
        rows.iter().filter(|row| row.table == Table::Ledger).map(|row| row.a_ns.max(row.b_ns)).sum();
    let mut kept: Vec<&RowChange> = rows
        .into_iter()
        .filter(|row| row.table == Table::Ledger && row.a_ns.max(row.b_ns) >= whole * LEDGER_SHARE_MIN)
        .collect();
    kept.sort_by(|a, b| b.a_ns.max(b.b_ns).total_cmp(&a.a_ns.max(a.b_ns)));
    if !kept.is_empty() {
        page.heading("WHERE THE TIME WENT (thread time a run)");
        page.table(&columns(false), kept.into_iter().map(|row| cells(row, false)).collect());
    }
}

fn rows(diff: &Diff, (table, title): (Table, &str), page: &mut Page) {
    let mut rows: Vec<&RowChange> = diff.difference.rows.iter().filter(|row| row.table == table).collect();
    rows.sort_by_key(|row| !row.is_real);
    let all = rows.len();
    rows.truncate(diff.rows);
    if rows.is_empty() {
        return;
    }
    let counted = matches!(table, Table::Lock | Table::Syscall);
    page.heading(title);
    page.table(&columns(counted), rows.iter().map(|row| cells(row, counted)).collect());
    if all > rows.len() {
        page.faint(format!("  … and {} more (--rows)", all - rows.len()));
    }
}

fn columns(counts: bool) -> Vec<Column<'static>> {
    let mut columns = vec![Column::Text(""), Column::Figure("A"), Column::Figure("B")];
    columns.push(Column::Figure("change"));
    match counts {
        true => columns.extend([Column::Figure("times A"), Column::Figure("times B")]),
        false => columns.push(Column::Figure("interval")),
    }
    columns.push(Column::Text("real"));
    columns
}

fn cells(row: &RowChange, counts: bool) -> Vec<String> {
    let interval = row.change.as_ref();
    let relative = match row.relative() {
        Some(relative) if row.b_ns > 0.0 => change(relative),
        Some(_) => "gone".to_owned(),
        None => "new".to_owned(),
    };
    let mut cells = vec![
        row.name.clone(),
        duration(row.a_ns.round() as u64),
        duration(row.b_ns.round() as u64),
        relative,
    ];
    match (row.counts, interval) {
        (Some((a, b)), _) if counts => cells.extend([number(a), number(b)]),
        _ if counts => cells.extend([String::new(), String::new()]),
        (_, Some(found)) => cells.push(format!("{} to {}", signed_time(found.low), signed_time(found.high))),
        _ => cells.push(String::new()),
    }
    cells.push(if row.is_real { "yes".to_owned() } else { String::new() });
    cells
}

/// Threads in each class, over blocks of time.
fn within(diff: &Diff, page: &mut Page) {
    page.heading("WHERE THE TIME WENT (threads in each class, on average)");
    let rows = diff.within.iter().map(|row| {
        let interval = row.change.as_ref();
        vec![
            row.class.name().to_owned(),
            format!("{:.3}", row.a),
            format!("{:.3}", row.b),
            format!("{:+.3}", row.b - row.a),
            interval.map_or(String::new(), |found| format!("{:+.3} to {:+.3}", found.low, found.high)),
        ]
    });
    let columns = [
        Column::Text(""),
        Column::Figure("A"),
        Column::Figure("B"),
        Column::Figure("change"),
        Column::Figure("interval"),
    ];
    page.table(&columns, rows.collect());
    page.faint(
        "The intervals are over blocks of time within each run: they tell whether the runs differed all along, not \
         whether another run would.",
    );
}
