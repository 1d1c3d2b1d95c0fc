//! `api/tables/NAME`: what the report prints as tables, with where a row leads. A new one is one line in [`TABLES`].

mod barriers;
mod calls;
mod gc;
mod lines;

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::stacks::{Folding, Profile, Selection};
use serde::Serialize;
use serde_json::{Value, json};

use super::summary::ranked_threads;
use super::{Refusal, Viewer, to_text};
use crate::numbers::{count, counted};

/// Rows of a table.
const ROWS_MAX: usize = 10_000;
/// Functions: the rest is below what a flame graph shows too.
const FUNCTIONS_MAX: usize = 2000;

/// A table that can be asked for.
struct Table {
    name: &'static str,
    label: &'static str,
    /// Name, label and unit of each column.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// A sentence about the basis of the figures. Empty if there is none.
    note: fn(&Viewer) -> String,
    rows: fn(&Viewer) -> Rows,
}

/// The first rows of a table, and how many there are.
struct Rows {
    first: Vec<Row>,
    all: usize,
}

impl Rows {
    /// Converts the first `most` items of `all` to rows.
    fn first<T>(all: &[T], most: usize, row: impl Fn(&T) -> Row) -> Rows {
        Rows { first: all.iter().take(most).map(row).collect(), all: all.len() }
    }
}

impl From<Vec<Row>> for Rows {
    fn from(mut rows: Vec<Row>) -> Rows {
        let all = rows.len();
        rows.truncate(ROWS_MAX);
        Rows { first: rows, all }
    }
}

/// No note.
fn no_note(_: &Viewer) -> String {
    String::new()
}

/// Cells of a row, and the place that it links to.
type Row = (Vec<Value>, Option<Place>);

/// Where a click on a row leads.
#[derive(Clone, Copy, Serialize)]
struct Place {
    thread: u32,
    start_ns: u64,
    end_ns: u64,
}

const TABLES: &[Table] = &[
    Table {
        name: "threads",
        label: "Threads",
        columns: &[
            ("thread", "thread", "thread"),
            ("process", "process", "process"),
            ("life_ns", "lived", "ns"),
            ("running_ns", "on CPU", "ns"),
            ("run_queue_ns", "waited for a CPU", "ns"),
            ("others_ns", "… behind others", "ns"),
            ("lock_ns", "lock wait", "ns"),
            ("work_ns", "work wait", "ns"),
            ("io_ns", "disk wait", "ns"),
            ("unknown_ns", "unknown", "ns"),
            ("blocked", "blocked", "count"),
            ("preempted", "preempted", "count"),
            ("migrations", "migrations", "count"),
        ],
        note: no_note,
        rows: |viewer| threads(viewer).into(),
    },
    Table {
        name: "locks",
        label: "Locks",
        columns: &[
            ("name", "lock", "text"),
            ("process", "process", "process"),
            ("wait_ns", "waited", "ns"),
            ("waits", "waits", "count"),
            ("p50_ns", "median", "ns"),
            ("p99_ns", "99 %", "ns"),
            ("max_ns", "longest", "ns"),
            ("waiters", "waiters", "count"),
            ("holder", "held longest by", "thread"),
            ("held_in", "holder in", "function"),
            ("waiting_at", "waited for most in", "function"),
        ],
        note: no_note,
        rows: |viewer| locks(viewer).into(),
    },
    barriers::SITES,
    barriers::EACH,
    gc::LENGTHS,
    gc::LONGEST,
    calls::COSTS,
    calls::USES,
    lines::TABLE,
    Table {
        name: "functions",
        label: "Functions",
        columns: &[
            ("function", "function", "function"),
            ("own_ns", "on CPU in itself", "ns"),
            ("ns", "including callees", "ns"),
            ("samples", "samples", "count"),
            ("module", "in", "text"),
        ],
        note: no_note,
        rows: functions,
    },
    Table {
        name: "cpus",
        label: "CPUs",
        columns: &[
            ("cpu", "CPU", "cpu"),
            ("target_ns", "the program", "ns"),
            ("others_ns", "others", "ns"),
            ("stolen_ns", "stolen", "ns"),
            ("idle_ns", "idle", "ns"),
            ("switches", "switches", "count"),
            ("most", "most of the others", "process"),
        ],
        note: no_note,
        rows: |viewer| cpus(viewer).into(),
    },
    Table {
        name: "processes",
        label: "Processes",
        columns: &[
            ("process", "process", "process"),
            ("pid", "pid", "count"),
            ("threads", "threads", "count"),
            ("cpu_ns", "on CPU", "ns"),
            ("target", "of the program", "text"),
        ],
        note: no_note,
        rows: |viewer| processes(viewer).into(),
    },
    Table {
        name: "losses",
        label: "Losses",
        columns: &[
            ("source", "source", "text"),
            ("reason", "reason", "text"),
            ("start", "from", "time"),
            ("end", "to", "time"),
            ("events", "events", "count"),
        ],
        note: no_note,
        rows: |viewer| losses(viewer).into(),
    },
];

pub(super) fn list() -> Value {
    TABLES.iter().map(|table| json!({"name": table.name, "label": table.label})).collect()
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

pub(super) fn answer(viewer: &Viewer, name: &str) -> Result<String, Refusal> {
    let Some(table) = TABLES.iter().find(|table| table.name == name) else {
        return Err(Refusal::not_there("there is no such table"));
    };
    let rows = (table.rows)(viewer);
    let note = note((table.note)(viewer), &rows);
    let (cells, places): (Vec<Vec<Value>>, Vec<Option<Place>>) = rows.first.into_iter().unzip();
    let column =
        |(name, label, unit): &(&str, &str, &str)| json!({"name": name, "label": label, "unit": unit});
    Ok(to_text(&json!({
        "name": table.name,
        "label": table.label,
        "columns": table.columns.iter().map(column).collect::<Value>(),
        "rows": cells,
        "places": places,
        "note": note,
    })))
}

/// With how much of the table is there, if that is not all.
fn note(said: String, rows: &Rows) -> String {
    if rows.first.len() == rows.all {
        return said;
    }
    let part =
        format!("The first {} of {}.", count(rows.first.len() as u64), counted(rows.all as u64, "row"));
    if said.is_empty() { part } else { format!("{said} {part}") }
}

fn place(viewer: &Viewer, thread: ThreadId, (start, end): (Timestamp, Timestamp)) -> Option<Place> {
    Some(Place { thread: thread.0, start_ns: viewer.since(start), end_ns: viewer.since(end) })
}

fn life(viewer: &Viewer, thread: ThreadId) -> Option<Place> {
    let row = viewer.trace.threads.get(thread.index())?;
    place(viewer, thread, (row.start, row.end))
}

fn threads(viewer: &Viewer) -> Vec<Row> {
    let ledgers = &viewer.analysis().derived.ledger.threads;
    let by_thread: BTreeMap<ThreadId, _> = ledgers.iter().map(|one| (one.thread, one)).collect();
    let ranked = ranked_threads(viewer).into_iter().filter_map(|id| by_thread.get(&id).copied());
    let row = |one: &holdup_findings::derive::ledger::ThreadLedger| {
        let of = |class: Class| Value::from(one.classes[class as usize]);
        let process = viewer.trace.threads.get(one.thread.index()).map(|thread| thread.process.0);
        let cells = vec![
            one.thread.0.into(),
            process.into(),
            one.life.0.into(),
            one.running_ns().into(),
            of(Class::RunQueue),
            one.run_queue.others_ns.into(),
            of(Class::LockWait),
            of(Class::WorkWait),
            of(Class::IoWait),
            of(Class::Unknown),
            one.blocked.into(),
            one.preempted.into(),
            one.migrations.into(),
        ];
        (cells, life(viewer, one.thread))
    };
    ranked.map(row).collect()
}

fn locks(viewer: &Viewer) -> Vec<Row> {
    let longest = longest_waits(viewer);
    let row = |lock: &holdup_findings::derive::locks::LockUse| {
        let cells = vec![
            lock.name.clone().into(),
            lock.process.0.into(),
            lock.wait_ns.into(),
            lock.waits.into(),
            lock.p50_ns.into(),
            lock.p99_ns.into(),
            lock.max_ns.into(),
            lock.waiters.into(),
            lock.held_by.iter().find_map(|(thread, _)| *thread).map(|thread| thread.0).into(),
            lock.held_in.first().map(|(name, _)| name.clone()).into(),
            lock.waiting_at.first().map(|(name, _)| name.clone()).into(),
        ];
        (cells, longest.get(&(lock.process, lock.object, lock.reason)).copied())
    };
    viewer.analysis().derived.locks.iter().map(row).collect()
}

/// The longest wait for each lock.
fn longest_waits(viewer: &Viewer) -> BTreeMap<(ProcessId, u64, holdup_events::WaitReason), Place> {
    let trace = &viewer.trace;
    let index = LockIndex::new(trace, &viewer.analysis().derived.roles);
    let mut longest: BTreeMap<u32, Place> = BTreeMap::new();
    for thread in trace.target_threads().filter(|_| !index.locks.is_empty()) {
        for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
            let Some(lock) = index.of_slice(&slice) else { continue };
            let known = longest.get(&lock).map_or(0, |place| place.end_ns - place.start_ns);
            if (slice.duration().0 > known || !longest.contains_key(&lock))
                && let Some(place) = place(viewer, thread, (slice.start, slice.end))
            {
                longest.insert(lock, place);
            }
        }
    }
    longest.into_iter().map(|(lock, place)| (index.locks[lock as usize], place)).collect()
}

fn functions(viewer: &Viewer) -> Rows {
    let selection = Selection::all().only(Class::on_cpu);
    let profile = Profile::derive(&viewer.trace, &selection, &Folding::built_in());
    let row = |row: &holdup_findings::derive::stacks::FlatRow| {
        let place = profile.place(row.place);
        let cells = vec![
            place.name.clone().into(),
            row.own.ns.into(),
            row.cumulated.ns.into(),
            row.cumulated.samples.into(),
            place.file().into(),
        ];
        (cells, None)
    };
    Rows::first(&profile.flat(), FUNCTIONS_MAX, row)
}

fn cpus(viewer: &Viewer) -> Vec<Row> {
    let row = |cpu: &holdup_findings::derive::cpus::CpuUse| {
        let cells = vec![
            cpu.cpu.0.into(),
            cpu.target_ns.into(),
            cpu.others_ns.into(),
            cpu.stolen_ns.into(),
            cpu.idle_ns.into(),
            cpu.switches.into(),
            cpu.others.first().map(|(process, _)| process.0).into(),
        ];
        (cells, None)
    };
    viewer.analysis().derived.cpus.iter().map(row).collect()
}

fn processes(viewer: &Viewer) -> Vec<Row> {
    let trace = &viewer.trace;
    let mut sums = vec![(0u64, 0u64, None); trace.processes.len()];
    for (number, thread) in trace.threads.iter().enumerate() {
        let Some(sum) = sums.get_mut(thread.process.index()) else { continue };
        let id = ThreadId(number as u32);
        let classes = viewer.zoom.between(trace, id, (thread.start, thread.end));
        let on_cpu = Class::ON_CPU.into_iter().chain([Class::Stolen]);
        sum.0 += 1;
        sum.1 += on_cpu.map(|class| classes[class as usize]).sum::<u64>();
        sum.2 = sum.2.or(Some(id));
    }
    let mut rows: Vec<_> = trace.processes.iter().enumerate().zip(sums).collect();
    rows.sort_by_key(|((id, process), sum)| (!process.target, std::cmp::Reverse(sum.1), *id));
    let row = |((id, process), (threads, cpu_ns, first)): ((usize, &holdup_events::tables::Process), _)| {
        let first: Option<ThreadId> = first;
        let (threads, cpu_ns): (u64, u64) = (threads, cpu_ns);
        let target = if process.target { "yes" } else { "no" };
        let cells = vec![id.into(), process.pid.into(), threads.into(), cpu_ns.into(), target.into()];
        (cells, first.and_then(|thread| life(viewer, thread)))
    };
    rows.into_iter().map(|(one, (threads, ns, first))| row((one, (threads, ns, first)))).collect()
}

fn losses(viewer: &Viewer) -> Vec<Row> {
    let row = |loss: &holdup_events::Loss| {
        let events = Some(loss.events).filter(|events| *events > 0);
        let cells = vec![
            loss.source.clone().into(),
            loss.reason.clone().into(),
            viewer.since(loss.start).into(),
            viewer.since(loss.end).into(),
            events.into(),
        ];
        (cells, None)
    };
    viewer.trace.losses.iter().map(row).collect()
}
