//! CRITICAL PATH: the chain of threads that determined the run's duration, and the parallelism during it.

use holdup_findings::derive::class::Class;

use crate::numbers::{count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "What the run's length depended on, and how parallel each thread's time was";

const THREADS_MAX: usize = 12;
const FUNCTIONS_MAX: usize = 8;

pub(super) fn lines(view: &View) -> Vec<String> {
    let path = &view.analysis.derived.critical_path;
    let mut lines = view.heading("CRITICAL PATH");
    let length_ns: u64 = path.classes.iter().sum();
    if length_ns == 0 {
        lines.push(super::nothing(view, "Not known: no thread of the program ran."));
        return lines;
    }
    let text = format!(
        "{} in {} steps. Only changes to these steps shorten the run.",
        duration(length_ns),
        count(path.count)
    );
    lines.push(super::nothing(view, &text));
    let columns = [
        Column::Text("on the path"),
        Column::Figure("time"),
        Column::Figure("share"),
        Column::Text("most of it"),
    ];
    let rows: Vec<Vec<String>> =
        by_class(view).iter().map(|(class, ns)| class_row(view, *class, *ns, length_ns)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.extend(functions(view, length_ns));
    lines.extend(threads(view, length_ns));
    lines
}

/// The classes on the path, the longest first.
fn by_class(view: &View) -> Vec<(Class, u64)> {
    let classes = &view.analysis.derived.critical_path.classes;
    let mut rows: Vec<(Class, u64)> =
        Class::ALL.iter().map(|class| (*class, classes[*class as usize])).filter(|(_, ns)| *ns > 0).collect();
    rows.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    rows
}

fn class_row(view: &View, class: Class, ns: u64, length_ns: u64) -> Vec<String> {
    let threads = &view.analysis.derived.critical_path.threads;
    let longest =
        threads.iter().max_by_key(|(thread, classes)| (classes[class as usize], std::cmp::Reverse(*thread)));
    let most = longest
        .map(|(thread, classes)| format!("{} {}", view.thread(*thread), duration(classes[class as usize])));
    let name = if class == Class::Useful { "running" } else { class.name() };
    vec![name.to_owned(), duration(ns), percent(share(ns, length_ns)), most.unwrap_or_default()]
}

fn functions(view: &View, length_ns: u64) -> Vec<String> {
    let functions = &view.analysis.derived.critical_path.functions;
    if functions.is_empty() {
        return Vec::new();
    }
    let columns = [Column::Text("running in"), Column::Figure("time"), Column::Figure("share")];
    let rows: Vec<Vec<String>> = functions
        .iter()
        .take(FUNCTIONS_MAX)
        .map(|(name, ns)| vec![clean(name), duration(*ns), percent(share(*ns, length_ns))])
        .collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    lines
}

/// Each thread's part of the path, and its box in the bottle graph.
fn threads(view: &View, length_ns: u64) -> Vec<String> {
    let derived = &view.analysis.derived;
    let columns = [
        Column::Text("thread"),
        Column::Figure("on path"),
        Column::Figure("share"),
        Column::Figure("active"),
        Column::Figure("accounts for"),
        Column::Figure("at once"),
    ];
    let on_path = |thread| {
        let found = derived.critical_path.threads.iter().find(|(id, _)| *id == thread);
        found.map_or(0, |(_, classes)| classes.iter().sum::<u64>())
    };
    let rows: Vec<Vec<String>> = derived
        .bottles
        .iter()
        .take(THREADS_MAX)
        .map(|bottle| {
            let ns = on_path(bottle.thread);
            vec![
                view.thread(bottle.thread),
                duration(ns),
                percent(share(ns, length_ns)),
                duration(bottle.active_ns),
                duration(bottle.height_ns as u64),
                format!("{:.2}", bottle.parallelism()),
            ]
        })
        .collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    if derived.bottles.len() > THREADS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", derived.bottles.len() - THREADS_MAX)));
    }
    let note = "active: running or runnable · at once: mean number of active threads";
    lines.push(super::nothing(view, note));
    lines
}
