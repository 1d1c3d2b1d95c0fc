//! LINES: cache-line contention between threads (sampled), and the bytes that each thread accessed.

use holdup_findings::derive::lines::{LineThread, SharedData, Sharing};

use crate::numbers::{count, duration};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{clean, wrap};

pub(super) const SUMMARY: &str = "Contended cache lines, the costliest first";

const ROWS_MAX: usize = 20;
/// Threads of one row that are listed.
const THREADS_MAX: usize = 4;

pub(super) fn lines(view: &View) -> Vec<String> {
    let shared = &view.analysis.derived.lines;
    let mut lines = view.heading("LINES");
    if shared.is_empty() {
        lines.push(super::nothing(view, "No cache line moved between CPUs in the samples."));
        lines.extend(missing_note(view));
        return lines;
    }
    let columns = [
        Column::Text("memory"),
        Column::Text("bytes"),
        Column::Figure("lines"),
        Column::Figure("samples"),
        Column::Figure("turns"),
        Column::Figure("hits"),
        Column::Figure("cpu"),
        Column::Figure("± (95 %)"),
        Column::Text("where"),
    ];
    let rows: Vec<Vec<String>> = shared.iter().take(ROWS_MAX).flat_map(|data| rows(view, data)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if shared.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", shared.len() - ROWS_MAX)));
    }
    let said = "cpu: sampled · turns: the next sample was another thread's on another CPU · hits: by hardware watchpoints";
    lines.push(super::nothing(view, said));
    lines.extend(missing_note(view));
    lines
}

/// Where lines may have been missed.
fn missing_note(view: &View) -> Vec<String> {
    let source = view.trace.manifest.sources.iter().find(|source| source.name == "touched-memory");
    let missing = source.map_or(String::new(), |source| clean(&source.missing));
    let told = wrap(&missing, view.style.columns() - 2, 0).into_iter().filter(|line| !line.is_empty());
    told.map(|line| format!("  {line}")).collect()
}

/// One for the memory, one for each thread.
fn rows(view: &View, data: &SharedData) -> Vec<Vec<String>> {
    let first = data.lines.first().copied().unwrap_or_default();
    let name = if data.name.is_empty() { format!("{first:#x}") } else { clean(&data.name) };
    let sharing = match data.sharing {
        Sharing::True => "the same",
        Sharing::False => "own",
    };
    let functions = data.functions.first().map_or(String::new(), |(function, _)| clean(function));
    let mut rows = vec![vec![
        name,
        sharing.to_owned(),
        count(data.lines.len() as u64),
        count(data.samples),
        count(data.turns),
        data.watched.as_ref().map_or(String::new(), |seen| count(seen.hits)),
        duration(data.ns),
        duration(data.error_ns),
        functions,
    ]];
    for one in data.threads.iter().take(THREADS_MAX) {
        let (from, to) = one.bytes;
        let name = view
            .trace
            .threads
            .get(one.thread.index())
            .map_or(String::new(), |thread| format!("  {} {}", clean(&thread.name), thread.tid));
        let empty = String::new;
        let bytes = format!("{}..{}", from.saturating_sub(first), to.saturating_sub(first));
        rows.push(vec![
            name,
            if one.part.is_empty() { bytes } else { clean(&one.part) },
            empty(),
            count(one.reads + one.writes),
            empty(),
            empty(),
            duration(one.ns),
            empty(),
            how(one).to_owned(),
        ]);
    }
    rows
}

fn how(one: &LineThread) -> &'static str {
    match (one.reads, one.writes) {
        (_, 0) => "reads",
        (0, _) => "writes",
        _ => "reads, writes",
    }
}
