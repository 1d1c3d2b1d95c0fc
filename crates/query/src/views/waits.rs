//! Waits of the program's threads, and wakeups.

use std::borrow::Cow;
use std::ops::Range;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, Wakeup};
use holdup_events::{ObjectKind, ThreadId, Wait};
use holdup_findings::derive::holders::Hold;
use holdup_findings::derive::ledger::class_of_slice;
use holdup_findings::derive::syscall_names::syscall_name;

use super::slices::each;
use crate::facts::{Facts, cpu};
use crate::view::{Table, columns, int, non_empty, text};

/// One wait: a blocked slice, the holder of its object, and the waker.
pub(super) struct WaitRow {
    row: usize,
    slice: Slice,
    hold: Hold,
    class: &'static str,
    ended_by: Option<Wakeup>,
}

impl WaitRow {
    fn wait<'a>(&self, facts: &'a Facts) -> &'a Wait {
        facts.trace.wait(self.slice.wait)
    }

    /// The thread that ended it, if one did.
    fn waker(&self) -> Option<ThreadId> {
        self.ended_by.filter(|wakeup| wakeup.context == WakeContext::Thread).map(|wakeup| wakeup.waker)
    }
}

pub(super) fn waits() -> Table<WaitRow> {
    Table {
        name: "waits",
        meaning: "one wait of a thread of the program, with its object, holder and waker",
        columns: columns! { facts, row: WaitRow;
            Int "slice" "row in slices" = Some(row.row as i64);
            Int "thread" "waiting thread: row in threads" = Some(i64::from(row.slice.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.slice.thread).and_then(text);
            Text "process_name" "name of its process"
                = facts.process_of(row.slice.thread).and_then(|one| text(&one.name));
            Int "start_ns" "start (ns)" = int(row.slice.start.0);
            Int "end_ns" "end (ns)" = int(row.slice.end.0);
            Int "duration_ns" "length (ns)" = int(row.slice.duration().0);
            Real "at_s" "its start, seconds since the recording began" = Some(facts.at_s(row.slice.start));
            Text "class" "class of the ledger" = text(row.class);
            Text "kind" "kind of the wait: lock, disk, pipe, timer, …" = text(row.hold.kind.name());
            Text "reason" "reason, as far as the kernel reports it" = text(row.wait(facts).reason.name());
            Text "syscall" "syscall of the wait" = syscall(row.wait(facts).syscall);
            Text "object_kind" "kind of the object" = kind(row.wait(facts));
            Int "object" "identity of the object: address, or inode with its device (as a signed number)"
                = Some(row.wait(facts).object as i64).filter(|object| *object != 0);
            Text "object_name" "name of the object, if known: variable of a futex, path of a file, addresses of a socket"
                = non_empty(object_name(facts, row.wait(facts)));
            Int "lock" "row in locks" = lock(facts, row);
            Int "holder" "holder when the wait ended: row in threads" = row.hold.holder.map(|id| i64::from(id.0));
            Text "holder_name" "its name" = row.hold.holder.and_then(|id| facts.thread_name(id)).and_then(text);
            Text "basis" "how the holder was determined" = text(row.hold.basis.name());
            Int "waker" "waker, if a thread ended the wait: row in threads" = row.waker().map(|id| i64::from(id.0));
            Text "waker_name" "its name" = row.waker().and_then(|id| facts.thread_name(id)).and_then(text);
            Text "context" "context of the wakeup: thread, timer, softirq or irq"
                = row.ended_by.and_then(|wakeup| text(wakeup.context.name()));
            Flag "false_wakeup" "the thread was woken in vain, and its next wait continues this one"
                = Some(row.hold.false_wakeup);
            Int "transit_ns" "time from the wakeup until the run queue (ns)"
                = int(row.hold.transit.0);
            Int "stack" "row in stacks" = Some(i64::from(row.slice.stack.0)).filter(|id| *id > 0);
            Int "stack_every" "number of such waits that this stack represents"
                = Some(i64::from(row.slice.stack_every)).filter(|every| *every > 0);
        },
        places: |facts| facts.trace.slices.len(),
        rows,
    }
}

fn rows(facts: &Facts, rows: Range<usize>) -> Vec<WaitRow> {
    let (trace, derived) = (&facts.trace, &facts.analysis().derived);
    let mut made = Vec::new();
    let (mut thread, mut near, mut wakeups) = (None, 0, &[][..]);
    each(facts, rows, |row, slice| {
        let Some(hold) = derived.holders.at(slice.thread, row) else { return };
        if thread != Some(slice.thread) {
            let all = trace.wakeups.of_thread(slice.thread);
            near = all.partition_point(|wakeup| wakeup.at < slice.start);
            (thread, wakeups) = (Some(slice.thread), &all[near..]);
        }
        let class = class_of_slice((trace, &derived.roles), &slice, &mut wakeups);
        let ended_by = trace.ended_by_near(&slice, &mut near).copied();
        let class = class.map_or("running", |class| class.name());
        made.push(WaitRow { row, slice, hold, class, ended_by });
    });
    made
}

fn syscall(number: i32) -> Option<Cow<'static, str>> {
    (number != i32::MIN).then(|| Cow::Borrowed(syscall_name(number)))
}

fn kind(wait: &Wait) -> Option<Cow<'static, str>> {
    (wait.object_kind != ObjectKind::None).then(|| Cow::Borrowed(wait.object_kind.name()))
}

fn object_name<'a>(facts: &'a Facts, wait: &'a Wait) -> &'a str {
    match wait.symbol.as_str() {
        "" => facts.trace.calls.name_of(wait.object_kind, wait.object),
        symbol => symbol,
    }
}

fn lock(facts: &Facts, row: &WaitRow) -> Option<i64> {
    facts.analysis().derived.occupancy.locks.of_slice(&row.slice).map(i64::from)
}

pub(super) fn wakeups() -> Table<Wakeup> {
    Table {
        name: "wakeups",
        meaning: "a thread was made runnable",
        columns: columns! { facts, row: Wakeup;
            Int "wakee" "woken thread: row in threads" = Some(i64::from(row.wakee.0));
            Text "wakee_name" "its name" = facts.thread_name(row.wakee).and_then(text);
            Int "at_ns" "time (ns)" = int(row.at.0);
            Real "at_s" "the same, seconds since the recording began" = Some(facts.at_s(row.at));
            Int "waker" "waker, if a thread woke it: row in threads" = waker(row).map(|id| i64::from(id.0));
            Text "waker_name" "its name" = waker(row).and_then(|id| facts.thread_name(id)).and_then(text);
            Int "cpu" "CPU of the waker" = cpu(row.cpu);
            Text "context" "context of the wakeup: thread, timer, softirq or irq" = text(row.context.name());
            Int "object" "address of the futex that was woken (as a signed number)"
                = Some(row.waker_object as i64).filter(|object| *object != 0);
            Int "stack" "stack of the waker: row in stacks" = Some(i64::from(row.stack.0)).filter(|id| *id > 0);
            Int "stack_every" "number of such wakeups that this stack represents"
                = Some(i64::from(row.stack_every)).filter(|every| *every > 0);
        },
        places: |facts| facts.trace.wakeups.len(),
        rows: |facts, places| {
            facts.trace.wakeups.iter().skip(places.start).take(places.len()).copied().collect()
        },
    }
}

fn waker(row: &Wakeup) -> Option<ThreadId> {
    (row.context == WakeContext::Thread).then_some(row.waker)
}
