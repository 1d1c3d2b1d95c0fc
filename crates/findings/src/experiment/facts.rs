//! From a recording to figures that can be compared with those of another.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Trace};

use super::collections;
use super::run::{FactRow, RunFacts, Table, ThreadFacts};
use crate::Analysis;
use crate::derive::amount::Amount;
use crate::derive::class::Class;
use crate::derive::locks::LockUse;
use crate::derive::own_places;
use crate::derive::stacks::{Allocated, Folding, Profile, Selection};

/// Functions, locks, … that are kept of a recording, by time.
const ROWS_MAX: usize = 60;
/// A longer number is an address in a process.
const ADDRESS_DIGITS: usize = 7;
/// Threads that are kept.
const THREADS_MAX: usize = 256;

impl RunFacts {
    /// Of one recording.
    pub fn new(trace: &Trace, analysis: &Analysis) -> RunFacts {
        let derived = &analysis.derived;
        let names = Names::new(trace);
        let mut rows = ledger(analysis);
        rows.extend(collections::rows(analysis));
        rows.extend(top(analysis.findings.iter().map(|finding| {
            let name = names.plain(&format!("{}: {}", finding.rule, uncounted(&finding.subject)));
            FactRow::time(Table::Finding, name, finding.cost_ns)
        })));
        rows.extend(top(derived.locks.iter().map(|lock| FactRow {
            count: Some(lock.waits),
            longest_ns: Some(lock.max_ns),
            ..FactRow::time(Table::Lock, names.of_lock(lock), lock.wait_ns)
        })));
        let wall_ns = trace.wall().0;
        rows.extend(top(derived.syscalls.iter().map(|call| {
            let calls = call.rate.map(|rate| rate.calls_in(wall_ns).0.round() as u64);
            let time = FactRow::time(Table::Syscall, call.name, call.cpu_ns + call.blocked_ns);
            FactRow { count: calls, ..time }
        })));
        rows.extend(functions(trace));
        rows.extend(waits(trace));
        rows.extend(allocations(trace, &derived.allocated));
        let losses = trace.losses.iter().map(|loss| loss.events).sum();
        RunFacts { life_ns: derived.ledger.total_ns, rows, threads: threads(analysis), lost: losses }
    }
}

/// Name of the row with a table's total.
pub(super) const ALL: &str = "(all)";

/// Allocations by site, and in total. Empty if allocations were not recorded.
pub(super) fn allocations(trace: &Trace, allocated: &Allocated) -> Vec<FactRow> {
    let row = |name: &str, amount: &Amount| FactRow {
        table: Table::Allocation,
        name: name.to_owned(),
        amount: amount.bytes(),
        count: amount.objects(),
        longest_ns: None,
    };
    let mut rows = top(allocated.sites.iter().map(|site| row(&site.function, &site.all)));
    // The total exists even if no allocation was sampled. It shows that allocations were recorded.
    if has_allocations(trace) {
        rows.push(row(ALL, &allocated.all));
    }
    rows
}

/// Whether allocations were recorded. There may still be none.
pub(super) fn has_allocations(trace: &Trace) -> bool {
    let mut sources = trace.manifest.sources.iter();
    let drawn =
        sources.any(|source| source.name == "allocations" && source.active && source.missing.is_empty());
    drawn || !trace.allocations.is_empty()
}

/// Names that are equal in every run of the program and of another version of it.
pub(super) struct Names<'a> {
    /// The name of the program's first process. It is left out, because a patched program may have another
    /// name.
    program: &'a str,
}

impl<'a> Names<'a> {
    /// Of a recording.
    pub(super) fn new(trace: &'a Trace) -> Names<'a> {
        let first = trace.target_threads().next().and_then(|id| trace.threads.get(id.index()));
        Names { program: first.map_or("", |thread| trace.process_name(thread.process)) }
    }

    /// A lock, by its own name and the place where most is waited for it.
    pub(super) fn of_lock(&self, lock: &LockUse) -> String {
        let name = self.plain(&lock.name);
        let at = lock.waiting_at.first().map(|(place, _)| format!(" in {}", unnumbered(place)));
        // It may be a part of the name already.
        let is_said = |at: &String| name.ends_with(at.as_str()) || name.contains(&format!("{at},"));
        let at = at.filter(|at| !is_said(at)).unwrap_or_default();
        format!("{name}{at}")
    }

    /// A name without what differs from run to run, and without the program's.
    fn plain(&self, name: &str) -> String {
        without_program(&unnumbered(name), self.program)
    }
}

/// `Mutex m in PROGRAM` is `Mutex m`.
fn without_program(name: &str, program: &str) -> String {
    let of = |word: &str| name.strip_suffix(program)?.strip_suffix(word);
    let short = (!program.is_empty()).then(|| of(" in ").or_else(|| of(" of "))).flatten();
    short.unwrap_or(name).to_owned()
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
    let class = |class: &Class| (*class, ledger.class_ns(*class));
    let mut rows: Vec<FactRow> = Class::ALL
        .iter()
        .map(class)
        .filter(|(_, ns)| *ns > 0)
        .map(|(class, ns)| FactRow::time(Table::Ledger, class.name(), ns))
        .collect();
    let queued = ledger.run_queue;
    let parts =
        [("own threads", queued.own_ns), ("others", queued.others_ns), ("throttled", queued.throttled_ns)];
    for (name, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
        rows.push(FactRow::time(Table::RunQueue, name, ns));
    }
    rows
}

/// Rows of the same name added up, the greatest first.
fn top(rows: impl Iterator<Item = FactRow>) -> Vec<FactRow> {
    let mut rows = summed(rows);
    rows.truncate(ROWS_MAX);
    rows
}

/// The same, all of them.
pub(super) fn summed(rows: impl Iterator<Item = FactRow>) -> Vec<FactRow> {
    let mut sums: BTreeMap<(Table, String), FactRow> = BTreeMap::new();
    for row in rows {
        let sum = sums.entry((row.table, row.name)).or_default();
        sum.amount += row.amount;
        sum.count = row.count.map(|count| count + sum.count.unwrap_or(0)).or(sum.count);
        sum.longest_ns = row.longest_ns.max(sum.longest_ns);
    }
    let row = |((table, name), sum)| FactRow { table, name, ..sum };
    let mut rows: Vec<FactRow> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.amount.cmp(&a.amount).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// A name without what differs from run to run: process and thread numbers, addresses, counts.
fn unnumbered(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    let count = |rest: &str| {
        let is_count = |at: &usize| rest[at + 2..].starts_with(|next: char| next.is_ascii_digit());
        rest.match_indices(" (").map(|(at, _)| at).find(is_count).map(|at| at + 1)
    };
    let marks = |rest: &str| {
        ["(pid ", "(tid ", "0x"].iter().filter_map(|mark| rest.find(mark)).chain(count(rest)).min()
    };
    while let Some(at) = marks(rest) {
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

/// A subject without the count that it begins with.
fn uncounted(subject: &str) -> &str {
    let rest = subject.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ',');
    rest.strip_prefix(' ').filter(|_| rest.len() < subject.len()).unwrap_or(subject)
}

fn functions(trace: &Trace) -> Vec<FactRow> {
    let selection = Selection::all().only(Class::on_cpu);
    let profile = Profile::derive(trace, &selection, &Folding::built_in());
    let flat = profile.flat();
    let named = || flat.iter().filter(|row| !profile.is_bare(row.place));
    let name = |row: &crate::derive::stacks::FlatRow| profile.place(row.place).name.clone();
    let own = named().map(|row| FactRow::time(Table::Function, name(row), row.own.ns));
    let mut rows = top(own);
    rows.extend(top(named().map(|row| FactRow::time(Table::Calls, name(row), row.cumulated.ns))));
    rows
}

/// Where the program's threads were blocked: exact in all, divided by the stacks that were taken.
fn waits(trace: &Trace) -> Vec<FactRow> {
    let blocked: u64 = trace
        .target_threads()
        .flat_map(|thread| trace.slices.of_thread(thread))
        .filter(|slice| slice.state == ThreadState::Blocked)
        .map(|slice| slice.duration().0)
        .sum();
    let places = own_places::waits(trace, |slice| slice.state == ThreadState::Blocked);
    let row = |(name, share)| FactRow::time(Table::Wait, name, (share * blocked as f64) as u64);
    top(places.into_iter().map(row))
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
    use super::*;

    #[test]
    fn names_hold_from_run_to_run() {
        assert_eq!(unnumbered("noisy-neighbour: rustc (pid 30123)"), "noisy-neighbour: rustc");
        assert_eq!(unnumbered("lock at 0x7f12345678a0 in f"), "lock at 0x… in f");
        assert_eq!(unnumbered("xz+0x6b1f (pid 1) x"), "xz+0x6b1f x");
        assert_eq!(unnumbered("(pid "), "");
        assert_eq!(unnumbered("blocking-io: read (3,134 waits)"), "blocking-io: read");
        assert_eq!(uncounted("1,325 minor collections"), "minor collections");
        assert_eq!((uncounted("0x5 in f"), uncounted(" f"), uncounted("7")), ("0x5 in f", " f", "7"));
        assert_eq!(unnumbered("futex(2) in f (anonymous) ("), "futex(2) in f (anonymous) (");
    }
    #[test]
    fn locks_of_two_versions_of_a_program_have_the_same_name() {
        let lock = |name: &str, place: &str| LockUse {
            name: name.to_owned(),
            waiting_at: vec![(place.to_owned(), 1)],
            ..LockUse::default()
        };
        let names = |program| Names { program };
        let before = names("queue-slow").of_lock(&lock("Mutex 0x7f12345678a0 in queue-slow", "take"));
        let after = names("queue-fixed").of_lock(&lock("Mutex 0x7f12345999a0 in queue-fixed", "take"));
        assert_eq!((before.as_str(), after.as_str()), ("Mutex 0x… in take", "Mutex 0x… in take"));
        // A lock of another process keeps that name, and a place is not repeated.
        assert_eq!(names("sh").of_lock(&lock("mmap_lock of make", "f")), "mmap_lock of make in f");
        assert_eq!(
            names("x").of_lock(&lock("lock in take, futex 0x5 in x", "take")),
            "lock in take, futex 0x5"
        );
        assert_eq!(names("").of_lock(&lock("a in ", "f")), "a in  in f");
    }

    #[test]
    fn rows_of_one_name_are_added_up() {
        let row =
            |ns, count, longest_ns| FactRow { count, longest_ns, ..FactRow::time(Table::Lock, "m", ns) };
        let rows =
            summed([row(5, Some(2), Some(4)), row(3, Some(1), Some(3)), row(1, None, None)].into_iter());
        assert_eq!(rows, [row(9, Some(3), Some(4))]);
    }
}
