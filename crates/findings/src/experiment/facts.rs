//! From a recording to figures that can be compared with those of another.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use super::run::{FactRow, RunFacts, Table, ThreadFacts};
use crate::Analysis;
use crate::derive::class::Class;
use crate::derive::own_places;
use crate::derive::stacks::{Folding, Profile, Selection};

/// Functions, locks, … that are kept of a recording, by time.
const ROWS_MAX: usize = 60;
/// A longer number is an address in a process.
const ADDRESS_DIGITS: usize = 7;
/// Threads that are kept.
const THREADS_MAX: usize = 256;

impl RunFacts {
    /// Of one recording.
    pub fn of(trace: &Trace, analysis: &Analysis) -> RunFacts {
        let derived = &analysis.derived;
        let mut rows = ledger(analysis);
        rows.extend(top(analysis.findings.iter().map(|finding| {
            let name = unnumbered(&format!("{}: {}", finding.rule, finding.subject));
            FactRow { table: Table::Finding, name, ns: finding.cost_ns, count: None }
        })));
        rows.extend(top(derived.locks.iter().map(|lock| {
            let at = lock.waiting_at.first().map(|(place, _)| format!(" in {place}"));
            let name = unnumbered(&format!("{}{}", lock.name, at.unwrap_or_default()));
            FactRow { table: Table::Lock, name, ns: lock.wait_ns, count: Some(lock.waits) }
        })));
        let wall_ns = trace.wall().0;
        rows.extend(top(derived.syscalls.iter().map(|call| {
            let calls = call.rate.map(|rate| rate.calls_in(wall_ns).0.round() as u64);
            let name = call.name.to_owned();
            FactRow { table: Table::Syscall, name, ns: call.cpu_ns + call.blocked_ns, count: calls }
        })));
        rows.extend(functions(trace));
        rows.extend(waits(trace));
        let losses = trace.losses.iter().map(|loss| loss.events).sum();
        RunFacts { life_ns: derived.ledger.total_ns, rows, threads: threads(analysis), lost: losses }
    }
}

/// The program's own length (ns): from the recording's start, when it is let go, to the end of its first process.
pub fn wall_ns(trace: &Trace) -> u64 {
    let first = trace.target_threads().next().and_then(|id| trace.threads.get(id.index()));
    let Some(first) = first else { return trace.wall().0 };
    let its = trace.target_threads().map(|id| &trace.threads[id.index()]);
    let end = its.filter(|thread| thread.process == first.process).map(|thread| thread.end).max();
    end.map_or(trace.wall().0, |end| end.since(first.start).0)
}

fn ledger(analysis: &Analysis) -> Vec<FactRow> {
    let ledger = &analysis.derived.ledger;
    let class = |class: &Class| (*class, ledger.of(*class));
    let mut rows: Vec<FactRow> = Class::ALL
        .iter()
        .map(class)
        .filter(|(_, ns)| *ns > 0)
        .map(|(class, ns)| FactRow { table: Table::Ledger, name: class.name().to_owned(), ns, count: None })
        .collect();
    let queued = ledger.run_queue;
    let parts =
        [("own threads", queued.own_ns), ("others", queued.others_ns), ("throttled", queued.throttled_ns)];
    for (name, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
        rows.push(FactRow { table: Table::RunQueue, name: name.to_owned(), ns, count: None });
    }
    rows
}

/// Rows of the same name added up, the longest first.
fn top(rows: impl Iterator<Item = FactRow>) -> Vec<FactRow> {
    let mut sums: BTreeMap<(Table, String), (u64, Option<u64>)> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry((row.table, row.name)).or_default();
        sum.0 += row.ns;
        sum.1 = row.count.map(|count| count + sum.1.unwrap_or(0)).or(sum.1);
    }
    let row = |((table, name), (ns, count))| FactRow { table, name, ns, count };
    let mut rows: Vec<FactRow> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(ROWS_MAX);
    rows
}

/// A name without what differs from run to run: process and thread numbers, addresses.
fn unnumbered(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(at) = ["(pid ", "(tid ", "0x"].iter().filter_map(|mark| rest.find(mark)).min() {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        if found.starts_with('(') {
            rest = found.find(')').map_or("", |end| &found[end + 1..]);
            out.truncate(out.trim_end().len());
        } else {
            let digits = found[2..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(found.len() - 2);
            // A short one is a place within a module, the same in each run.
            out.push_str(if digits > ADDRESS_DIGITS { "0x…" } else { &found[..2 + digits] });
            rest = &found[2 + digits..];
        }
    }
    out.push_str(rest);
    out
}

fn functions(trace: &Trace) -> Vec<FactRow> {
    let selection = Selection::all().only(Class::on_cpu);
    let profile = Profile::derive(trace, &selection, &Folding::built_in());
    let flat = profile.flat();
    let named = || flat.iter().filter(|row| !profile.is_bare(row.place));
    let name = |row: &crate::derive::stacks::FlatRow| profile.place(row.place).name.clone();
    let own =
        named().map(|row| FactRow { table: Table::Function, name: name(row), ns: row.own.ns, count: None });
    let mut rows = top(own);
    let below = named().map(|row| FactRow {
        table: Table::Calls,
        name: name(row),
        ns: row.cumulated.ns,
        count: None,
    });
    rows.extend(top(below));
    rows
}

/// Where the program's threads were blocked: exact in all, divided by the stacks that were taken.
fn waits(trace: &Trace) -> Vec<FactRow> {
    let blocked: u64 = trace
        .target_threads()
        .flat_map(|thread| trace.slices.of(thread))
        .filter(|slice| slice.state == ThreadState::Blocked)
        .map(|slice| slice.duration().0)
        .sum();
    let places = own_places::waits(trace, |slice| slice.state == ThreadState::Blocked);
    top(places.into_iter().map(|(name, share)| FactRow {
        table: Table::Wait,
        name,
        ns: (share * blocked as f64) as u64,
        count: None,
    }))
}

fn threads(analysis: &Analysis) -> Vec<ThreadFacts> {
    let mut threads: Vec<(ThreadId, ThreadFacts)> = Vec::new();
    for thread in &analysis.derived.ledger.threads {
        let classes =
            Class::ALL.iter().map(|class| (class.name().to_owned(), thread.classes[*class as usize]));
        let classes = classes.filter(|(_, ns)| *ns > 0).collect();
        let facts = ThreadFacts { life_ns: thread.life.0, running_ns: thread.running_ns(), classes };
        threads.push((thread.thread, facts));
    }
    threads.sort_by_key(|(id, facts)| (std::cmp::Reverse(facts.running_ns), *id));
    threads.truncate(THREADS_MAX);
    threads.into_iter().map(|(_, facts)| facts).collect()
}

#[cfg(test)]
mod tests {
    use super::unnumbered;

    #[test]
    fn names_hold_from_run_to_run() {
        assert_eq!(unnumbered("noisy-neighbour: rustc (pid 30123)"), "noisy-neighbour: rustc");
        assert_eq!(unnumbered("lock at 0x7f12345678a0 in f"), "lock at 0x… in f");
        assert_eq!(unnumbered("xz+0x6b1f (pid 1) x"), "xz+0x6b1f x");
        assert_eq!(unnumbered("(pid "), "");
    }
}
