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
            Text "name" "symbol of the lock, else the function that waited, else the address" = text(&row.lock.name);
            Int "process" "row in processes" = Some(i64::from(row.lock.process.0));
            Text "process_name" "name of the process" = facts.process(row.lock.process).and_then(|one| text(&one.name));
            Int "object" "address, or inode with its device (as a signed number)" = Some(row.lock.object as i64);
            Text "reason" "lock, file-lock or mmap-lock" = text(row.lock.reason.name());
            Int "waits" "number of waits" = int(row.lock.waits);
            Int "wait_ns" "total wait time of all threads (ns)" = int(row.lock.wait_ns);
            Int "p50_ns" "median wait (ns)" = int(row.lock.p50_ns);
            Int "p99_ns" "99th percentile (ns)" = int(row.lock.p99_ns);
            Int "max_ns" "longest wait (ns)" = int(row.lock.max_ns);
            Int "timed_out" "waits that ended by timeout" = int(row.lock.timed_out);
            Int "waiters" "number of threads that waited" = Some(i64::from(row.lock.waiters));
            Text "waiting_at" "function with the longest total wait" = row.lock.waiting_at.first().and_then(|(at, _)| non_empty(at));
            Text "held_in" "function in which holders ran longest while others waited (sampled)"
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
        meaning: "wait time of a lock, by holder: the rows of a lock sum to its wait_ns",
        columns: columns! { facts, row: HolderRow;
            Int "lock" "row in locks" = row.lock.map(i64::from);
            Text "lock_name" "its name" = text(&row.name);
            Int "holder" "row in threads, NULL if unknown" = row.holder.map(|id| i64::from(id.0));
            Text "holder_name" "its name" = row.holder.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "wait_ns" "time that other threads waited while this thread held the lock (ns)" = int(row.ns);
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
        meaning: "blocked time by the end of the chain of holders: all rows sum to the time blocked",
        columns: columns! { facts, row: BlameRow;
            Text "kind" "kind of the first wait in the chain (lock, disk, pipe, …)" = text(row.subject.kind().name());
            Int "lock" "lock of the first wait: row in locks" = match row.subject {
                Subject::Lock(number) => Some(i64::from(number)),
                Subject::Kind(_) => None,
            };
            Text "end_class" "state of the thread at the end, as a class of the ledger" = text(row.end.class.name());
            Int "thread" "thread at the end: row in threads, NULL if unknown" = row.end.thread.map(|id| i64::from(id.0));
            Text "thread_name" "its name" = row.end.thread.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "occupant" "if that thread was runnable without a CPU: the thread on the CPU" = row.end.occupant.map(|id| i64::from(id.0));
            Text "occupant_name" "its name" = row.end.occupant.and_then(|id| facts.thread_name(id)).and_then(text);
            Int "wait_ns" "wait time attributed to this end (ns)" = int(row.ns);
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
        meaning: "critical path, by thread and class: all rows sum to the recording's length",
        columns: columns! { facts, row: PathRow;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Text "class" "class of the ledger, `running` for all running time" = Some(Cow::Borrowed(on_path(row.class)));
            Int "time_ns" "time on the critical path (ns)" = int(row.ns);
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
