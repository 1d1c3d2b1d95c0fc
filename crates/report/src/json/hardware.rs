//! What hardware counted.

use holdup_events::Trace;
use holdup_findings::derive::hardware::{Counts, Hardware};
use serde_json::{Value, json};

use super::thread_keys;

/// Null where nothing was counted.
pub(super) fn to_json(trace: &Trace, hardware: &Hardware) -> Value {
    if hardware.all.stretches == 0 {
        return Value::Null;
    }
    json!({
        "covered": hardware.covered,
        "all": counts(hardware, &hardware.all),
        "by_class": hardware.by_class.iter().map(|(class, of)| json!({
            "class": class.name(),
            "counts": counts(hardware, of),
        })).collect::<Value>(),
        "by_thread": hardware.by_thread.iter().map(|(thread, of)| json!({
            "thread": thread_keys(trace, Some(*thread)),
            "counts": counts(hardware, of),
        })).collect::<Value>(),
    })
}

fn counts(hardware: &Hardware, of: &Counts) -> Value {
    json!({
        "stretches": of.stretches,
        "counted_ns": of.counted_ns,
        "ipc": hardware.ipc(of),
        "counters": hardware.names.iter().enumerate().map(|(nth, name)| json!({
            "name": name,
            "count": of.values.get(nth).map(|(count, _)| *count),
            "per_second": of.per_second(nth),
        })).collect::<Value>(),
    })
}
