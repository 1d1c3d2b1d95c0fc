//! Times the derived facts on many invented slices: `cargo run --release -p holdup-findings --example derive_speed`.

use std::time::Instant;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Process, SliceRow, Slices, Thread, ThreadState, Wakeup, Wakeups};
use holdup_events::{CpuId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason};
use holdup_findings::derive::holders::Holders;
use holdup_findings::derive::locks::LockIndex;
use holdup_findings::derive::{
    blame, cpus, critical_path, ledger, locks, occupancy, roles, syscall_rates, syscalls, timelines,
};

/// Threads that take turns on CPUs: runs, waits for a lock, waits for a CPU, runs …
fn trace(threads: u32, rows: usize) -> Trace {
    let each = rows / threads as usize;
    let batches: Vec<Vec<SliceRow>> = (0..threads).map(|thread| thread_rows(thread, threads, each)).collect();
    let end = Timestamp(each as u64 * 1000 + 1_000_000);
    let mut trace = Trace::default();
    trace.manifest.end_ns = end.0;
    trace.manifest.host.cpus_allowed = 8;
    trace.threads = (0..threads).map(|_| Thread { target: true, end, ..Thread::default() }).collect();
    trace.processes = vec![Process { target: true, ..Process::default() }];
    trace.slices = Slices::freeze(&batches, vec![end; threads as usize]);
    let wakeups = (0..threads).flat_map(|thread| thread_wakeups(thread, threads, each));
    trace.wakeups = Wakeups::freeze(wakeups.collect(), threads as usize);
    let wait = |reason, object| Wait { reason, object, ..Wait::default() };
    trace.waits = vec![Wait::default(), wait(WaitReason::Lock, 1), wait(WaitReason::Park, 2)];
    trace
}

fn thread_rows(thread: u32, threads: u32, count: usize) -> Vec<SliceRow> {
    let states = [ThreadState::Running, ThreadState::Blocked, ThreadState::Runnable];
    let row = |index: usize| SliceRow {
        thread: ThreadId(thread),
        start: start(thread, threads, index),
        state: states[index % 3],
        cpu: CpuId((thread % 8) as u16),
        wait: WaitId(if index % 3 == 1 { 1 + (index / 3 % 2) as u32 } else { 0 }),
        ..SliceRow::default()
    };
    (0..count).map(row).collect()
}

fn start(thread: u32, threads: u32, index: usize) -> Timestamp {
    Timestamp(index as u64 * 1000 + u64::from(thread * 1000 / threads))
}

/// Every wait is ended by some other thread.
fn thread_wakeups(thread: u32, threads: u32, count: usize) -> impl Iterator<Item = Wakeup> {
    let ended = (0..count).filter(|index| index % 3 == 2);
    ended.map(move |index| Wakeup {
        at: start(thread, threads, index),
        wakee: ThreadId(thread),
        waker: ThreadId((thread + 1 + index as u32 % (threads - 1)) % threads),
        context: WakeContext::Thread,
        waker_object: 1,
        ..Wakeup::default()
    })
}

fn main() {
    let rows = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(30_000_000);
    let trace = trace(64, rows);
    let clock = Instant::now();
    let step = |name: &str| println!("{name:<12}{:>8.3} s", clock.elapsed().as_secs_f64());
    let timelines = timelines::Timelines::derive(&trace);
    step("timelines");
    let roles = roles::Roles::built_in(&trace);
    step("roles");
    let ledger = ledger::derive_with(&trace, &timelines, &roles);
    step("ledger");
    assert_eq!(ledger.total_ns, ledger.classes.iter().sum::<u64>());
    cpus::derive_with(&trace, &timelines);
    step("cpus");
    locks::derive_with(&trace, &roles);
    step("locks");
    syscalls::derive_with(&trace, &ledger, &syscall_rates::derive(&trace));
    step("syscalls");
    occupancy::derive(&trace, &timelines, &roles);
    step("occupancy and bottles");
    let index = LockIndex::new(&trace, &roles);
    let holders = Holders::derive(&trace, &index, &roles);
    step("holders");
    let facts = blame::Facts { trace: &trace, timelines: &timelines, locks: &index, holders: &holders };
    let blame = blame::derive(facts);
    step("blame");
    assert_eq!(blame.total_ns, blame.ends().iter().map(|(_, ns)| ns).sum::<u64>());
    critical_path::derive(&trace, &roles, &holders);
    step("path");
}
