//! CPUS: what each CPU ran, and how many threads ran at once.

use holdup_findings::derive::cpus::CpuUse;

use crate::numbers::{count, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "What each CPU ran, and how many threads ran at once";

pub(super) fn lines(view: &View) -> Vec<String> {
    let derived = &view.analysis.derived;
    let mut lines = view.heading("CPUS");
    if derived.cpus.is_empty() {
        lines.push(super::nothing(view, "The recording does not say what ran on which CPU."));
        return lines;
    }
    let columns = [
        Column::Figure("cpu"),
        Column::Figure("program"),
        Column::Figure("others"),
        Column::Figure("stolen"),
        Column::Figure("idle"),
        Column::Figure("switches"),
        Column::Text("others, the longest first"),
    ];
    let rows: Vec<Vec<String>> = derived.cpus.iter().map(|cpu| row(view, cpu)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.push(format!(
        "  threads at once: {:.2} ran on average, {:.2} wanted to",
        derived.parallelism.running_mean(),
        derived.parallelism.wanting_mean(),
    ));
    lines
}

fn row(view: &View, cpu: &CpuUse) -> Vec<String> {
    let whole = cpu.target_ns + cpu.others_ns + cpu.stolen_ns + cpu.idle_ns;
    let of_cpu = |ns: u64| percent(share(ns, whole));
    let name = |(process, ns): &(holdup_events::ProcessId, u64)| {
        format!("{} {}", clean(view.trace.process_name(*process)), of_cpu(*ns))
    };
    let others: Vec<String> = cpu.others.iter().take(2).map(name).collect();
    vec![
        cpu.cpu.0.to_string(),
        of_cpu(cpu.target_ns),
        of_cpu(cpu.others_ns),
        of_cpu(cpu.stolen_ns),
        of_cpu(cpu.idle_ns),
        count(cpu.switches),
        others.join(", "),
    ]
}
