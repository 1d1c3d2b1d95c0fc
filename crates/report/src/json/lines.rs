//! Memory that threads took from each other.

use holdup_events::Trace;
use holdup_findings::derive::lines::{LINE_BYTES, SharedData, Sharing};
use serde_json::{Value, json};

use super::{pid, thread_keys};

pub(super) fn to_json(trace: &Trace, data: &SharedData) -> Value {
    json!({
        "name": data.name,
        "module": data.module,
        "pid": pid(trace, data.process),
        "addresses": data.lines,
        "line_bytes": LINE_BYTES,
        "sharing": name(data.sharing),
        "watched": data.watched.as_ref().map(|seen| json!({
            "hits": seen.hits,
            "threads": seen.threads,
            "places": seen.places,
            "common_places": seen.common_places,
            "sharing": seen.sharing.map(name),
        })),
        "samples": data.samples,
        "atomic_samples": data.atomic,
        "turns": data.turns,
        "cpu_ns": data.ns,
        "cpu_error_ns": data.error_ns,
        "saved": {"low": data.saved.0, "high": data.saved.1},
        "waited_on": data.is_waited_on,
        "functions": data.functions.iter().map(|(function, samples)| json!({"function": function, "samples": samples}))
            .collect::<Value>(),
        "threads": data.threads.iter().map(|one| json!({
            "thread": thread_keys(trace, Some(one.thread)),
            "cpu_ns": one.ns,
            "part": one.part,
            "reads": one.reads,
            "writes": one.writes,
            "from_address": one.bytes.0,
            "to_address": one.bytes.1,
        })).collect::<Value>(),
    })
}

fn name(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::True => "true",
        Sharing::False => "false",
    }
}
