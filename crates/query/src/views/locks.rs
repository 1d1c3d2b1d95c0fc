//! Locks, their holders, the ends of chains of holders, and the critical path.

use std::borrow::Cow;

use holdup_events::ThreadId;
use holdup_findings::derive::blame::{End, Subject};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::locks::LockUse;

use crate::facts::Facts;
use crate::view::{Table, columns, int, non_empty, part, text};

/// A lock, with its number.
pub(super) struct LockRow {
    number: Option<u32>,
    lock: LockUse,
}

fn lock_rows(facts: &Facts) -> Vec<LockRow> {
    let derived = &facts.analysis().derived;
    let known = &derived.occupancy.locks.locks;
    let number = |lock: &LockUse| {
        let key = (lock.process, lock.object, lock.reason);
        known.iter().position(|one| *one == key).map(|number| number as u32)
    };
    derived.locks.iter().map(|lock| LockRow { number: number(lock), lock: lock.clone() }).collect()
}

pub(super) fn locks() -> Table<LockRow> {
    Table {
        name: "locks",
        meaning: "a lock that threads of the program waited for",
        columns: columns! { facts, row: LockRow;
            Int "lock" "its id in this recording" = row.number.map(i64::from);
            Text "name" "a symbol, else where it was waited for, else its address" = text(&row.lock.name);
            Int "process" "row in processes" = Some(i64::from(row.lock.process.0));
            Text "process_name" "name of the process" = facts.process(row.lock.process).and_then(|one| text(&one.name));
            Int "object" "address, or inode with its device (as a signed number)" = Some(row.lock.object as i64);
            Text "reason" "lock, file-lock or mmap-lock" = text(row.lock.reason.name());
            Int "waits" "how often a thread waited" = int(row.lock.waits);
            Int "wait_ns" "how long all waited (ns)" = int(row.lock.wait_ns);
            Int "p50_ns" "median wait (ns)" = int(row.lock.p50_ns);
            Int "p99_ns" "99th percentile (ns)" = int(row.lock.p99_ns);
            Int "max_ns" "longest wait (ns)" = int(row.lock.max_ns);
            Int "timed_out" "waits that gave up" = int(row.lock.timed_out);
            Int "waiters" "how many threads waited" = Some(i64::from(row.lock.waiters));
            Text "waiting_at" "the function that waited longest" = row.lock.waiting_at.first().and_then(|(at, _)| non_empty(at));
            Text "held_in" "the function in which holders ran longest meanwhile"
                = row.lock.held_in.first().and_then(|(at, _)| non_empty(at));
        },
        places: |facts| facts.analysis().derived.locks.len(),
        rows: |facts, places| part(lock_rows(facts), places),
    }
}

/// Holders of a lock while others waited.
pub(super) struct HolderRow {
    lock: Option<u32>,
    name: String,
    holder: Option<ThreadId>,
    ns: u64,
}

fn holder_rows(facts: &Facts) -> Vec<HolderRow> {
    let of_lock = |row: LockRow| {
        let holders = row.lock.held_by.clone().into_iter();
        holders.map(move |(holder, ns)| HolderRow {
            lock: row.number,
            name: row.lock.name.clone(),
            holder,
            ns,
        })
    };
    lock_rows(facts).into_iter().flat_map(of_lock).collect()
}

pub(super) fn lock_holders() -> Table<HolderRow> {
    Table {
        name: "lock_holders",
        meaning: "who had a lock while others waited for it; of a lock they sum to its wait_ns",
        columns: columns! { facts, row: HolderRow;
            Int "lock" "row in locks" = row.lock.map(i64::from);
            Text "lock_name" "its name" = text(&row.name);
            Int "holder" "row in threads; NULL: not known" = row.holder.map(|id| i64::from(id.0));
            Text "holder_name" "its name" = row.holder.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "wait_ns" "how long others waited meanwhile (ns)" = int(row.ns);
        },
        places: |facts| holder_rows(facts).len(),
        rows: |facts, places| part(holder_rows(facts), places),
    }
}

/// One end of the chains that begin with waits for one subject.
pub(super) struct BlameRow {
    subject: Subject,
    end: End,
    ns: u64,
}

fn blame_rows(facts: &Facts) -> Vec<BlameRow> {
    let subjects = facts.analysis().derived.blame.subjects.iter();
    let ends = subjects.flat_map(|one| one.ends.iter().map(|(end, ns)| (one.subject, *end, *ns)));
    ends.map(|(subject, end, ns)| BlameRow { subject, end, ns }).collect()
}

pub(super) fn blame() -> Table<BlameRow> {
    Table {
        name: "blame",
        meaning: "what was at the end of the chain of holders; all rows sum to the time blocked",
        columns: columns! { facts, row: BlameRow;
            Text "kind" "what was waited for first, in terms of who can end it" = text(row.subject.kind().name());
            Int "lock" "the lock that was waited for: row in locks" = match row.subject {
                Subject::Lock(number) => Some(i64::from(number)),
                Subject::Kind(_) => None,
            };
            Text "end_class" "what the thread at the end did, or waited for" = text(row.end.class.name());
            Int "thread" "row in threads: who is at the end; NULL: not known" = row.end.thread.map(|id| i64::from(id.0));
            Text "thread_name" "its name" = row.end.thread.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "occupant" "of a thread without a CPU: who had that" = row.end.occupant.map(|id| i64::from(id.0));
            Text "occupant_name" "its name" = row.end.occupant.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "wait_ns" "time waited that is charged to it (ns)" = int(row.ns);
        },
        places: |facts| blame_rows(facts).len(),
        rows: |facts, places| part(blame_rows(facts), places),
    }
}

/// Time of one class of a thread on the critical path.
pub(super) struct PathRow {
    thread: ThreadId,
    class: Class,
    ns: u64,
}

pub(super) fn critical_path() -> Table<PathRow> {
    Table {
        name: "critical_path",
        meaning: "what the run's length depended on: a thread in one class; they sum to the recording's length",
        columns: columns! { facts, row: PathRow;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Text "class" "class of the ledger; all running time is `running`" = Some(Cow::Borrowed(on_path(row.class)));
            Int "time_ns" "how long (ns)" = int(row.ns);
        },
        places: |facts| facts.analysis().derived.critical_path.threads.len() * CLASSES,
        rows: |facts, places| {
            let threads = &facts.analysis().derived.critical_path.threads;
            let row = |place: usize| {
                let ((thread, classes), class) = (&threads[place / CLASSES], Class::ALL[place % CLASSES]);
                PathRow { thread: *thread, class, ns: classes[class as usize] }
            };
            places.map(row).filter(|row| row.ns > 0).collect()
        },
    }
}

/// A path is not divided by samples.
fn on_path(class: Class) -> &'static str {
    if class.on_cpu() { "running" } else { class.name() }
}
