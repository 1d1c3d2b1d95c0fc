//! One interval as plain lines, with the figures of vmstat, mpstat and pidstat, and the reasons for waits.

use holdup_findings::derive::class::Class;
use holdup_findings::glance::{CpuGlance, Glance, ThreadGlance};

use super::order::{self, Order};
use super::{Moment, now, panels, waiting_for};
use crate::numbers::{count, counted, duration, percent, share};
use crate::terminal::table::{self, Column};
use crate::text::{Style, clean};

/// Threads, waits, locks and other programs that are shown.
const THREADS_MAX: usize = 10;
const ROWS_MAX: usize = 5;

/// The lines of one stretch, an empty one at the end. `clock`: the time of day in words.
pub fn lines(moment: &Moment, clock: &str, style: &Style) -> String {
    let glance = &moment.glance;
    let mut lines = vec![head(moment, clock)];
    lines.extend(cpus(glance, style));
    lines.extend(threads(glance, style));
    lines.extend(waits(glance, style));
    lines.extend(locks(glance, style));
    lines.extend(panels::other_processes(glance, ROWS_MAX).map(|text| format!("  others: {text}")));
    lines.extend(panels::collections(glance).map(|text| format!("  gc: {text}")));
    lines.push(String::new());
    style.finish(&lines)
}

fn head(moment: &Moment, clock: &str) -> String {
    let glance = &moment.glance;
    let mut classes: Vec<(Class, u64)> = Class::ALL
        .into_iter()
        .map(|class| (class, glance.class_ns(class)))
        .filter(|(_, ns)| *ns > 0)
        .collect();
    classes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let told = classes
        .iter()
        .map(|(class, ns)| format!("{} {}", class.name(), percent(share(*ns, glance.total_ns))));
    let threads = counted(glance.threads.len() as u64, "thread");
    let told = told.collect::<Vec<_>>().join("  ");
    format!("{clock}  {}  {threads}: {told}\n  {}", duration(glance.length_ns()), panels::own(moment))
}

fn cpus(glance: &Glance, style: &Style) -> Vec<String> {
    let own = [
        (Class::Useful, "user"),
        (Class::Kernel, "kernel"),
        (Class::GcWork, "gc"),
        (Class::Spin, "spin"),
        (Class::Stolen, "stolen"),
    ];
    // Most programs have none of the last three.
    let has = |class: Class| glance.cpus.iter().any(|cpu| cpu.classes[class as usize] > 0);
    let own =
        own.into_iter().filter(|(class, _)| matches!(class, Class::Useful | Class::Kernel) || has(*class));
    let (own, names): (Vec<Class>, Vec<&str>) = own.unzip();
    let headings = names.into_iter().chain(["others", "idle", "switches"]).map(Column::Figure);
    let columns: Vec<Column> =
        [Column::Figure("cpu")].into_iter().chain(headings).chain([Column::Text("others, most")]).collect();
    let row = |cpu: &CpuGlance| {
        let of = |class: Class| cpu.classes[class as usize];
        let shares = own.iter().map(|class| of(*class)).chain([cpu.others_ns, cpu.idle_ns]);
        let shares = shares.map(|ns| percent(share(ns, glance.length_ns())));
        let who =
            if cpu.most.ran_ns > 0 { panels::named(&cpu.most.name, cpu.most.pid) } else { String::new() };
        let head = std::iter::once(cpu.cpu.0.to_string());
        head.chain(shares).chain([count(cpu.switches), who]).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = glance.cpus.iter().map(row).collect();
    table::lines(&columns, &rows, style)
}

fn threads(glance: &Glance, style: &Style) -> Vec<String> {
    let all = order::threads(glance, Order::Cpu, "");
    if all.is_empty() {
        return vec!["  no thread of the program lives".to_owned()];
    }
    let columns = [
        Column::Figure("tid"),
        Column::Text("thread"),
        Column::Figure("running"),
        Column::Figure("queue"),
        Column::Figure("lock"),
        Column::Figure("waits"),
        Column::Figure("blocked"),
        Column::Figure("preempted"),
        Column::Text("now"),
    ];
    let row = |thread: &&ThreadGlance| {
        let of = |class: Class| thread.classes[class as usize];
        let waits = Class::ALL.into_iter().filter(|class| class.is_wait() && *class != Class::LockWait);
        let others: u64 = waits.map(of).sum();
        let times = [thread.running_ns(), of(Class::RunQueue), of(Class::LockWait), others];
        let shares = times.map(|ns| percent(share(ns, thread.life_ns)));
        let head = [thread.tid.to_string(), clean(&thread.name)];
        let tail = [count(thread.blocked), count(thread.preempted), now(thread)];
        head.into_iter().chain(shares).chain(tail).collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = all.iter().take(THREADS_MAX).map(row).collect();
    let mut lines = table::lines(&columns, &rows, style);
    if all.len() > THREADS_MAX {
        lines.push(format!("  and {} more", all.len() - THREADS_MAX));
    }
    lines
}

fn waits(glance: &Glance, style: &Style) -> Vec<String> {
    if glance.waits.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Text("waits"),
        Column::Figure("count"),
        Column::Figure("threads"),
        Column::Figure("time"),
        Column::Figure("longest"),
    ];
    let rows = glance.waits.iter().take(ROWS_MAX).map(|wait| {
        let times = [wait.wait_ns, wait.max_ns].map(duration);
        let head = [waiting_for(&wait.key), count(wait.count), count(wait.threads)];
        head.into_iter().chain(times).collect::<Vec<String>>()
    });
    table::lines(&columns, &rows.collect::<Vec<_>>(), style)
}

fn locks(glance: &Glance, style: &Style) -> Vec<String> {
    if glance.locks.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::Text("locks"),
        Column::Figure("waits"),
        Column::Figure("threads"),
        Column::Figure("time"),
        Column::Figure("longest"),
        Column::Text("released by"),
    ];
    let rows = glance.locks.iter().take(ROWS_MAX).map(|lock| {
        let times = [lock.wait_ns, lock.max_ns].map(duration);
        let head = [clean(&lock.name), count(lock.waits), lock.waiters.to_string()];
        head.into_iter().chain(times).chain([clean(&lock.releaser)]).collect::<Vec<String>>()
    });
    table::lines(&columns, &rows.collect::<Vec<_>>(), style)
}
