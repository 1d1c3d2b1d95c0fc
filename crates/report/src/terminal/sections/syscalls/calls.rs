//! What calls were made on: tables of times, objects and errors, and the heaviest as histograms.

use holdup_findings::derive::calls::{CallUse, Calls, Histogram, bounds};
use holdup_findings::wording::error_name;

use crate::numbers::{bytes, count, counted, duration, share, whole_percent};
use crate::terminal::View;
use crate::terminal::sections::nothing;
use crate::terminal::table::{self, Column};
use crate::text::{clean, width};

const ROWS_MAX: usize = 15;
/// Uses that are shown as histograms.
const HISTOGRAMS_MAX: usize = 3;
const BAR: usize = 24;

pub(super) fn lines(view: &View) -> Vec<String> {
    let calls = &view.analysis.derived.calls;
    if calls.by_object.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    if calls.exact {
        lines.extend(times(view, &calls.by_syscall, "time in calls"));
        lines.push(nothing(
            view,
            "calls: all counted · time: from entry to return, waiting included · <: to a power of two",
        ));
        lines.extend(ring_operations(view, calls));
        lines.push(String::new());
    }
    lines.extend(objects(view, calls));
    for used in calls.by_object.iter().filter(|used| used.results.total() > 0).take(HISTOGRAMS_MAX) {
        lines.push(String::new());
        lines.extend(histograms(view, used));
    }
    lines
}

/// Operations through io_uring.
fn ring_operations(view: &View, calls: &Calls) -> Vec<String> {
    if calls.ring_operations.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new()];
    lines.extend(times(view, &calls.ring_operations, "io_uring"));
    let each = calls
        .requests_each()
        .map_or_else(String::new, |each| format!(", {each:.1} requests per io_uring_enter"));
    lines.push(nothing(view, &format!("from submission to completion{each}")));
    lines
}

/// How long they took, the most time first.
fn times(view: &View, uses: &[CallUse], title: &'static str) -> Vec<String> {
    let mut ranked: Vec<&CallUse> = uses.iter().collect();
    ranked.sort_by_key(|used| (std::cmp::Reverse(used.time_ns), used.syscall));
    let figures = ["calls", "failed", "time", "mean", "median <", "99 % <", "longest"];
    let mut columns = vec![Column::Text(title)];
    columns.extend(figures.map(Column::Figure));
    let below = |used: &CallUse, part| {
        used.times.quantile(part).map_or_else(|| "-".to_owned(), |(_, below)| duration(below))
    };
    let row = |used: &&CallUse| {
        vec![
            used.name.to_owned(),
            count(used.count),
            count(used.errors),
            duration(used.time_ns),
            used.mean_ns().map_or_else(|| "-".to_owned(), duration),
            below(used, 0.5),
            below(used, 0.99),
            duration(used.time_max_ns),
        ]
    };
    let rows: Vec<Vec<String>> = ranked.iter().take(ROWS_MAX).map(row).collect();
    table::lines(&columns, &rows, view.style)
}

fn objects(view: &View, calls: &Calls) -> Vec<String> {
    let mut columns = vec![Column::Text("call"), Column::Text("on")];
    columns.extend(["by", "calls", "returned", "failed"].map(Column::Figure));
    columns.push(Column::Figure("mostly"));
    let row = |(way, used): &(&str, &CallUse)| {
        vec![
            format!("{way}{}", clean(&call_name(used))),
            clean(&used.object_name),
            count(used.threads.len() as u64),
            count(used.count),
            if used.results.total() > 0 { bytes(used.returned) } else { "-".to_owned() },
            count(used.errors),
            used.by_error.first().map_or_else(String::new, |(error, failed)| {
                format!("{} {}", error_name(*error), whole_percent(share(*failed, used.count)))
            }),
        ]
    };
    let through_rings = calls.ring_by_object.iter().map(|used| ("io_uring ", used));
    let mut all: Vec<(&str, &CallUse)> =
        calls.by_object.iter().map(|used| ("", used)).chain(through_rings).collect();
    all.sort_by_key(|(_, used)| std::cmp::Reverse(used.count));
    let rows: Vec<Vec<String>> = all.iter().take(ROWS_MAX).map(row).collect();
    let mut lines = table::lines(&columns, &rows, view.style);
    if all.len() > ROWS_MAX {
        lines.push(nothing(view, &format!("and {} more", all.len() - ROWS_MAX)));
    }
    if !calls.exact {
        lines.push(nothing(
            view,
            &format!("calls: those in windows of {} in total", duration(calls.counted_ns)),
        ));
    }
    lines
}

fn call_name(used: &CallUse) -> String {
    if used.op == 0 { used.name.to_owned() } else { format!("{} {:#x}", used.name, used.op) }
}

/// Sizes asked for and results, by powers of two.
fn histograms(view: &View, used: &CallUse) -> Vec<String> {
    let on =
        if used.object_name.is_empty() { String::new() } else { format!(" on {}", clean(&used.object_name)) };
    let heading = format!("  {}{on}: {}", used.name, counted(used.count, "call"));
    let mut lines = vec![view.style.fit(&heading, view.style.columns())];
    if let Some((function, _)) = used.callers.first() {
        lines.push(nothing(view, &format!("  mostly from {}", clean(function))));
    }
    for (title, histogram) in [("asked", &used.asked), ("returned", &used.results)] {
        lines.extend(bars(title, histogram));
    }
    lines
}

fn bars(title: &str, histogram: &Histogram) -> Vec<String> {
    let most = histogram.0.values().copied().max().unwrap_or(0).max(1);
    let line = |(number, (bucket, times)): (usize, (&u8, &u64))| {
        let (from, behind) = bounds(*bucket);
        let range = if behind - from == 1 { from.to_string() } else { format!("{from}..{}", behind - 1) };
        let bar = "█".repeat(((*times as f64 / most as f64 * BAR as f64).round() as usize).clamp(1, BAR));
        let title = if number == 0 { title } else { "" };
        let gap = " ".repeat(BAR - width(&bar));
        format!("    {title:<9}{range:>24}  {bar}{gap} {:>10}", count(*times))
    };
    histogram.0.iter().enumerate().map(line).collect()
}
