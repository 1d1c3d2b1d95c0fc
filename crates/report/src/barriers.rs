//! Barriers, joins and spinning as JSON. Only formats.

use holdup_events::{ThreadId, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::rendezvous::{Causes, Site, SiteUse};
use holdup_findings::derive::spin::SpinUse;
use serde_json::{Map, Value, json};

use crate::json::{pid, tid};

pub(crate) fn barrier(trace: &Trace, analysis: &Analysis, used: &SiteUse) -> Value {
    let none = Site::default();
    let site = analysis.derived.rendezvous.sites.get(used.site as usize).unwrap_or(&none);
    let last = used.by_last.iter().map(|(thread, times, harm)| {
        json!({"tid": tid(trace, *thread), "name": name(trace, *thread), "times": times, "harm_ns": harm})
    });
    let late_at =
        used.late_at.iter().map(|(function, samples)| json!({"function": function, "samples": samples}));
    let work = used.work.iter().map(
        |(thread, ns)| json!({"tid": tid(trace, *thread), "name": name(trace, *thread), "running_ns": ns}),
    );
    let [late_p50_ns, late_p99_ns, late_max_ns] = used.lateness_ns;
    json!({
        "name": used.name,
        "kind": site.kind.name(),
        "process": trace.process_name(site.process),
        "pid": pid(trace, site.process),
        "object": site.object,
        "barriers": used.meetings,
        "harm_ns": used.harm_ns,
        "spun_ns": used.spun_ns,
        "resume_ns": used.resume_ns,
        "late_p50_ns": late_p50_ns,
        "late_p99_ns": late_p99_ns,
        "late_max_ns": late_max_ns,
        "last": last.collect::<Value>(),
        "causes": causes(&used.causes),
        "late_at": late_at.collect::<Value>(),
        "work": work.collect::<Value>(),
    })
}

fn causes(causes: &Causes) -> Value {
    let blocked = Class::ALL.into_iter().filter(|class| causes.blocked_ns[*class as usize] > 0);
    let blocked: Map<String, Value> = blocked
        .map(|class| (class.name().to_owned(), Value::from(causes.blocked_ns[class as usize])))
        .collect();
    json!({
        "running_ns": causes.running_ns,
        "own_ns": causes.own_ns,
        "others_ns": causes.others_ns,
        "throttled_ns": causes.throttled_ns,
        "woken_late_ns": causes.woken_late_ns,
        "unknown_ns": causes.unknown_ns,
        "blocked_ns": blocked,
    })
}

pub(crate) fn spin(trace: &Trace, spin: &SpinUse) -> Value {
    let threads = spin
        .by_thread
        .iter()
        .map(|(thread, ns)| json!({"tid": tid(trace, *thread), "name": name(trace, *thread), "ns": ns}));
    let worked = spin.meanwhile.worked.iter().map(|(thread, samples)| {
        json!({"tid": tid(trace, *thread), "name": name(trace, *thread), "samples": samples})
    });
    json!({
        "function": spin.function,
        "caller": spin.caller,
        "watches": spin.watches,
        "how": spin.how.name(),
        "runtime": spin.purpose.as_ref().map(|purpose| purpose.runtime.as_str()),
        "what": spin.purpose.as_ref().map(|purpose| purpose.what.as_str()),
        "process": trace.process_name(spin.process),
        "pid": pid(trace, spin.process),
        "samples": spin.samples,
        "ns": spin.ns,
        "error_ns": spin.error_ns,
        "met_ns": spin.met.iter().map(|(_, ns)| ns).sum::<u64>(),
        "threads": threads.collect::<Value>(),
        "looked_at": spin.meanwhile.samples,
        "starved": spin.meanwhile.starved,
        "nobody": spin.meanwhile.nobody,
        "worked": worked.collect::<Value>(),
    })
}

fn name(trace: &Trace, thread: ThreadId) -> Option<&str> {
    trace.threads.get(thread.index()).map(|thread| thread.name.as_str())
}
