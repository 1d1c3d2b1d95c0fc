//! CPUS: what each CPU ran, and how many threads ran at once.

use holdup_events::CpuId;
use holdup_findings::derive::cpu_times::{CpuStep, Times};
use holdup_findings::derive::cpus::CpuUse;
use holdup_findings::derive::nodes::NodeUse;

use crate::numbers::{count, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "What each CPU ran, and how many threads ran at once";

/// Maximum number of CPUs with a row each. With more, CPUs that hardly ran the program are one line. So are those that were idle most,
/// in the kernel's account.
const CPUS_MAX: usize = 32;
/// Minimum share of a CPU's time that the program has to have for a row, where there are many CPUs.
const ROW_SHARE: f64 = 0.01;

pub(super) fn lines(view: &View) -> Vec<String> {
    let derived = &view.analysis.derived;
    let mut lines = view.heading("CPUS");
    if derived.cpus.is_empty() {
        lines.push(super::nothing(view, "The recording does not contain CPU numbers."));
        return lines;
    }
    let columns = [
        Column::Figure("cpu"),
        Column::Figure("program"),
        Column::Figure("others"),
        Column::Figure("stolen"),
        Column::Figure("idle"),
        Column::Figure("switches"),
        Column::Text("other programs"),
    ];
    let (shown, left_out) = worth_a_row(&derived.cpus);
    let rows: Vec<Vec<String>> = shown.into_iter().map(|cpu| row(view, cpu)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if !left_out.is_empty() {
        lines.extend(wrapped(&format!(
            "{} more CPUs ran the program for less than {} of the time: {}",
            left_out.len(),
            percent(ROW_SHARE),
            spaced_ranges(&left_out),
        )));
    }
    lines.push(format!(
        "  threads at once: {:.2} running, {:.2} runnable, on average",
        derived.parallelism.running_mean(),
        derived.parallelism.wanting_mean(),
    ));
    lines.extend(nodes(view));
    lines.extend(account(view));
    lines
}

/// The CPUs that get a row, and the numbers of the others.
fn worth_a_row(cpus: &[CpuUse]) -> (Vec<&CpuUse>, Vec<u16>) {
    let is_used = |cpu: &&CpuUse| {
        let whole = cpu.target_ns + cpu.others_ns + cpu.stolen_ns + cpu.idle_ns;
        cpus.len() <= CPUS_MAX || share(cpu.target_ns, whole) >= ROW_SHARE
    };
    let (shown, left_out): (Vec<&CpuUse>, Vec<&CpuUse>) = cpus.iter().partition(is_used);
    (shown, left_out.into_iter().map(|cpu| cpu.cpu.0).collect())
}

/// Ascending numbers as the kernel writes them: `0-3,8`.
fn ranges(numbers: &[u16]) -> String {
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(*number) => *last = *number,
            _ => spans.push((*number, *number)),
        }
    }
    let span = |(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    spans.iter().map(span).collect::<Vec<_>>().join(",")
}

/// The same with spaces, so that a line can break between ranges.
fn spaced_ranges(numbers: &[u16]) -> String {
    ranges(numbers).replace(',', ", ")
}

/// Wraps text at 80 columns, indented.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 80;
    let mut lines = vec![String::from(" ")];
    for word in text.split(' ') {
        let full = lines.last().is_some_and(|line| line.len() + 1 + word.len() > WIDTH && line.len() > 1);
        if full {
            lines.push(String::from(" "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines
}

/// The memory nodes, how far threads moved, and what ran on slow cores. Nothing of nodes on a machine with one.
fn nodes(view: &View) -> Vec<String> {
    let all = &view.analysis.derived.nodes;
    let mut lines = Vec::new();
    if all.nodes.len() > 1 {
        let columns = ["node", "program", "others", "stolen", "idle", "threads"].map(Column::Figure);
        let columns: Vec<Column> = columns.into_iter().chain([Column::Text("CPUs")]).collect();
        let row = |node: &NodeUse| {
            let whole = node.target_ns + node.others_ns + node.stolen_ns + node.idle_ns;
            let times = [node.target_ns, node.others_ns, node.stolen_ns, node.idle_ns];
            let numbers: Vec<u16> = node.cpus.iter().map(|cpu| cpu.0).collect();
            std::iter::once(node.node.to_string())
                .chain(times.map(|ns| percent(share(ns, whole))))
                .chain([count(node.threads), ranges(&numbers)])
                .collect::<Vec<String>>()
        };
        let rows: Vec<Vec<String>> = all.nodes.iter().map(row).collect();
        lines.push(String::new());
        lines.extend(table::lines(&columns, &rows, view.style));
        lines.push(super::nothing(view, "memory nodes (NUMA) · threads: those that ran longest on the node"));
        lines.extend(wrapped(&format!(
            "migrations to another CPU: {} within a core, {} within a node, {} to another node",
            count(all.moves.same_core),
            count(all.moves.same_node),
            count(all.moves.other_node),
        )));
    }
    if !all.slow_cpus.is_empty() {
        let numbers: Vec<u16> = all.slow_cpus.iter().map(|cpu| cpu.0).collect();
        lines.extend(wrapped(&format!(
            "slow cores: CPUs {} (the program's threads ran there for {} of CPU time)",
            spaced_ranges(&numbers),
            duration(all.slow_ns),
        )));
    }
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
    let (shown, left_out) = busiest(&times.cpus);
    let rows: Vec<Vec<String>> = shown.into_iter().map(cpu).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if !left_out.is_empty() {
        let numbers: Vec<u16> = left_out.iter().map(|(cpu, _)| cpu.0).collect();
        let least = left_out.iter().map(|(_, times)| idle_share(times)).fold(1.0, f64::min);
        lines.extend(wrapped(&format!(
            "{} more CPUs were idle for at least {} of the time: {}",
            numbers.len(),
            percent(least),
            spaced_ranges(&numbers),
        )));
    }
    lines.push(super::nothing(view, "kernel accounting of all programs, in ticks (coarse for short times)"));
    if times.steps.len() < 2 {
        return lines;
    }
    lines.push(String::new());
    let columns: Vec<Column> = std::iter::once(Column::Figure("from"))
        .chain(kinds)
        .chain([Column::Text("programs, as a share of all CPUs")])
        .collect();
    let rows: Vec<Vec<String>> = times.steps.iter().map(|step| self::step(view, step)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    lines.push(super::nothing(view, "all CPUs over time, from that moment of the recording"));
    lines
}

/// A CPU and its times over the recording.
type CpuTimes = (CpuId, Times);

/// The CPUs that were idle least, at most [`CPUS_MAX`], and the others. Both in the order of their numbers.
fn busiest(cpus: &[CpuTimes]) -> (Vec<&CpuTimes>, Vec<&CpuTimes>) {
    let mut by_use: Vec<&CpuTimes> = cpus.iter().collect();
    by_use.sort_by(|(_, one), (_, other)| idle_share(one).total_cmp(&idle_share(other)));
    let mut left_out = by_use.split_off(by_use.len().min(CPUS_MAX));
    for part in [&mut by_use, &mut left_out] {
        part.sort_by_key(|(cpu, _)| *cpu);
    }
    (by_use, left_out)
}

fn idle_share(times: &Times) -> f64 {
    share(times.idle + times.disk_wait, times.total())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 64, 65]), "0-3,8,64-65");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u16::MAX - 1, u16::MAX]), "65534-65535");
    }

    #[test]
    fn of_many_cpus_only_used_ones_have_a_row() {
        let cpu = |number: u16| CpuUse {
            cpu: CpuId(number),
            target_ns: if number.is_multiple_of(8) { 50 } else { 0 },
            idle_ns: 100,
            ..CpuUse::default()
        };
        let many: Vec<CpuUse> = (0..64).map(cpu).collect();
        let (shown, left_out) = worth_a_row(&many);
        assert_eq!((shown.len(), left_out.len()), (8, 56));
        let (shown, left_out) = worth_a_row(&many[..32]);
        assert_eq!((shown.len(), left_out.len()), (32, 0));
    }

    #[test]
    fn long_lists_of_cpus_stay_within_the_terminal() {
        let every_third: Vec<u16> = (0..256).step_by(3).collect();
        let lines = wrapped(&format!("86 more CPUs: {}", spaced_ranges(&every_third)));
        assert!(lines.len() > 3 && lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
    }

    #[test]
    fn large_numbers_stay_whole() {
        assert_eq!(
            wrapped("0 within a core, 3,435 within a node"),
            ["  0 within a core, 3,435 within a node"]
        );
    }

    #[test]
    fn the_kernels_account_shows_the_busiest_of_many_cpus() {
        let times = |user| Times { user, idle: 100 - user, ..Times::default() };
        // Every second CPU is busy.
        let many: Vec<(CpuId, Times)> =
            (0..64).map(|cpu| (CpuId(cpu), times(if cpu % 2 == 0 { 90 } else { 10 }))).collect();
        let (shown, left_out) = busiest(&many);
        assert_eq!((shown.len(), left_out.len()), (CPUS_MAX, 32));
        assert!(shown.iter().all(|(_, times)| times.user == 90) && shown.is_sorted_by_key(|(cpu, _)| *cpu));
        assert!(left_out.iter().all(|(cpu, _)| cpu.0 % 2 == 1));
        assert_eq!(busiest(&many[..2]).1.len(), 0);
    }
}
