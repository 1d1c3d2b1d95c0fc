//! COUNTERS: what hardware counted, by class of running time and by thread.

use holdup_findings::derive::hardware::{Counts, Hardware};

use crate::numbers::{count, duration, percent};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean, wrap};

pub(super) const SUMMARY: &str =
    "Hardware counters by class of time and by thread, instructions per cycle (--counters)";

const THREADS_MAX: usize = 20;
/// The recorder's name for the source.
const SOURCE: &str = "hardware-counters";

pub(super) fn lines(view: &View) -> Vec<String> {
    let hardware = &view.analysis.derived.hardware;
    let mut lines = view.heading("COUNTERS");
    if hardware.all.stretches == 0 {
        lines.extend(faint_lines(view, &why_none(view)));
        return lines;
    }
    let covered = percent(hardware.covered);
    lines.extend(faint_lines(
        view,
        &format!(
            "Counted between two samples of a thread without a switch between: {covered} of all running time."
        ),
    ));
    let classes = hardware.by_class.iter().map(|(class, counts)| (class.name().to_owned(), counts));
    lines.extend(table_of(view, hardware, "class", classes.chain([("all".to_owned(), &hardware.all)])));
    lines.push(String::new());
    let name = |thread: holdup_events::ThreadId| {
        view.trace
            .threads
            .get(thread.index())
            .map_or_else(String::new, |one| format!("{} ({})", clean(&one.name), one.tid))
    };
    let threads = hardware.by_thread.iter().take(THREADS_MAX);
    lines.extend(table_of(view, hardware, "thread", threads.map(|(thread, counts)| (name(*thread), counts))));
    if hardware.by_thread.len() > THREADS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", hardware.by_thread.len() - THREADS_MAX)));
    }
    lines
}

fn faint_lines(view: &View, text: &str) -> Vec<String> {
    let lines = wrap(text, view.style.columns() - 2, 0);
    lines.iter().map(|line| format!("  {}", view.style.paint(Tint::Faint, line))).collect()
}

fn why_none(view: &View) -> String {
    let source = view.trace.manifest.sources.iter().find(|source| source.name == SOURCE);
    match source {
        Some(source) if !source.missing.is_empty() => clean(&source.missing),
        Some(_) => "No thread ran from one sample to the next without a switch between.".to_owned(),
        None => "Hardware counters were not asked for (--counters), or there were no samples.".to_owned(),
    }
}

fn table_of<'a>(
    view: &View,
    hardware: &Hardware,
    of: &'static str,
    rows: impl Iterator<Item = (String, &'a Counts)>,
) -> Vec<String> {
    let figures = ["counted".to_owned()]
        .into_iter()
        .chain(hardware.names.iter().map(|name| format!("{}/s", clean(name))));
    let has_ipc = hardware.ipc(&hardware.all).is_some();
    let titles: Vec<String> = figures.chain(has_ipc.then(|| "IPC".to_owned())).collect();
    let columns: Vec<Column> =
        [Column::Text(of)].into_iter().chain(titles.iter().map(|title| Column::Figure(title))).collect();
    let cells = |(name, counts): (String, &Counts)| {
        let mut cells = vec![name, duration(counts.counted_ns)];
        let rates = (0..hardware.names.len()).map(|counter| counts.per_second(counter));
        cells.extend(rates.map(|rate| rate.map_or("?".to_owned(), |rate| count(rate.round() as u64))));
        if has_ipc {
            cells.push(hardware.ipc(counts).map_or("?".to_owned(), |ipc| format!("{ipc:.2}")));
        }
        cells
    };
    table::lines(&columns, &rows.map(cells).collect::<Vec<_>>(), view.style)
}
