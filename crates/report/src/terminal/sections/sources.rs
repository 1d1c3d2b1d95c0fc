//! SOURCES: what delivered, what could not, and what the recording cost.

use holdup_findings::derive::stacks::Completeness;

use crate::figures;
use crate::numbers::{bytes, count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::{Tint, clean, wrap};

pub(super) const SUMMARY: &str = "The recording's sources, and their cost";

pub(super) fn lines(view: &View) -> Vec<String> {
    let manifest = &view.trace.manifest;
    let mut lines = view.heading("SOURCES");
    if manifest.sources.is_empty() {
        lines.push(super::nothing(view, "The recording names no source."));
    } else {
        let columns =
            [Column::Text("source"), Column::Text("state"), Column::Figure("events"), Column::Figure("lost")];
        let rows = manifest.sources.iter().map(|source| {
            let state = if source.active { "delivered" } else { "absent" };
            vec![clean(&source.name), state.to_owned(), count(source.events), count(source.lost)]
        });
        lines.extend(table::lines(&columns, &rows.collect::<Vec<_>>(), view.style));
    }
    for source in manifest.sources.iter().filter(|source| !source.missing.is_empty()) {
        let text = format!("{}: {}", clean(&source.name), clean(&source.missing));
        let wrapped = wrap(&text, view.style.columns() - 2, 2);
        lines.extend(wrapped.iter().map(|line| format!("  {}", view.style.paint(Tint::Warning, line))));
    }
    lines.extend(completeness(view));
    lines.extend(cost(view));
    lines
}

/// How complete stacks are. Empty without stacks.
fn completeness(view: &View) -> Vec<String> {
    let counted = Completeness::derive(view.trace);
    let both = counted.on_cpu.merged(&counted.blocked);
    if both.stacks() == 0 {
        return Vec::new();
    }
    let cut = both.cut_short();
    let others: Vec<String> =
        cut.iter().map(|(end, stacks)| format!("{} {}", end.name(), count(*stacks))).collect();
    let but = if cut.is_empty() { String::new() } else { format!(", the others: {}", others.join(", ")) };
    let part = if cut.is_empty() { "all".to_owned() } else { percent(share(both.complete(), both.stacks())) };
    let text = format!("stacks: {part} of {} reach the thread's root{but}", count(both.stacks()));
    wrap(&text, view.style.columns() - 2, 2).iter().map(|line| format!("  {line}")).collect()
}

fn cost(view: &View) -> Vec<String> {
    let cost = &view.trace.manifest.cost;
    let mut lines = view.heading("COST OF THE RECORDING");
    if view.trace.manifest.mode == "import" {
        lines.push(super::nothing(view, "Not known: another tool made this recording."));
        return lines;
    }
    lines.push(format!("  {:17}{}", "recorder", duration(cost.recorder_cpu_ns) + " of CPU time"));
    lines.push(format!(
        "  {:17}{} ± {} of CPU time",
        "kernel's part",
        duration(cost.probes_cpu_ns),
        duration(cost.probes_cpu_error_ns),
    ));
    let each = figures::bytes_per_switch(view.trace).map(|each| format!(", {each:.1} bytes each"));
    lines.push(format!("  {:17}{}{}", "switches", count(cost.switches), each.unwrap_or_default()));
    lines.push(format!("  {:17}{}", "on disk", bytes(cost.bytes)));
    lines.push(format!("  {:17}{}", "peak memory", bytes(cost.recorder_memory_bytes)));
    lines
}
