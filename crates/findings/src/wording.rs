//! Formats figures and names for findings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use holdup_events::{ProcessId, ThreadId, Trace};

use crate::derive::blame::{End, EndClass};
use crate::derive::kernel_threads::is_kernel_thread;
use crate::descriptors::plain_name;
use crate::haskell_names;

/// A length of time: three digits and a unit. `ns` is nanoseconds.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_500 => (ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// A share as whole percent, with one decimal below ten.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// A thread's name and number.
pub fn thread(trace: &Trace, id: ThreadId) -> String {
    match trace.threads.get(id.index()) {
        Some(thread) if thread.name.is_empty() => format!("thread {}", thread.tid),
        Some(thread) => format!("{} ({})", thread.name, thread.tid),
        None => "?".to_owned(),
    }
}

/// Name of another program. Processes outside the recorder's PID namespace have no PID and share one name.
pub fn other_program(trace: &Trace, id: ProcessId) -> String {
    match trace.processes.get(id.index()) {
        Some(process) if process.pid == 0 => "programs outside this PID namespace".to_owned(),
        Some(process) if is_kernel_thread(trace, id) => format!("kernel thread {}", process.name),
        Some(process) => format!("{} (pid {})", process.name, process.pid),
        None => "another program".to_owned(),
    }
}

/// The state of the thread at the end of a chain of holders.
pub fn end_class(class: EndClass) -> &'static str {
    match class {
        EndClass::Running => "running",
        EndClass::RunQueue => "runnable without a CPU",
        EndClass::Throttled => "throttled",
        EndClass::Disk => "waiting for the disk",
        EndClass::Timer => "asleep",
        EndClass::Fault => "in a page fault",
        EndClass::Kernel => "in the kernel",
        EndClass::Outside => "waiting for an external event",
        EndClass::Stopped => "stopped",
        EndClass::StillWaiting => "still waiting when the recording ended",
        EndClass::Cycle => "waiting in a cycle",
        EndClass::Unknown => "not known",
        EndClass::Waking => "waking up",
    }
}

/// The states of the threads at the ends of chains, by share of `total_ns`: at most three classes.
pub fn ends(trace: &Trace, ends: &[(End, u64)], total_ns: u64) -> String {
    let mut sums: BTreeMap<EndClass, u64> = BTreeMap::new();
    for (end, ns) in ends {
        *sums.entry(end.class).or_default() += ns;
    }
    let mut ranked: Vec<(EndClass, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    ranked.sort_by_key(|(class, ns)| (std::cmp::Reverse(*ns), *class));
    let said = ranked.iter().take(3).map(|(class, ns)| {
        let share = percent(*ns as f64 / total_ns.max(1) as f64);
        match ends.iter().find(|(end, _)| end.class == *class).and_then(|(end, _)| end.occupant) {
            Some(occupant) => {
                format!("{} {share} (most often behind {})", end_class(*class), thread(trace, occupant))
            }
            None => format!("{} {share}", end_class(*class)),
        }
    });
    said.collect::<Vec<_>>().join(", ")
}

/// A count with three digits: `1.31 M`.
pub fn rounded(number: f64) -> String {
    match number {
        ..999.5 => format!("{number:.0}"),
        ..999_500.0 => scaled(number / 1e3, "k"),
        ..999.5e6 => scaled(number / 1e6, "M"),
        _ => scaled(number / 1e9, "G"),
    }
}

fn scaled(value: f64, unit: &str) -> String {
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// Bytes, in powers of 1024.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `noun` after its count, with thousands apart.
pub fn count(number: u64, noun: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if number == 1 { "" } else { "s" };
    format!("{grouped} {noun}{plural}")
}

/// A function as people call it: C++'s without its parameters, which may be three lines, Haskell's as its source has it.
pub fn function(name: &str) -> Cow<'_, str> {
    if let Some(haskell) = haskell_names::read(name) {
        return Cow::Owned(haskell.plain);
    }
    let has_parameters = name.ends_with(')') || name.ends_with(") const");
    if has_parameters && !name.ends_with("operator()") { plain_name(name) } else { Cow::Borrowed(name) }
}

/// Names of frequent syscall errors, with x86-64's numbers.
const ERRORS: [(u64, &str); 25] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (20, "ENOTDIR"),
    (22, "EINVAL"),
    (25, "ENOTTY"),
    (28, "ENOSPC"),
    (32, "EPIPE"),
    (98, "EADDRINUSE"),
    (104, "ECONNRESET"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (113, "EHOSTUNREACH"),
    (115, "EINPROGRESS"),
    (512, "ERESTARTSYS"),
];

/// The error's name, else its number.
pub fn error_name(error: u64) -> String {
    let known = ERRORS.iter().find(|(number, _)| *number == error);
    known.map_or_else(|| format!("errno {error}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_no_parameters() {
        let names = [
            "a::B<int>::f(std::vector<int> const&) const",
            "main.(*T).run",
            "Shard::operator()",
            "<A as B>::f",
            "Main_score_info",
        ];
        let said = ["a::B::f", "main.(*T).run", "Shard::operator()", "<A as B>::f", "Main.score"];
        assert_eq!(names.map(function), said);
    }

    #[test]
    fn figures_have_three_digits() {
        let said = [999, 1_234, 999_600, 56_780_000, 789_000_000, 999_700_000, 12_650_000_000].map(time);
        assert_eq!(said, ["999 ns", "1.23 µs", "1.00 ms", "56.8 ms", "789 ms", "1.00 s", "12.7 s"]);
        assert_eq!([percent(0.0312), percent(0.5)], ["3.1 %", "50 %"]);
        assert_eq!(count(1_234_567, "wait"), "1,234,567 waits");
        assert_eq!(count(1, "wait"), "1 wait");
        let said = [0.0, 999.4, 1_310.0, 56_780.0, 1_866_487.0].map(rounded);
        assert_eq!(said, ["0", "999", "1.31 k", "56.8 k", "1.87 M"]);
    }
}
