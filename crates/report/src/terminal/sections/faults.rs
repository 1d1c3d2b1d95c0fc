//! FAULTS: page faults and shootdowns by thread, and from where they come.

use holdup_events::ThreadId;
use holdup_findings::derive::paging::{Counts, FaultSite, Paging};
use holdup_findings::scene::syscall_text;

use crate::numbers::{bytes, count, counted, duration, percent, share};
use crate::terminal::View;
use crate::terminal::table::{self, Column};
use crate::text::clean;

pub(super) const SUMMARY: &str = "Page faults and shootdowns by thread, and where they come from";

const ROWS_MAX: usize = 20;

pub(super) fn lines(view: &View) -> Vec<String> {
    let paging = &view.analysis.derived.paging;
    let mut lines = view.heading("FAULTS");
    if !paging.counted && paging.all == Counts::default() {
        lines
            .push(super::nothing(view, "Page faults and shootdowns were not counted: BPF programs do that."));
        return lines;
    }
    if paging.counted {
        lines.push(format!(
            "  {} page faults, {} of them major, {} TLB shootdowns (counted by the kernel: exact)",
            count(paging.all.faults()),
            count(paging.all.major),
            count(paging.all.sent),
        ));
    }
    lines.extend(threads(view, paging));
    lines.extend(sites(view, paging));
    lines.extend(shootdowns(paging));
    lines.extend(reclaims(paging));
    lines
}

fn threads(view: &View, paging: &Paging) -> Vec<String> {
    let columns = [
        Column::Text("thread"),
        Column::Figure("minor"),
        Column::Figure("major"),
        // Short ones: the thread's name and number need the room.
        Column::Figure("sent"),
        Column::Figure("hit"),
        Column::Figure("handlers"),
        Column::Figure("locks"),
        Column::Figure("waited"),
    ];
    let rows: Vec<Vec<String>> = paging.threads.iter().take(ROWS_MAX).map(|row| thread(view, row)).collect();
    let mut lines = table::lines(&columns, &rows, view.style);
    if let Some(rest) = paging.threads.get(ROWS_MAX..).filter(|rest| !rest.is_empty()) {
        let faults: u64 = rest.iter().map(|(_, counts)| counts.faults()).sum();
        let text =
            format!("and {} with {} faults in total", counted(rest.len() as u64, "thread"), count(faults));
        lines.push(super::nothing(view, &text));
    }
    lines.push(super::nothing(view, "sent: TLB shootdowns · hit: interrupted by another CPU's shootdown"));
    lines.push(super::nothing(view, "locks: waits for the lock of the address space"));
    lines
}

fn thread(view: &View, (id, counts): &(ThreadId, Counts)) -> Vec<String> {
    let of = |number: u64, ns: u64| if number > 0 { duration(ns) } else { "-".to_owned() };
    vec![
        view.thread(*id),
        count(counts.minor),
        count(counts.major),
        count(counts.sent),
        count(counts.interrupts),
        of(counts.interrupts, counts.interrupt_ns),
        count(counts.lock_waits),
        of(counts.lock_waits, counts.lock_wait_ns),
    ]
}

fn sites(view: &View, paging: &Paging) -> Vec<String> {
    if paging.sites.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Figure("faults"),
        Column::Figure("share"),
        Column::Figure("±"),
        Column::Figure("major"),
        Column::Text("function · file"),
    ];
    let rows: Vec<Vec<String>> = paging.sites.iter().take(ROWS_MAX).map(site).collect();
    let mut lines = vec![String::new()];
    lines.extend(table::lines(&columns, &rows, view.style));
    let text = format!("where: by {} of them · ±: 95 %", counted(paging.drawn, "drawn fault"));
    lines.push(super::nothing(view, &text));
    lines
}

fn site(site: &FaultSite) -> Vec<String> {
    let file = site.module.rsplit('/').next().unwrap_or(&site.module);
    vec![
        count(site.faults),
        percent(site.share),
        percent(site.share_error),
        count(site.major),
        format!("{} · {}", clean(&site.function), clean(file)),
    ]
}

/// How often threads had to reclaim memory before an allocation, in which functions, and how much was read
/// again.
fn reclaims(paging: &Paging) -> Vec<String> {
    let all = &paging.all;
    let why = [
        (all.limit_reclaims, all.limit_reclaim_ns, "because their memory cgroup was at its limit"),
        (all.direct_reclaims, all.direct_reclaim_ns, "because the machine's memory was full"),
    ];
    let told = why.iter().filter(|(times, ..)| *times > 0);
    let mut lines: Vec<String> = told
        .map(|(times, ns, why)| {
            format!("  threads reclaimed memory {}, {why}: {}", counted(*times, "time"), duration(*ns))
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    lines.insert(0, String::new());
    let calls: Vec<String> = paging
        .reclaimed_in
        .iter()
        .take(4)
        .map(|(call, ns)| format!("{} {}", syscall_text(*call), percent(share(*ns, all.reclaim_ns()))))
        .collect();
    lines.push(format!("  that was in: {}", calls.join(", ")));
    if paging.disk_read_bytes > 0 {
        lines.push(format!(
            "  the whole machine read {} from disks, {} had been in memory before (refaults)",
            bytes(paging.disk_read_bytes),
            bytes(paging.refault_bytes),
        ));
    }
    lines
}

/// In which syscalls they were sent, which CPUs they met, and what became huge.
fn shootdowns(paging: &Paging) -> Vec<String> {
    let mut lines = Vec::new();
    if !paging.sent_in.is_empty() {
        let of = |part: u64| percent(share(part, paging.all.sent));
        let calls: Vec<String> = paging
            .sent_in
            .iter()
            .take(4)
            .map(|(call, sent)| format!("{} {}", syscall_text(*call), of(*sent)))
            .collect();
        lines.push(String::new());
        lines.push(format!("  shootdowns were sent from: {}", calls.join(", ")));
        if paging.sending.samples > 0 {
            let (ns, error) = (duration(paging.sending.ns), duration(paging.sending.error_ns));
            lines.push(format!(
                "  sending them and waiting for acknowledgements took {ns} ± {error} (sampled)"
            ));
        }
    }
    let hit: Vec<String> = paging
        .cpus
        .iter()
        .take(ROWS_MAX)
        .map(|(cpu, interrupts)| format!("CPU {} {}", cpu.0, count(*interrupts)))
        .collect();
    if !hit.is_empty() {
        lines.push(format!("  CPUs interrupted by shootdowns of any program: {}", hit.join(", ")));
    }
    if paging.all.huge_pages > 0 {
        lines.push(format!("  {} assembled from small pages", counted(paging.all.huge_pages, "huge page")));
    }
    lines
}
