//! SYSCALLS: where they ran (sampled) and blocked (exact).

use holdup_findings::derive::syscalls::SyscallUse;

use crate::numbers::{count, duration};
use crate::terminal::View;
use crate::terminal::table::{self, Column};

pub(super) const SUMMARY: &str = "Syscalls by CPU time and blocked time, the costliest first";

const ROWS_MAX: usize = 30;

pub(super) fn lines(view: &View) -> Vec<String> {
    let calls = &view.analysis.derived.syscalls;
    let mut lines = view.heading("SYSCALLS");
    if calls.is_empty() {
        lines.push(super::nothing(view, "No syscall was seen to block or to be running."));
        return lines;
    }
    let columns = [
        Column::Text("syscall"),
        Column::Figure("cpu (sampled)"),
        Column::Figure("± (1 sd)"),
        Column::Figure("blocked"),
        Column::Figure("for"),
    ];
    let rows: Vec<Vec<String>> = calls.iter().take(ROWS_MAX).map(row).collect();
    lines.extend(table::lines(&columns, &rows, view.style));
    if calls.len() > ROWS_MAX {
        lines.push(super::nothing(view, &format!("and {} more", calls.len() - ROWS_MAX)));
    }
    lines
}

fn row(call: &SyscallUse) -> Vec<String> {
    let sampled = |ns: u64| if call.samples > 0 { duration(ns) } else { "-".to_owned() };
    let name = match call.number {
        -1 => "(page fault)".to_owned(),
        number if call.name.is_empty() => format!("syscall {number}"),
        _ => call.name.to_owned(),
    };
    let blocked_for = if call.blocked > 0 { duration(call.blocked_ns) } else { "-".to_owned() };
    vec![name, sampled(call.cpu_ns), sampled(call.cpu_error_ns), count(call.blocked), blocked_for]
}
