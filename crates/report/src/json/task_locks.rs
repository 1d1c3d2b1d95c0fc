//! Locks that tasks of a runtime waited for.

use holdup_events::Trace;
use holdup_findings::derive::task_locks::{Held, TaskLock, TaskLocks};
use serde_json::{Value, json};

pub(super) fn to_json(trace: &Trace, locks: &TaskLocks) -> Value {
    locks.locks.iter().map(|lock| one(trace, locks, lock)).collect()
}

fn one(trace: &Trace, locks: &TaskLocks, lock: &TaskLock) -> Value {
    let places = |places: &[(String, u64)]| {
        places.iter().map(|(function, ns)| json!({"function": function, "ns": ns})).collect::<Value>()
    };
    json!({
        "process": trace.process_name(lock.process),
        "pid": trace.processes.get(lock.process.index()).map(|process| process.pid),
        "place": lock.place,
        "through": lock.through,
        "objects": lock.objects,
        "waits": lock.waits,
        "wait_ns": lock.wait_ns,
        "max_ns": lock.longest_ns,
        "waiting": locks.waiting(trace, lock),
        "recorded": locks.observed.recorded_share(trace, lock.process),
        "elsewhere": places(&lock.elsewhere),
        "let_go": places(&lock.let_go),
        "holders": lock.holder_activity.iter().map(|(held, ns)| json!({"class": held_name(*held), "ns": ns})).collect::<Value>(),
    })
}

fn held_name(held: Held) -> &'static str {
    match held {
        Held::Ran => "running",
        Held::Waited(class) => class.name(),
    }
}
