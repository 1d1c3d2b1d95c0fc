//! Summary of a short part of a recording: time of each CPU and thread, and the longest waits. A live view
//! shows it, so it is self-contained: it has names, and no references to the trace.
//!
//! Its figures equal those of the ledger, the locks and the collections of the same part.

mod cpus;
mod waits;

use std::cmp::Reverse;

use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, ProcessId, Timestamp, Trace};

use crate::analysis::{self, Begun};
use crate::derive::class::Class;
use crate::derive::gc;
use crate::derive::ledger::{ByClass, RunQueueSplit, ThreadLedger, on_cpu_ns};
use crate::derive::locks;
use crate::descriptors::Descriptors;

pub use cpus::{CpuGlance, Stranger};
pub use waits::{WaitGlance, WaitKey};

/// Maximum number of locks that are reported.
const LOCKS_MAX: usize = 32;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// From when …
    pub start: Timestamp,
    /// … to when.
    pub end: Timestamp,
    /// Sum of the threads' lives in the part (ns). Equals the sum of `classes`.
    pub total_ns: u64,
    /// As in [`crate::derive::ledger::Ledger::classes`].
    pub classes: ByClass,
    /// The class `run-queue`, by the occupant of the CPU.
    pub run_queue: RunQueueSplit,
    /// Whether there are samples. Without samples, all running time is in [`Class::Useful`].
    pub split_known: bool,
    /// The program's threads, in the order of pids and tids.
    pub threads: Vec<ThreadGlance>,
    /// Every CPU, by number.
    pub cpus: Vec<CpuGlance>,
    /// Other programs that ran, the longest first.
    pub strangers: Vec<Stranger>,
    /// Locks that were waited for, the most waited for first.
    pub locks: Vec<LockGlance>,
    /// Waits for all other locks.
    pub other_lock_waits: u64,
    /// How long these took together (ns).
    pub other_lock_wait_ns: u64,
    /// Waits by object, the longest first.
    pub waits: Vec<WaitGlance>,
    /// Collections, if a runtime reports them.
    pub collections: Option<Collections>,
    /// Records that were lost.
    pub lost: u64,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadGlance {
    /// The kernel's number.
    pub tid: u32,
    /// Name of the thread.
    pub name: String,
    /// PID of its process.
    pub pid: u32,
    /// Name of its process.
    pub process: String,
    /// Lifetime within the part (ns). Equals the sum of `classes`.
    pub life_ns: u64,
    /// As in [`ThreadLedger::classes`].
    pub classes: ByClass,
    /// As in [`ThreadLedger::run_queue`].
    pub run_queue: RunQueueSplit,
    /// How often it was switched out because it blocked.
    pub blocked: u64,
    /// How often another thread took its CPU.
    pub preempted: u64,
    /// How often it came back on another CPU.
    pub migrations: u64,
    /// State at the end of the part.
    pub now: Now,
}

/// State of a thread at the end of the part.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Now {
    /// Not known.
    #[default]
    Unknown,
    /// The thread had exited.
    Gone,
    /// The thread ran on this CPU.
    Running(CpuId),
    /// The thread was runnable.
    Queued,
    /// The thread was blocked in this wait.
    Waiting(WaitKey),
}

/// One lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockGlance {
    /// As in [`locks::LockUse::name`].
    pub name: String,
    /// As in [`locks::LockUse::symbolic`].
    pub symbolic: String,
    /// PID of the lock's process.
    pub pid: u32,
    /// Name of the lock's process.
    pub process: String,
    /// Waits for it.
    pub waits: u64,
    /// How long they took together (ns).
    pub wait_ns: u64,
    /// The longest (ns).
    pub max_ns: u64,
    /// Threads that waited.
    pub waiters: u32,
    /// The thread that released the lock to a waiter most often. Empty if it is not known.
    pub releaser: String,
    /// The function with the longest total wait. Empty without stacks.
    pub at: String,
}

/// Collections that runtimes reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collections {
    /// Which runtimes.
    pub runtimes: Vec<String>,
    /// Collections of the young generation.
    pub minor: u64,
    /// Cycles of the old generation that were completed.
    pub major: u64,
    /// Pauses, as threads felt them.
    pub pauses: u64,
    /// All of them (ns).
    pub paused_ns: u64,
    /// The longest (ns).
    pub longest_ns: u64,
}

impl Glance {
    /// Summarizes all of `trace`. `online` is the list of the machine's CPUs.
    pub fn derive(trace: &Trace, descriptors: &Descriptors, online: &[CpuId]) -> Glance {
        let begun = analysis::begin(trace, descriptors);
        let Begun { timelines, roles, ledger } = &begun;
        let (waits, nows) = waits::derive(trace, roles);
        let mut threads: Vec<ThreadGlance> =
            ledger.threads.iter().map(|thread| thread_glance(trace, thread)).collect();
        for (thread, row) in threads.iter_mut().zip(&ledger.threads) {
            thread.now = nows.get(&row.thread).cloned().unwrap_or_default();
        }
        threads.sort_by_key(|thread| (thread.pid, thread.tid));
        let mut locks = locks::derive_with(trace, roles);
        let other_locks = locks.split_off(LOCKS_MAX.min(locks.len()));
        Glance {
            start: trace.start(),
            end: trace.end(),
            total_ns: ledger.total_ns,
            classes: ledger.classes,
            run_queue: ledger.run_queue,
            split_known: ledger.split_known,
            threads,
            cpus: cpus::derive(trace, (timelines, roles), online),
            strangers: cpus::other_programs(trace, timelines),
            locks: locks.into_iter().map(|lock| lock_glance(trace, lock)).collect(),
            other_lock_waits: other_locks.iter().map(|lock| lock.waits).sum(),
            other_lock_wait_ns: other_locks.iter().map(|lock| lock.wait_ns).sum(),
            waits,
            collections: collections(trace, &begun),
            lost: trace.losses.iter().map(|loss| loss.events).sum(),
        }
    }

    /// Length (ns).
    pub fn length_ns(&self) -> u64 {
        self.end.since(self.start).0
    }

    /// Time of one class (ns).
    pub fn class_ns(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }
}

impl ThreadGlance {
    /// Time on a CPU, stolen time excluded (ns).
    pub fn running_ns(&self) -> u64 {
        on_cpu_ns(&self.classes)
    }
}

fn pid(trace: &Trace, process: ProcessId) -> u32 {
    trace.processes.get(process.index()).map_or(0, |process| process.pid)
}

fn thread_glance(trace: &Trace, row: &ThreadLedger) -> ThreadGlance {
    let Some(thread) = trace.threads.get(row.thread.index()) else { return ThreadGlance::default() };
    ThreadGlance {
        tid: thread.tid,
        name: thread.name.clone(),
        pid: pid(trace, thread.process),
        process: trace.process_name(thread.process).to_owned(),
        life_ns: row.life.0,
        classes: row.classes,
        run_queue: row.run_queue,
        blocked: row.blocked,
        preempted: row.preempted,
        migrations: row.migrations,
        now: Now::Unknown,
    }
}

fn lock_glance(trace: &Trace, lock: locks::LockUse) -> LockGlance {
    LockGlance {
        pid: pid(trace, lock.process),
        process: trace.process_name(lock.process).to_owned(),
        waits: lock.waits,
        wait_ns: lock.wait_ns,
        max_ns: lock.max_ns,
        waiters: lock.waiters,
        releaser: lock
            .releasers
            .first()
            .map_or(String::new(), |(thread, _)| crate::wording::thread(trace, *thread)),
        at: lock.waiting_at.first().map_or(String::new(), |(function, _)| function.clone()),
        name: lock.name,
        symbolic: lock.symbolic,
    }
}

fn collections(trace: &Trace, begun: &Begun) -> Option<Collections> {
    let gc = gc::derive(trace, &begun.roles);
    let mut runtimes: Vec<String> = gc.lanes.iter().map(|lane| lane.runtime.clone()).collect();
    runtimes.sort();
    runtimes.dedup();
    (!runtimes.is_empty()).then_some(Collections {
        runtimes,
        minor: gc.minor,
        major: gc.major,
        pauses: gc.pauses.count,
        paused_ns: gc.pauses.total_ns,
        longest_ns: gc.pauses.max_ns,
    })
}

/// The largest of `rows` by `ns`, ties in the order of their keys.
fn largest<T>(mut rows: Vec<T>, ns: impl Fn(&T) -> u64, count_max: usize) -> Vec<T> {
    rows.sort_by_key(|row| Reverse(ns(row)));
    rows.truncate(count_max);
    rows
}

/// A thread that is not there any more, or runs, or waits for a CPU.
fn of_state(state: ThreadState, cpu: CpuId) -> Now {
    match state {
        ThreadState::Running => Now::Running(cpu),
        state if state.waits_for_cpu() => Now::Queued,
        _ => Now::Unknown,
    }
}
