//! Recordings, processes and threads, and the classes of their time.

use std::borrow::Cow;

use holdup_events::ThreadId;
use holdup_events::recording::{Backend, Manifest};
use holdup_events::tables::{Process, Thread};
use holdup_findings::derive::class::{CLASSES, Class};
use holdup_findings::derive::cpus::CpuUse;
use holdup_findings::derive::ledger::ThreadLedger;

use crate::facts::{Facts, cpu};
use crate::view::{Table, columns, int, non_empty, part, text};

pub(super) fn recording() -> Table<Manifest> {
    Table {
        name: "recording",
        meaning: "the recording itself: one row",
        columns: columns! { facts, row: Manifest;
            Text "command" "the command, its words separated by blanks" = Some(Cow::Owned(row.command.join(" ")));
            Text "mode" "run, attach, all or import" = non_empty(&row.mode);
            Int "exit_status" "exit status of the command, as a shell reports it" = row.exit_status.map(i64::from);
            Text "host" "host name" = non_empty(&row.host.name);
            Text "kernel" "kernel release" = non_empty(&row.host.kernel);
            Int "cpus" "number of online CPUs" = Some(i64::from(row.host.cpus));
            Int "start_ns" "start (ns of CLOCK_MONOTONIC, like all times)" = int(row.start_ns);
            Int "end_ns" "end (ns)" = int(row.end_ns);
            Int "wall_ns" "length (ns)" = int(facts.trace.wall().0);
            Int "start_unix_ns" "Unix time of start_ns (ns)" = int(row.start_unix_ns);
            Text "backend" "backend that recorded it: bpf, perf or proc" = text(backend(row.backend));
            Flag "recovered" "it was restored from the journal of a recorder that was killed" = Some(row.recovered);
            Int "format" "version of the recording's format" = Some(i64::from(row.format));
            Text "holdup" "version of holdup that wrote it" = non_empty(&row.holdup);
        },
        places: |_| 1,
        rows: |facts, places| part(vec![facts.trace.manifest.clone()], places),
    }
}

fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "bpf",
        Backend::Perf => "perf",
        Backend::Proc => "proc",
    }
}

pub(super) fn processes() -> Table<(u32, Process)> {
    Table {
        name: "processes",
        meaning: "a process of the program, or another process that used a CPU",
        columns: columns! { facts, row: (u32, Process);
            Int "process" "its id in this recording" = Some(i64::from(row.0));
            Int "pid" "the kernel's process id" = Some(i64::from(row.1.pid));
            Text "name" "name of its main thread, or of the last program that it executed" = text(&row.1.name);
            Flag "target" "it belongs to the traced program" = Some(row.1.target);
            Int "parent" "parent process: row in processes" = row.1.parent.map(|id| i64::from(id.0));
        },
        places: |facts| facts.trace.processes.len(),
        rows: |facts, places| {
            let rows = facts.trace.processes.get(places.clone()).unwrap_or(&[]);
            places.map(|id| id as u32).zip(rows.iter().cloned()).collect()
        },
    }
}

/// A thread's row, and its part of the ledger if it is the program's.
pub(super) struct ThreadRow {
    id: ThreadId,
    thread: Thread,
    ledger: Option<ThreadLedger>,
}

impl ThreadRow {
    /// `None` for threads of other programs.
    fn ledger_value(&self, get: impl Fn(&ThreadLedger) -> u64) -> Option<i64> {
        self.ledger.as_ref().and_then(|ledger| int(get(ledger)))
    }
}

pub(super) fn threads() -> Table<ThreadRow> {
    Table {
        name: "threads",
        meaning: "a thread. Ledger columns are NULL for threads of other programs",
        columns: columns! { facts, row: ThreadRow;
            Int "thread" "its id in this recording" = Some(i64::from(row.id.0));
            Int "tid" "the kernel's thread id" = Some(i64::from(row.thread.tid));
            Text "name" "its last name" = text(&row.thread.name);
            Int "process" "row in processes" = Some(i64::from(row.thread.process.0));
            Text "process_name" "name of its process" = facts.process_of(row.id).and_then(|one| text(&one.name));
            Flag "target" "it belongs to the traced program" = Some(row.thread.target);
            Int "start_ns" "start of the thread or of the recording, the later of the two (ns)" = int(row.thread.start.0);
            Int "end_ns" "exit of the thread or end of the recording, the earlier of the two (ns)" = int(row.thread.end.0);
            Int "life_ns" "its lifetime within the recording (ns)" = int(row.thread.end.since(row.thread.start).0);
            Int "parent" "thread that created it: row in threads" = row.thread.parent.map(|id| i64::from(id.0));
            Int "cpus_allowed" "number of CPUs in its last known affinity mask"
                = Some(i64::from(row.thread.cpus_allowed)).filter(|cpus| *cpus > 0);
            Int "running_ns" "time on a CPU without steal time (ns)" = row.ledger_value(ThreadLedger::running_ns);
            Int "queued_ns" "time runnable, waiting for a CPU (ns)"
                = row.ledger_value(|one| one.classes[Class::RunQueue as usize]);
            Int "queued_own_ns" "part of queued_ns behind threads of the program (ns)" = row.ledger_value(|one| one.run_queue.own_ns);
            Int "queued_others_ns" "part of queued_ns behind other programs (ns)" = row.ledger_value(|one| one.run_queue.others_ns);
            Int "throttled_ns" "part of queued_ns in which its cgroup was throttled (ns)"
                = row.ledger_value(|one| one.run_queue.throttled_ns);
            Int "queued_idle_ns" "part of queued_ns while the CPU was idle or its thread unknown (ns)"
                = row.ledger_value(|one| one.run_queue.idle_ns);
            Int "stolen_ns" "steal time: the hypervisor ran other guests (ns)"
                = row.ledger_value(|one| one.classes[Class::Stolen as usize]);
            Int "blocked" "number of times that it blocked" = row.ledger_value(|one| one.blocked);
            Int "preempted" "number of preemptions" = row.ledger_value(|one| one.preempted);
            Int "migrations" "number of migrations to another CPU" = row.ledger_value(|one| one.migrations);
        },
        places: |facts| facts.trace.threads.len(),
        rows: |facts, places| {
            let mut ledgers = vec![None; facts.trace.threads.len()];
            for one in &facts.begun().ledger.threads {
                ledgers[one.thread.index()] = Some(one);
            }
            let row = |id: usize| {
                let thread = facts.trace.threads[id].clone();
                ThreadRow { id: ThreadId(id as u32), thread, ledger: ledgers[id].cloned() }
            };
            places.map(row).collect()
        },
    }
}

/// Time of one class of one thread.
pub(super) struct ClassTime {
    thread: ThreadId,
    class: Class,
    ns: u64,
}

pub(super) fn ledger() -> Table<ClassTime> {
    Table {
        name: "ledger",
        meaning: "time of one thread in one class: the rows of a thread sum to its lifetime",
        columns: columns! { facts, row: ClassTime;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Int "tid" "the kernel's thread id" = facts.thread(row.thread).map(|one| i64::from(one.tid));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Int "process" "row in processes" = facts.thread(row.thread).map(|one| i64::from(one.process.0));
            Text "process_name" "name of its process" = facts.process_of(row.thread).and_then(|one| text(&one.name));
            Text "class" "class of the ledger" = text(row.class.name());
            Int "time_ns" "time in that class (ns)" = int(row.ns);
            Flag "sampled" "the time is sampled, otherwise it is exact" = Some(row.class.on_cpu());
        },
        places: |facts| facts.begun().ledger.threads.len() * CLASSES,
        rows: |facts, places| {
            let threads = &facts.begun().ledger.threads;
            let row = |place: usize| {
                let (one, class) = (&threads[place / CLASSES], Class::ALL[place % CLASSES]);
                ClassTime { thread: one.thread, class, ns: one.classes[class as usize] }
            };
            places.map(row).filter(|row| row.ns > 0).collect()
        },
    }
}

pub(super) fn cpus() -> Table<CpuUse> {
    Table {
        name: "cpus",
        meaning: "a CPU: its four times sum to the recording's length",
        columns: columns! { facts, row: CpuUse;
            Int "cpu" "the kernel's CPU number" = cpu(row.cpu);
            Int "target_ns" "time of the program's threads without steal time (ns)" = int(row.target_ns);
            Int "others_ns" "time of other programs (ns)" = int(row.others_ns);
            Int "stolen_ns" "steal time while a thread of the program was on it (ns)" = int(row.stolen_ns);
            Int "idle_ns" "idle or unknown (ns)" = int(row.idle_ns);
            Int "switches" "number of switches to a thread" = int(row.switches);
            Text "worst_other" "other process that ran on it longest" = worst_other(facts, row);
        },
        places: |facts| facts.analysis().derived.cpus.len(),
        rows: |facts, places| facts.analysis().derived.cpus.get(places).unwrap_or(&[]).to_vec(),
    }
}

fn worst_other<'a>(facts: &'a Facts, row: &CpuUse) -> Option<Cow<'a, str>> {
    let (process, _) = row.others.first()?;
    facts.process(*process).and_then(|one| non_empty(&one.name))
}
