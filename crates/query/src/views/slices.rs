//! Slices: a thread in one state for a while.

use std::ops::Range;

use holdup_events::tables::{Slice, Wakeup};
use holdup_events::{ThreadId, Timestamp};
use holdup_findings::derive::ledger::class_of_slice;

use crate::facts::{Facts, cpu};
use crate::view::{Table, columns, int, text};

/// A slice with what the ledger makes of it.
pub(super) struct SliceRow {
    row: usize,
    slice: Slice,
    class: Option<&'static str>,
    stolen_ns: u64,
}

pub(super) fn slices() -> Table<SliceRow> {
    Table {
        name: "slices",
        meaning: "a thread in one state for a time. The slices of a program's thread cover its life without gaps",
        columns: columns! { facts, row: SliceRow;
            Int "slice" "its id: row in raw.slices" = Some(row.row as i64);
            Int "thread" "row in threads" = Some(i64::from(row.slice.thread.0));
            Int "tid" "the kernel's thread id" = facts.thread(row.slice.thread).map(|one| i64::from(one.tid));
            Text "thread_name" "name of the thread" = facts.thread_name(row.slice.thread).and_then(text);
            Int "process" "row in processes" = facts.thread(row.slice.thread).map(|one| i64::from(one.process.0));
            Text "process_name" "name of its process"
                = facts.process_of(row.slice.thread).and_then(|one| text(&one.name));
            Flag "target" "the thread belongs to the traced program"
                = facts.thread(row.slice.thread).map(|one| one.target);
            Int "start_ns" "start (ns)" = int(row.slice.start.0);
            Int "end_ns" "end (ns)" = int(row.slice.end.0);
            Int "duration_ns" "length (ns)" = int(row.slice.duration().0);
            Real "at_s" "its start, seconds since the recording began" = Some(facts.at_s(row.slice.start));
            Text "state" "unknown, running, runnable, preempted, yielded, throttled, blocked or untracked"
                = text(row.slice.state.name());
            Text "class" "class of the ledger, NULL for other programs. Running time is `running`: only samples divide it"
                = row.class.and_then(text);
            Int "cpu" "CPU. For a runnable thread, the CPU on which it ran next" = cpu(row.slice.cpu);
            Int "stolen_ns" "steal time within the slice (ns)" = int(row.stolen_ns);
            Text "reason" "if blocked: reason, as far as the kernel reports it" = reason(facts, &row.slice);
            Int "wait" "if blocked: row in raw.waits" = Some(i64::from(row.slice.wait.0)).filter(|id| *id > 0);
            Int "stack" "if blocked: row in stacks" = Some(i64::from(row.slice.stack.0)).filter(|id| *id > 0);
            Int "stack_every" "number of such slices that this stack represents"
                = Some(i64::from(row.slice.stack_every)).filter(|every| *every > 0);
        },
        places: |facts| facts.trace.slices.len(),
        rows,
    }
}

fn reason<'a>(facts: &'a Facts, slice: &Slice) -> Option<std::borrow::Cow<'a, str>> {
    let blocked = slice.state == holdup_events::tables::ThreadState::Blocked;
    blocked.then(|| facts.trace.wait(slice.wait).reason.name()).and_then(text)
}

/// Calls `each` with every slice of some rows, and its row.
pub(super) fn each(facts: &Facts, rows: Range<usize>, mut each: impl FnMut(usize, Slice)) {
    let slices = &facts.trace.slices;
    let mut first = rows.start;
    let mut thread = thread_of(facts, first);
    while first < rows.end && (thread.index()) < slices.threads() {
        let own = slices.rows(thread);
        let end = own.end.min(rows.end);
        for (row, slice) in (first..end).zip(slices.from_row(thread, first)) {
            each(row, slice);
        }
        first = first.max(end);
        thread = ThreadId(thread.0 + 1);
    }
}

/// The thread that has a row.
fn thread_of(facts: &Facts, row: usize) -> ThreadId {
    let slices = &facts.trace.slices;
    let (mut low, mut high) = (0, slices.threads());
    while low < high {
        let middle = low.midpoint(high);
        if slices.rows(ThreadId(middle as u32)).end <= row { low = middle + 1 } else { high = middle }
    }
    ThreadId(low as u32)
}

/// Steal time of one thread's slices, queried in time order.
struct Thread<'a> {
    id: ThreadId,
    target: bool,
    life: (Timestamp, Timestamp),
    wakeups: &'a [Wakeup],
}

fn rows(facts: &Facts, rows: Range<usize>) -> Vec<SliceRow> {
    let trace = &facts.trace;
    let mut made = Vec::with_capacity(rows.len());
    let mut of: Option<Thread> = None;
    each(facts, rows, |row, mut slice| {
        if of.as_ref().is_none_or(|thread| thread.id != slice.thread) {
            of = Some(thread(facts, &slice));
        }
        let Some(thread) = &mut of else { return };
        let key = (slice.thread, slice.start);
        let stolen = trace.steals.binary_search_by_key(&key, |steal| (steal.thread, steal.slice_start));
        slice.start = slice.start.max(thread.life.0);
        slice.end = slice.end.min(thread.life.1).max(slice.start);
        let stolen = stolen.ok().and_then(|at| trace.steals.get(at)).map_or(0, |steal| steal.stolen.0);
        let class = thread.target.then(|| {
            let class = class_of_slice((trace, &facts.begun().roles), &slice, &mut thread.wakeups);
            class.map_or("running", |class| class.name())
        });
        made.push(SliceRow { row, slice, class, stolen_ns: stolen.min(slice.duration().0) });
    });
    made
}

fn thread<'a>(facts: &'a Facts, first: &Slice) -> Thread<'a> {
    let row = facts.thread(first.thread);
    let wakeups = facts.trace.wakeups.of_thread(first.thread);
    let before = wakeups.partition_point(|wakeup| wakeup.at < first.start);
    Thread {
        id: first.thread,
        target: row.is_some_and(|row| row.target),
        life: row.map_or((first.start, first.end), |row| (row.start, row.end)),
        wakeups: &wakeups[before..],
    }
}
