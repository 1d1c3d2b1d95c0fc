//! The kernel's counts of each CPU: time by kind of work, and interrupts for TLB shootdowns. Also counts of
//! the machine's memory: pages read from disk, and how many of them had been in memory before.

use std::fs;

use holdup_events::CpuId;
use holdup_events::tables::CountKind;

use crate::perf_ring::page_bytes;

/// One count of one CPU, or of the machine ([`CpuId::NONE`]), since that was started.
pub type CpuCount = (CpuId, CountKind, u64);

/// The columns of `/proc/stat`, in its order. Guest time is part of user time.
const TIMES: [CountKind; 8] = [
    CountKind::CpuUser,
    CountKind::CpuNice,
    CountKind::CpuSystem,
    CountKind::CpuIdle,
    CountKind::CpuDiskWait,
    CountKind::CpuIrq,
    CountKind::CpuSoftIrq,
    CountKind::CpuSteal,
];

/// Time of each CPU by kind of work (ns). Empty if /proc does not have it.
pub fn times() -> Vec<CpuCount> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_times(&text, tick_ns())
}

/// Number of interrupts for TLB shootdowns of each CPU. Empty if /proc does not have it.
pub fn shootdowns() -> Vec<CpuCount> {
    parse_shootdowns(&fs::read_to_string("/proc/interrupts").unwrap_or_default())
}

/// The machine's reads from disks, and how much of that had been in memory before. Empty if /proc does not
/// have it.
pub fn memory() -> Vec<CpuCount> {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    parse_memory(&text, page_bytes() as u64)
}

fn tick_ns() -> u64 {
    // SAFETY: sysconf takes a number and gives one.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(per_second).unwrap_or(100).max(1)
}

fn parse_times(text: &str, tick_ns: u64) -> Vec<CpuCount> {
    let mut counts = Vec::new();
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        // The first line is the sum of all, `cpu` without a number.
        let Some(cpu) = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse().ok()) else {
            continue;
        };
        let ticks = fields.map_while(|field| field.parse::<u64>().ok());
        counts.extend(
            TIMES
                .into_iter()
                .zip(ticks)
                .map(|(what, ticks)| (CpuId(cpu), what, ticks.saturating_mul(tick_ns))),
        );
    }
    counts
}

/// The head names the columns: CPUs that are offline have none.
fn parse_shootdowns(text: &str) -> Vec<CpuCount> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus = head.filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).map(CpuId);
    let row = lines.find_map(|line| line.trim_start().strip_prefix("TLB:")).unwrap_or_default();
    let numbers = row.split_ascii_whitespace().map_while(|field| field.parse::<u64>().ok());
    cpus.zip(numbers).map(|(cpu, count)| (cpu, CountKind::CpuShootdowns, count)).collect()
}

/// Refaults are counted in pages (of files and others apart; in one before Linux 5.9), what came from block devices in KiB.
fn parse_memory(text: &str, page_bytes: u64) -> Vec<CpuCount> {
    let mut counts: Vec<CpuCount> = Vec::new();
    for line in text.lines() {
        let Some((name, number)) = line.split_once(' ') else { continue };
        let (what, unit) = match name {
            "workingset_refault_file" | "workingset_refault_anon" | "workingset_refault" => {
                (CountKind::RefaultBytes, page_bytes)
            }
            "pgpgin" => (CountKind::DiskReadBytes, 1024),
            _ => continue,
        };
        let Ok(number) = number.parse::<u64>() else { continue };
        let bytes = number.saturating_mul(unit);
        match counts.iter_mut().find(|(_, known, _)| *known == what) {
            Some((_, _, sum)) => *sum = sum.saturating_add(bytes),
            None => counts.push((CpuId::NONE, what, bytes)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_single_cpus_in_their_order() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu12 10 0\nintr 5 6\ncpux 1\n";
        let counts = parse_times(text, 10);
        assert_eq!(counts.len(), 10);
        assert_eq!(counts.first(), Some(&(CpuId(0), CountKind::CpuUser, 10)));
        assert_eq!(counts.get(7), Some(&(CpuId(0), CountKind::CpuSteal, 80)));
        assert_eq!(counts.last(), Some(&(CpuId(12), CountKind::CpuNice, 0)));
    }

    #[test]
    fn columns_belong_to_the_cpus_of_the_head() {
        let text = "           CPU0       CPU3\n  0:  1  2  IO-APIC\nTLB:  996884  989786   TLB shootdowns\n";
        let kind = CountKind::CpuShootdowns;
        assert_eq!(parse_shootdowns(text), [(CpuId(0), kind, 996_884), (CpuId(3), kind, 989_786)]);
        for text in ["", "TLB: 1 2", "CPU0\n", "CPU0\nTLB: x"] {
            assert_eq!(parse_shootdowns(text), [], "{text}");
        }
    }

    #[test]
    fn cpu_times_of_this_machine_are_read() {
        assert!(!times().is_empty());
    }

    #[test]
    fn refaulted_bytes_include_file_and_anonymous_pages() {
        let text = "nr_free_pages 9\nworkingset_refault_anon 2\nworkingset_refault_file 3\npgpgin 40\npgpgout x\npswpin 1\n";
        let of = |what, bytes| (CpuId::NONE, what, bytes);
        let told = [of(CountKind::RefaultBytes, 5 * 4096), of(CountKind::DiskReadBytes, 40 * 1024)];
        assert_eq!(parse_memory(text, 4096), told);
        for text in ["", "pgpgin", "pgpgin -1", "pgpgin 1 2"] {
            assert_eq!(parse_memory(text, 4096), [], "{text}");
        }
    }
}
