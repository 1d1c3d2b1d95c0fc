//! LOCKS: each lock that somebody waited for, who had it, what that one did meanwhile, and where they waited.

use holdup_findings::derive::locks::LockUse;

use crate::numbers::{count, duration, percent, share};
use crate::terminal::table::{self, Column};
use crate::terminal::{View, ends};
use crate::text::{Tint, clean, cut};

pub(super) const SUMMARY: &str = "Locks that threads waited for, the costliest first";

const LOCKS_MAX: usize = 20;
const NAMES_MAX: usize = 3;

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
        Column::Figure("share"),
        Column::Figure("median"),
        Column::Figure("p99"),
        Column::Figure("longest"),
    ];
    let shown = &locks[..locks.len().min(LOCKS_MAX)];
    let rows: Vec<Vec<String>> = shown.iter().map(|lock| row(view, lock)).collect();
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

fn row(view: &View, lock: &LockUse) -> Vec<String> {
    vec![
        clean(&lock.name),
        count(lock.waits),
        lock.waiters.to_string(),
        duration(lock.wait_ns),
        percent(share(lock.wait_ns, view.analysis.derived.ledger.total_ns)),
        duration(lock.p50_ns),
        duration(lock.p99_ns),
        duration(lock.max_ns),
    ]
}

fn details(view: &View, lock: &LockUse) -> Vec<String> {
    let held = lock.held_by.iter().take(NAMES_MAX).map(|(thread, ns)| match thread {
        Some(thread) => format!("{} {}", view.thread(*thread), duration(*ns)),
        None => format!("not known {}", duration(*ns)),
    });
    let meanwhile =
        if lock.ends.is_empty() { String::new() } else { ends::classes(&lock.ends, lock.wait_ns) };
    [
        ("held by", held.collect::<Vec<_>>().join(", ")),
        ("which was", meanwhile),
        ("running in", functions(&lock.held_in)),
        ("waited in", functions(&lock.waiting_at)),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("    {what} {names}"))
    .map(|line| view.style.paint(Tint::Faint, &cut(&line, view.style.columns())))
    .collect()
}

fn functions(functions: &[(String, u64)]) -> String {
    let said = functions.iter().take(NAMES_MAX);
    said.map(|(function, ns)| format!("{} {}", clean(function), duration(*ns))).collect::<Vec<_>>().join(", ")
}
