//! LOCKS: each contended lock, its holders, their activity while others waited, and the waiting code.

use holdup_findings::derive::locks::LockUse;
use holdup_findings::derive::task_locks::{Held, TaskLock};

use crate::numbers::{count, duration, percent, share};
use crate::terminal::table::{self, Column};
use crate::terminal::{View, ends};
use crate::text::{Tint, clean};

pub(super) const SUMMARY: &str = "Locks that threads waited for, the costliest first";

const LOCKS_MAX: usize = 20;
const NAMES_MAX: usize = 3;

pub(super) fn lines(view: &View) -> Vec<String> {
    let mut lines = view.heading("LOCKS");
    lines.extend(of_threads(view));
    lines.extend(of_tasks(view));
    lines
}

fn of_threads(view: &View) -> Vec<String> {
    let locks = &view.analysis.derived.locks;
    if locks.is_empty() {
        return vec![super::nothing(view, "No thread waited for a lock.")];
    }
    let mut lines = Vec::new();
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

/// Locks of a runtime's tasks, which block no thread.
fn of_tasks(view: &View) -> Vec<String> {
    let all = &view.analysis.derived.task_locks;
    if all.locks.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Text("taken by tasks in"),
        Column::Figure("locks"),
        Column::Figure("waits"),
        Column::Figure("waiting"),
        Column::Figure("mean"),
        Column::Figure("longest"),
        Column::Figure("looked at"),
    ];
    let shown = &all.locks[..all.locks.len().min(LOCKS_MAX)];
    let row = |lock: &TaskLock| {
        let recorded = all.observed.recorded_share(view.trace, lock.process);
        vec![
            clean(if lock.place.is_empty() { "?" } else { &lock.place }),
            count(lock.objects),
            count(lock.waits),
            format!("{:.1}", all.waiting(view.trace, lock)),
            duration(lock.wait_ns / lock.waits.max(1)),
            duration(lock.longest_ns),
            percent(recorded),
        ]
    };
    let rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    let mut table = table::lines(&columns, &rows, view.style).into_iter();
    let mut lines = vec![String::new()];
    lines.extend(table.next());
    for (line, lock) in table.zip(shown) {
        lines.push(line);
        lines.extend(task_details(view, lock));
    }
    if all.locks.len() > LOCKS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", all.locks.len() - LOCKS_MAX)));
    }
    let said = "waiting: tasks at a time · windows: part of the time in which waits were recorded";
    lines.push(view.style.paint(Tint::Faint, &view.style.fit(said, view.style.columns())));
    lines
}

fn task_details(view: &View, lock: &TaskLock) -> Vec<String> {
    let did = lock.holder_activity.iter().take(NAMES_MAX).map(|(held, ns)| match held {
        Held::Ran => format!("running {}", duration(*ns)),
        Held::Waited(class) => format!("{} {}", class.name(), duration(*ns)),
    });
    let all = [
        ("through", clean(&lock.through)),
        ("waited in", functions(&lock.elsewhere)),
        ("released in", functions(&lock.let_go)),
        ("holder state", did.collect::<Vec<_>>().join(", ")),
    ];
    let said = all.into_iter().filter(|(_, said)| !said.is_empty());
    said.map(|(what, said)| format!("    {what} {said}"))
        .map(|line| view.style.paint(Tint::Faint, &view.style.fit(&line, view.style.columns())))
        .collect()
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
    let activity = if lock.ends.is_empty() { String::new() } else { ends::classes(&lock.ends, lock.wait_ns) };
    [
        ("held by", held.collect::<Vec<_>>().join(", ")),
        ("which was", activity),
        ("running in", functions(&lock.held_in)),
        ("waited in", functions(&lock.waiting_at)),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(what, names)| format!("    {what} {names}"))
    .map(|line| view.style.paint(Tint::Faint, &view.style.fit(&line, view.style.columns())))
    .collect()
}

fn functions(functions: &[(String, u64)]) -> String {
    let said = functions.iter().take(NAMES_MAX);
    said.map(|(function, ns)| format!("{} {}", clean(function), duration(*ns))).collect::<Vec<_>>().join(", ")
}
