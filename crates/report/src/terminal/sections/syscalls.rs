//! SYSCALLS: where they ran (sampled) and blocked (exact), and how often they were called (counted in windows).

mod calls;

use holdup_findings::derive::syscalls::SyscallUse;

use crate::numbers::{count, counted, duration, rounded};
use crate::terminal::View;
use crate::terminal::table::{self, Column};

pub(super) const SUMMARY: &str = "Syscalls by CPU time and blocked time, the costliest first";

const ROWS_MAX: usize = 30;

pub(super) fn lines(view: &View) -> Vec<String> {
    let calls = &view.analysis.derived.syscalls;
    let mut lines = view.heading("SYSCALLS");
    let source = view.trace.manifest.sources.iter().find(|source| source.name == "syscalls");
    if let Some(source) = source.filter(|source| !source.missing.is_empty()) {
        lines.push(super::nothing(view, &format!("not counted: {}", source.missing)));
    }
    if calls.is_empty() {
        lines.push(super::nothing(view, "No syscall blocked or was sampled."));
        return lines;
    }
    let rates = &view.analysis.derived.syscall_rates;
    let counted = !rates.by_number.is_empty();
    let mut columns = vec![Column::Text("syscall")];
    columns.extend(match counted {
        true => ["calls/s", "±", "cpu/call", "cpu"].map(Column::Figure).to_vec(),
        false => vec![Column::Figure("cpu (sampled)")],
    });
    columns.extend(["± (95 %)", "blocked", "for"].map(Column::Figure));
    let rows: Vec<Vec<String>> = calls.iter().take(ROWS_MAX).map(|call| row(call, counted)).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if calls.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", calls.len() - ROWS_MAX)));
    }
    if counted && rates.windows > 0 {
        let (windows, time) = (self::counted(rates.windows, "window"), duration(rates.windows_ns));
        let said = format!("calls: counted in {windows} ({time}), extrapolated · cpu: sampled · ±: 95 %");
        lines.push(super::nothing(view, &said));
    }
    lines.extend(calls::lines(view));
    lines
}

fn row(call: &SyscallUse, counted: bool) -> Vec<String> {
    let sampled = |ns: u64| if call.samples > 0 { duration(ns) } else { "-".to_owned() };
    let name = match call.number {
        -1 => "(page fault)".to_owned(),
        number if call.name.is_empty() => format!("syscall {number}"),
        _ => call.name.to_owned(),
    };
    let blocked_for = if call.blocked > 0 { duration(call.blocked_ns) } else { "-".to_owned() };
    let mut cells = vec![name];
    if counted {
        let figure =
            |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| rounded(number as u64));
        cells.push(figure(call.rate.map(|rate| rate.per_second)));
        cells.push(figure(call.rate.and_then(|rate| rate.error_per_second)));
        cells.push(call.call.map_or_else(|| "-".to_owned(), |call| duration(call.cpu_ns)));
    }
    cells.extend([sampled(call.cpu_ns), sampled(call.cpu_error_ns), count(call.blocked), blocked_for]);
    cells
}
