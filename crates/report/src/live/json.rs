//! One stretch as JSON (docs/json.md).

use holdup_findings::glance::{CpuGlance, LockGlance, Now, Stranger, ThreadGlance, WaitGlance};
use serde_json::{Value, json};

use super::Moment;
use crate::json::{SCHEMA_VERSION, classes, run_queue};

/// The whole of it.
pub fn to_json(moment: &Moment) -> Value {
    let glance = &moment.glance;
    json!({
        "schema_version": SCHEMA_VERSION,
        "start_ns": glance.start.0,
        "end_ns": glance.end.0,
        "end_unix_ns": moment.unix_ns,
        "skipped": moment.skipped,
        "ledger": {
            "total_ns": glance.total_ns,
            "classes": classes(&glance.classes),
            "run_queue": run_queue(&glance.run_queue),
            "split_known": glance.split_known,
        },
        "threads": glance.threads.iter().map(thread).collect::<Vec<_>>(),
        "cpus": glance.cpus.iter().map(cpu).collect::<Vec<_>>(),
        "others": glance.strangers.iter().map(other_program).collect::<Vec<_>>(),
        "locks": glance.locks.iter().map(lock).collect::<Vec<_>>(),
        "waits": glance.waits.iter().map(wait).collect::<Vec<_>>(),
        "collections": glance.collections.as_ref().map(|told| json!({
            "runtimes": told.runtimes,
            "minor": told.minor,
            "major": told.major,
            "pauses": told.pauses,
            "paused_ns": told.paused_ns,
            "longest_ns": told.longest_ns,
        })),
        "lost_events": glance.lost,
        "cost": {
            "recorder_cpu_ns": moment.spent.recorder_cpu_ns,
            "probes_cpu_ns": moment.spent.kernel_cpu_ns,
            "recorder_memory_bytes": moment.spent.memory_bytes,
        },
    })
}

fn thread(thread: &ThreadGlance) -> Value {
    let (doing, cpu, wait) = match &thread.now {
        Now::Unknown => ("unknown", None, None),
        Now::Gone => ("exited", None, None),
        Now::Running(cpu) => ("running", Some(cpu.0), None),
        Now::Queued => ("runnable", None, None),
        Now::Waiting(key) => ("blocked", None, Some(key)),
    };
    json!({
        "tid": thread.tid,
        "name": thread.name,
        "pid": thread.pid,
        "process": thread.process,
        "life_ns": thread.life_ns,
        "classes": classes(&thread.classes),
        "run_queue": run_queue(&thread.run_queue),
        "blocked": thread.blocked,
        "preempted": thread.preempted,
        "migrations": thread.migrations,
        "now": {
            "state": doing,
            "cpu": cpu,
            "class": wait.map(|key| key.class.name()),
            "reason": wait.map(|key| key.reason.name()),
            "object": wait.map(|key| &key.object),
        },
    })
}

fn cpu(cpu: &CpuGlance) -> Value {
    json!({
        "cpu": cpu.cpu.0,
        "classes": classes(&cpu.classes),
        "others_ns": cpu.others_ns,
        "idle_ns": cpu.idle_ns,
        "switches": cpu.switches,
        "most": (cpu.most.ran_ns > 0).then(|| other_program(&cpu.most)),
    })
}

fn other_program(stranger: &Stranger) -> Value {
    json!({
        "name": stranger.name,
        "pid": stranger.pid,
        "kernel": stranger.kernel,
        "ran_ns": stranger.ran_ns,
    })
}

fn lock(lock: &LockGlance) -> Value {
    json!({
        "name": lock.name,
        "pid": lock.pid,
        "waits": lock.waits,
        "wait_ns": lock.wait_ns,
        "max_ns": lock.max_ns,
        "waiters": lock.waiters,
        "releaser": (!lock.releaser.is_empty()).then_some(&lock.releaser),
        "at": (!lock.at.is_empty()).then_some(&lock.at),
    })
}

fn wait(wait: &WaitGlance) -> Value {
    json!({
        "class": wait.key.class.name(),
        "reason": wait.key.reason.name(),
        "object": wait.key.object,
        "count": wait.count,
        "wait_ns": wait.wait_ns,
        "max_ns": wait.max_ns,
        "threads": wait.threads,
    })
}
