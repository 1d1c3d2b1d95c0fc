//! LOCKS: each lock that somebody waited for, who released it, and where they waited.

use holdup_findings::derive::locks::LockUse;

use crate::numbers::{count, duration};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean, cut};

pub(super) const SUMMARY: &str = "Locks that threads waited for, the costliest first";

const LOCKS_MAX: usize = 20;

pub(super) fn lines(view: &View) -> Vec<String> {
    let locks = &view.analysis.derived.locks;
    let mut lines = view.heading("LOCKS");
    if locks.is_empty() {
        lines.push(super::nothing(view, "No thread was seen to wait for a lock."));
        return lines;
    }
    let columns = [
        Column::Text("lock"),
        Column::Figure("waits"),
        Column::Figure("threads"),
        Column::Figure("waited"),
        Column::Figure("median"),
        Column::Figure("p99"),
        Column::Figure("longest"),
    ];
    let shown = &locks[..locks.len().min(LOCKS_MAX)];
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    let mut table = table::lines(&columns, &rows, view.style).into_iter();
    lines.extend(table.next());
    for (line, lock) in table.zip(shown) {
        lines.push(line);
        lines.extend(details(view, lock));
    }
    if locks.len() > LOCKS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", locks.len() - LOCKS_MAX)));
    }
    lines
}

fn row(lock: &LockUse) -> Vec<String> {
    vec![
        clean(&lock.name),
        count(lock.waits),
        lock.waiters.to_string(),
        duration(lock.wait_ns),
        duration(lock.p50_ns),
        duration(lock.p99_ns),
        duration(lock.max_ns),
    ]
}

fn details(view: &View, lock: &LockUse) -> Vec<String> {
    let released = lock.releasers.iter().take(3);
    let released: Vec<String> =
        released.map(|(thread, times)| format!("{} ×{}", view.thread(*thread), count(*times))).collect();
    let places = lock.waiting_at.iter().take(3);
    let places: Vec<String> =
        places.map(|(function, ns)| format!("{} {}", clean(function), duration(*ns))).collect();
    [("released by", released), ("waited in", places)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("    {what} {}", names.join(", ")))
        .map(|line| view.style.paint(Tint::Faint, &cut(&line, view.style.columns())))
        .collect()
}
