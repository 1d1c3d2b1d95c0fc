//! The report as JSON. Keys are stable and documented in `docs/json.md`. Times are whole nanoseconds. All
//! figures come from the analysis or the manifest.

mod allocs;
mod calls;
mod faults;
pub(crate) mod findings;
mod gc;
mod hardware;
mod lines;
mod over_time;
mod peers;
mod task_locks;
mod waits;

use holdup_events::{ProcessId, ThreadId, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::busiest::Busiest;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::cpus::CpuUse;
use holdup_findings::derive::known_work::Known;
use holdup_findings::derive::ledger::{ByClass, RunQueueSplit, ThreadLedger};
use holdup_findings::derive::locks::LockUse;
use holdup_findings::derive::nodes::{Moves, NodeUse, Nodes};
use holdup_findings::derive::parallelism::Parallelism;
use holdup_findings::derive::runtimes::{RoleUse, RuntimeUse};
use holdup_findings::derive::syscalls::SyscallUse;
use holdup_findings::too_short::is_too_short;
use serde_json::{Map, Value, json};

use crate::barriers;
use crate::damage;
use crate::figures;
use crate::stacks::StackAsk;

/// Version of the keys: raised when one changes its meaning or goes, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows of `locks[].held_by`.
const HOLDERS_MAX: usize = 8;

/// Everything a report knows.
pub fn to_json(trace: &Trace, analysis: &Analysis) -> Value {
    to_json_with(trace, analysis, &StackAsk::default())
}

/// Like [`to_json`], with a selection of stacks.
pub fn to_json_with(trace: &Trace, analysis: &Analysis, stacks: &StackAsk) -> Value {
    let manifest = &trace.manifest;
    let derived = &analysis.derived;
    let mut report = json!({
        "schema_version": SCHEMA_VERSION,
        "holdup": manifest.holdup,
        "command": manifest.command,
        "mode": manifest.mode,
        "exit_status": manifest.exit_status,
        "host": manifest.host,
        "start_ns": manifest.start_ns,
        "start_unix_ns": manifest.start_unix_ns,
        "wall_ns": trace.wall().0,
        "backend": figures::backend_name(manifest.backend),
        "backend_reason": manifest.backend_reason,
        "recovered": manifest.recovered,
        "ledger": ledger(analysis),
        "threads": derived.ledger.threads.iter().map(|one| thread(trace, one, &derived.nodes)).collect::<Value>(),
        "findings": analysis.findings.iter().map(|one| findings::in_report(trace, &analysis.derived.ledger, one)).collect::<Value>(),
        "symptoms": analysis.symptoms.iter().map(|symptom| json!({
            "of": symptom.root,
            "shared": symptom.shared,
            "rule": symptom.finding.rule,
            "subject": symptom.finding.subject,
            "summary": symptom.finding.summary,
            "cost_ns": symptom.finding.cost_ns,
        })).collect::<Value>(),
        "skipped": analysis.skipped.iter().map(|(rule, reason)| json!({"rule": rule, "reason": reason}))
            .collect::<Value>(),
        "cpus": derived.cpus.iter().map(|one| cpu(trace, one)).collect::<Value>(),
        "cpu_times": over_time::cpus(trace, &derived.cpu_times),
        "threads_over_time": over_time::threads(trace, stacks.over_time),
        "locks": derived.locks.iter().map(|one| lock(trace, one)).collect::<Value>(),
        "waits": waits::to_json(trace, derived),
        "critical_path": waits::critical_path(trace, derived),
        "bottles": waits::bottles(trace, derived),
        "barriers": derived.rendezvous.uses.iter().map(|one| barriers::barrier(trace, analysis, one))
            .collect::<Value>(),
        "spins": derived.spins.iter().map(|one| barriers::spin(trace, one)).collect::<Value>(),
        "lines": derived.lines.iter().map(|one| lines::to_json(trace, one)).collect::<Value>(),
        "faults": faults::to_json(&derived.paging),
        "allocations": allocs::to_json(trace, stacks),
        "gc": gc::to_json(trace, (&derived.gc, &derived.garbage), &derived.rendezvous),
        "syscalls": derived.syscalls.iter().map(syscall).collect::<Value>(),
        "syscall_windows": {
            "count": derived.syscall_rates.windows,
            "total_ns": derived.syscall_rates.windows_ns,
        },
        "calls": calls::to_json(trace, &derived.calls),
        "parallelism": parallelism(&derived.parallelism),
        "runtime_events": derived.runtime_events.iter().map(gc::runtime_events).collect::<Value>(),
        "runtimes": derived.runtimes.iter().map(runtime).collect::<Value>(),
        "stacks": crate::stacks::to_json(trace, stacks),
        "loss": lost(&figures::loss(trace)),
        "cost": cost(trace),
        "sources": manifest.sources,
    });
    // More keys than the macro takes.
    report["hardware"] = hardware::to_json(trace, &derived.hardware);
    report["nodes"] = derived.nodes.nodes.iter().map(node).collect::<Value>();
    report["moves"] = moves(derived.nodes.moves);
    report["peers"] = peers::to_json(&derived.peers);
    report["task_locks"] = task_locks::to_json(trace, &derived.task_locks);
    report["fired"] = crate::moment::to_json(trace, analysis);
    report["computes"] = computes(trace, analysis);
    add_completeness(&mut report, trace);
    report
}

fn lost(loss: &figures::LossFigures) -> Value {
    json!({
        "events": loss.events,
        "uncounted": loss.uncounted,
        "skipped": loss.skipped,
        "by_source": loss.by_source,
    })
}

/// Adds how the program ended, and how much of it the recording has.
fn add_completeness(report: &mut Value, trace: &Trace) {
    report["threads_seen"] = trace.manifest.threads_seen.into();
    report["damaged"] = damage::to_json(trace);
    report["exit_signal"] = trace.manifest.exit_signal.into();
    report["too_short"] = is_too_short(trace).into();
}

/// Whether the program computes, with advice. `share` is null if it does not.
pub(crate) fn computes(trace: &Trace, analysis: &Analysis) -> Value {
    let computes = analysis.computes(trace);
    json!({
        "share": computes.as_ref().map(|computes| computes.share),
        "error": computes.as_ref().map(|computes| computes.error),
        "summary": computes.as_ref().map_or(&[][..], |computes| &computes.summary),
        "advice": computes.as_ref().map_or(&[][..], |computes| &computes.advice),
    })
}

fn syscall(call: &SyscallUse) -> Value {
    json!({
        "number": call.number,
        "name": call.name,
        "samples": call.samples,
        "cpu_ns": call.cpu_ns,
        "cpu_error_ns": call.cpu_error_ns,
        "blocked": call.blocked,
        "blocked_ns": call.blocked_ns,
        "counted": call.rate.map(|rate| rate.counted),
        "per_second": call.rate.map(|rate| rate.per_second),
        "error_per_second": call.rate.and_then(|rate| rate.error_per_second),
        "cpu_per_call_ns": call.call.map(|call| call.cpu_ns),
        "cpu_per_call_error_ns": call.call.and_then(|call| call.error_ns),
    })
}

fn ledger(analysis: &Analysis) -> Value {
    let ledger = &analysis.derived.ledger;
    json!({
        "total_ns": ledger.total_ns,
        "classes": classes(&ledger.classes),
        "run_queue": run_queue(&ledger.run_queue),
        "busiest": analysis.derived.busiest.as_ref().map(busiest),
        "known_work": analysis.derived.known_work.as_ref().map(known_work),
        "split_error_ns": ledger.split_error_ns.into_iter().max(),
        "errors_ns": Value::Object(Class::ON_CPU.into_iter()
            .map(|class| (class.name().to_owned(), Value::from(ledger.error_ns(class)))).collect()),
        "split_known": ledger.split_known,
        "samples": ledger.samples,
    })
}

/// The function in which most of the useful work is done.
pub(crate) fn busiest(busiest: &Busiest) -> Value {
    json!({
        "function": busiest.function,
        "share": busiest.share,
        "error": busiest.error,
        "called_for": busiest.called_for.as_ref().map(|(function, _)| function),
        "called_for_share": busiest.called_for.as_ref().map(|(_, share)| share),
        "mostly_in": busiest.mostly_in.as_ref().map(|(function, _)| function),
        "mostly_in_share": busiest.mostly_in.as_ref().map(|(_, share)| share),
    })
}

/// The known kind of most of the useful work.
pub(crate) fn known_work(known: &Known) -> Value {
    json!({ "what": known.what, "advice": known.advice, "share": known.share, "error": known.error })
}

/// A thread as most tables name it.
fn thread_keys(trace: &Trace, thread: Option<ThreadId>) -> Value {
    let found = thread.and_then(|thread| trace.threads.get(thread.index()));
    json!({
        "id": thread.map(|thread| thread.0),
        "tid": found.map(|thread| thread.tid),
        "name": found.map(|thread| &thread.name),
    })
}

pub(crate) fn classes(by_class: &ByClass) -> Value {
    let entry = |class: Class| (class.name().to_owned(), Value::from(by_class[class as usize]));
    Value::Object(Class::ALL.into_iter().map(entry).collect::<Map<_, _>>())
}

pub(crate) fn run_queue(split: &RunQueueSplit) -> Value {
    json!({
        "own_ns": split.own_ns,
        "others_ns": split.others_ns,
        "throttled_ns": split.throttled_ns,
        "idle_ns": split.idle_ns,
    })
}

fn thread(trace: &Trace, ledger: &ThreadLedger, nodes: &Nodes) -> Value {
    let thread = trace.threads.get(ledger.thread.index());
    json!({
        "id": ledger.thread.0,
        "tid": thread.map(|thread| thread.tid),
        "name": thread.map(|thread| &thread.name),
        "process": thread.map(|thread| trace.process_name(thread.process)),
        "pid": thread.and_then(|thread| pid(trace, thread.process)),
        "start_ns": thread.map(|thread| thread.start.0),
        "end_ns": thread.map(|thread| thread.end.0),
        "classes": classes(&ledger.classes),
        "run_queue": run_queue(&ledger.run_queue),
        "blocked": ledger.blocked,
        "preempted": ledger.preempted,
        "migrations": ledger.migrations,
        "node": nodes.homes.get(&ledger.thread),
    })
}

pub(crate) fn pid(trace: &Trace, process: ProcessId) -> Option<u32> {
    trace.processes.get(process.index()).map(|process| process.pid)
}

pub(crate) fn tid(trace: &Trace, thread: ThreadId) -> Option<u32> {
    trace.threads.get(thread.index()).map(|thread| thread.tid)
}

fn cpu(trace: &Trace, cpu: &CpuUse) -> Value {
    let others = cpu.others.iter().map(|(process, ns)| {
        json!({"process": trace.process_name(*process), "pid": pid(trace, *process), "ns": ns})
    });
    json!({
        "cpu": cpu.cpu.0,
        "target_ns": cpu.target_ns,
        "others_ns": cpu.others_ns,
        "stolen_ns": cpu.stolen_ns,
        "idle_ns": cpu.idle_ns,
        "switches": cpu.switches,
        "others": others.collect::<Value>(),
    })
}

fn node(node: &NodeUse) -> Value {
    json!({
        "node": node.node,
        "cpus": node.cpus.iter().map(|cpu| cpu.0).collect::<Value>(),
        "target_ns": node.target_ns,
        "others_ns": node.others_ns,
        "stolen_ns": node.stolen_ns,
        "idle_ns": node.idle_ns,
        "threads": node.threads,
    })
}

fn moves(moves: Moves) -> Value {
    json!({
        "same_core": moves.same_core,
        "same_node": moves.same_node,
        "other_node": moves.other_node,
        "unknown": moves.unknown,
    })
}

fn lock(trace: &Trace, lock: &LockUse) -> Value {
    let releasers = lock.releasers.iter().map(|(thread, times)| {
        let name = trace.threads.get(thread.index()).map(|thread| &thread.name);
        json!({"tid": tid(trace, *thread), "name": name, "times": times})
    });
    let waiting_at = lock.waiting_at.iter().map(|(function, ns)| json!({"function": function, "ns": ns}));
    json!({
        "name": lock.name,
        "process": trace.process_name(lock.process),
        "pid": pid(trace, lock.process),
        "object": lock.object,
        "reason": lock.reason.name(),
        "waits": lock.waits,
        "wait_ns": lock.wait_ns,
        "p50_ns": lock.p50_ns,
        "p99_ns": lock.p99_ns,
        "max_ns": lock.max_ns,
        "timed_out": lock.timed_out,
        "waiters": lock.waiters,
        "releasers": releasers.collect::<Value>(),
        "waiting_at": waiting_at.collect::<Value>(),
        "held_by": lock.held_by.iter().take(HOLDERS_MAX).map(|(thread, ns)| {
            let mut row = thread_keys(trace, *thread);
            row["ns"] = json!(ns);
            row
        }).collect::<Value>(),
        "ends": waits::ends(trace, &lock.ends),
        "held_in": waits::functions(&lock.held_in),
    })
}

fn runtime(runtime: &RuntimeUse) -> Value {
    let role = |used: &RoleUse| {
        json!({
            "role": used.role.name(),
            "what": used.what,
            "threads": used.threads,
            "samples": used.samples,
            "kernel_samples": used.kernel_samples,
            "running_ns": used.running_ns,
            "running_error_ns": used.running_error_ns,
            "waits": used.waits,
            "blocked_ns": used.blocked_ns,
            "inferred_ns": used.inferred_ns,
        })
    };
    json!({
        "name": runtime.name,
        "title": runtime.title,
        "processes": runtime.processes,
        "roles": runtime.roles.iter().map(role).collect::<Value>(),
        "rules": runtime.rules,
        "unmatched": runtime.unmatched,
    })
}

fn parallelism(parallelism: &Parallelism) -> Value {
    json!({
        "running_mean": parallelism.running_mean(),
        "wanting_mean": parallelism.wanting_mean(),
        "running_ns": parallelism.running_ns,
        "wanting_ns": parallelism.wanting_ns,
        "over_time": parallelism.over_time,
        "step_ns": parallelism.step.0,
    })
}

pub(crate) fn cost(trace: &Trace) -> Value {
    let cost = &trace.manifest.cost;
    let cpu_ns = figures::cost_cpu_ns(trace);
    json!({
        "cpu_ns": cpu_ns,
        "percent": figures::cost_share(trace).map(|share| share * 100.0),
        "bytes": cost.bytes,
        "switches": cost.switches,
        "bytes_per_switch": figures::bytes_per_switch(trace),
        "recorder_cpu_ns": cost.recorder_cpu_ns,
        "probes_cpu_ns": cost.probes_cpu_ns,
        "probes_cpu_error_ns": cost.probes_cpu_error_ns,
        "stacks_cpu_ns": cost.stacks_cpu_ns,
        "budget_percent": cost.budget_percent,
        "recorder_memory_bytes": cost.recorder_memory_bytes,
    })
}
