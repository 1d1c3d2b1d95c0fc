//! CPUS: what each CPU ran, and how many threads ran at once.

use holdup_events::CpuId;
use holdup_findings::derive::cpu_times::{CpuStep, Times};
use holdup_findings::derive::cpus::CpuUse;

use crate::numbers::{count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "What each CPU ran, and how many threads ran at once";

/// CPUs of which the kernel's account is shown.
const CPUS_MAX: usize = 32;

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
    lines.extend(account(view));
    lines
}

/// The kernel's own account of each CPU's time, and how it went.
fn account(view: &View) -> Vec<String> {
    let times = &view.analysis.derived.cpu_times;
    if times.cpus.is_empty() {
        return Vec::new();
    }
    let kinds = ["user", "system", "irq", "stolen", "disk", "idle"].map(Column::Figure);
    let mut lines = vec![String::new()];
    let columns: Vec<Column> = std::iter::once(Column::Figure("cpu")).chain(kinds).collect();
    let cpu = |(cpu, times): &(CpuId, Times)| {
        std::iter::once(cpu.0.to_string()).chain(cells(times)).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = times.cpus.iter().take(CPUS_MAX).map(cpu).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.push(super::nothing(
        view,
        "by the kernel's own account, whoever ran; in ticks: short times are coarse",
    ));
    if times.steps.len() < 2 {
        return lines;
    }
    lines.push(String::new());
    let columns: Vec<Column> = std::iter::once(Column::Figure("from"))
        .chain(kinds)
        .chain([Column::Text("who ran, of all CPUs")])
        .collect();
    let rows: Vec<Vec<String>> = times.steps.iter().map(|step| self::step(view, step)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.push(super::nothing(view, "all CPUs over time, from that moment of the recording on"));
    lines
}

fn step(view: &View, step: &CpuStep) -> Vec<String> {
    let wall = step.end.since(step.start).0 * step.cpus.len().max(1) as u64;
    let who = step.who.iter().map(|(process, ns)| {
        format!("{} {}", clean(view.trace.process_name(*process)), percent(share(*ns, wall)))
    });
    let from = duration(step.start.since(view.trace.start()).0);
    std::iter::once(from)
        .chain(cells(&Times::sum(&step.cpus)))
        .chain([who.collect::<Vec<_>>().join(", ")])
        .collect()
}

fn cells(times: &Times) -> [String; 6] {
    let of = |ns: u64| if ns == 0 { "-".to_owned() } else { percent(share(ns, times.total())) };
    [
        of(times.user + times.nice),
        of(times.system),
        of(times.irq + times.softirq),
        of(times.steal),
        of(times.disk_wait),
        of(times.idle),
    ]
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
