//! CPUs and threads over time.

use holdup_events::{CpuId, Trace};
use holdup_findings::derive::cpu_times::{CpuTimes, Times};
use holdup_findings::derive::thread_steps;
use serde_json::{Value, json};

/// Steps of [`threads`].
const STEPS: usize = 50;

pub(super) fn cpus(trace: &Trace, times: &CpuTimes) -> Value {
    json!({
        "cpus": cpu_rows(&times.cpus),
        "steps": times.steps.iter().map(|step| json!({
            "start_ns": step.start.0,
            "end_ns": step.end.0,
            "cpus": cpu_rows(&step.cpus),
            "processes": step.who.iter().map(|(process, ns)| json!({
                "process": trace.process_name(*process),
                "ns": ns,
            })).collect::<Value>(),
        })).collect::<Value>(),
    })
}

fn cpu_rows(cpus: &[(CpuId, Times)]) -> Value {
    let row = |(cpu, times): &(CpuId, Times)| {
        json!({
            "cpu": cpu.0,
            "user_ns": times.user,
            "nice_ns": times.nice,
            "system_ns": times.system,
            "irq_ns": times.irq,
            "softirq_ns": times.softirq,
            "stolen_ns": times.steal,
            "disk_wait_ns": times.disk_wait,
            "idle_ns": times.idle,
        })
    };
    cpus.iter().map(row).collect()
}

/// Empty unless it is asked for.
pub(super) fn threads(trace: &Trace, asked: bool) -> Value {
    if !asked {
        return json!([]);
    }
    let all = thread_steps::derive(trace, STEPS);
    let step = |(thread, number, step): (u32, usize, &thread_steps::ThreadStep)| {
        json!({
            "thread": thread,
            "start_ns": all.start.0 + all.step.0 * number as u64,
            "length_ns": all.step.0,
            "running_ns": step.running_ns,
            "queue_ns": step.queue_ns,
            "blocked_ns": step.blocked_ns,
            "unknown_ns": step.unknown_ns,
            "samples": step.samples,
            "in_kernel": step.in_kernel,
        })
    };
    let rows = all.threads.iter().flat_map(|(id, steps)| {
        let lived = steps.iter().enumerate().filter(|(_, step)| step.life_ns() > 0);
        lived.map(|(number, one)| step((id.0, number, one)))
    });
    rows.collect()
}
