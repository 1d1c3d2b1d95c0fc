//! THREADS: each thread's life and the shares of it.

use holdup_events::recording::Rung;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger::ThreadLedger;

use crate::numbers::{duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};

pub(super) const SUMMARY: &str = "Each thread's life, and what it spent it on";

/// Threads that are shown; the rest is summed up.
const ROWS_MAX: usize = 40;

pub(super) fn lines(view: &View) -> Vec<String> {
    let mut lines = view.heading("THREADS");
    let threads = &view.analysis.derived.ledger.threads;
    if threads.is_empty() {
        lines.push(super::nothing(view, "The recording holds no thread of the program."));
        return lines;
    }
    let columns = [
        Column::Text("thread"),
        Column::Figure("life"),
        Column::Figure("running"),
        Column::Figure("run-queue"),
        Column::Figure("most of the rest"),
    ];
    let rows: Vec<Vec<String>> = threads.iter().take(ROWS_MAX).map(|thread| row(view, thread)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if threads.len() > ROWS_MAX {
        let rest = &threads[ROWS_MAX..];
        let life: u64 = rest.iter().map(|thread| thread.life.0).sum();
        let text = format!("and {} more that lived {} in all", rest.len(), duration(life));
        lines.push(super::nothing(view, &text));
    }
    lines
}

/// A file of samples alone does not tell who waits for a CPU.
fn knows_queue(view: &View) -> bool {
    let manifest = &view.trace.manifest;
    manifest.mode != "import" || manifest.rung != Rung::Proc
}

fn row(view: &View, thread: &ThreadLedger) -> Vec<String> {
    let of_life = |ns: u64| percent(share(ns, thread.life.0));
    let named = |class: &Class| !matches!(class, Class::Useful | Class::Kernel | Class::RunQueue);
    let rest = Class::ALL.into_iter().filter(named).rev().max_by_key(|class| thread.classes[*class as usize]);
    let rest = match rest.map(|class| (class, thread.classes[class as usize])) {
        Some((class, ns)) if ns > 0 => format!("{} {:>7}", class.name(), of_life(ns)),
        _ => "-".to_owned(),
    };
    vec![
        view.thread(thread.thread),
        duration(thread.life.0),
        of_life(thread.running_ns()),
        match knows_queue(view) {
            true => of_life(thread.classes[Class::RunQueue as usize]),
            false => "not known".to_owned(),
        },
        rest,
    ]
}
