//! What syscalls were made on, how they ended, how long they took and how much they moved.

use holdup_events::Trace;
use holdup_findings::derive::calls::{CallUse, Calls, Histogram, bounds};
use serde_json::{Value, json};

use super::thread_keys;

/// Rows of each list.
const ROWS_MAX: usize = 200;

pub(super) fn to_json(trace: &Trace, calls: &Calls) -> Value {
    let list = |uses: &[CallUse]| uses.iter().take(ROWS_MAX).map(|used| one(trace, used)).collect::<Value>();
    json!({
        "exact": calls.exact,
        "counted_ns": calls.counted_ns,
        "by_syscall": list(&calls.by_syscall),
        "by_object": list(&calls.by_object),
        "by_thread": list(&calls.by_thread),
        "ring_operations": list(&calls.ring_operations),
        "ring_by_object": list(&calls.ring_by_object),
        "requests_each": calls.requests_each(),
    })
}

fn one(trace: &Trace, used: &CallUse) -> Value {
    let threads = used.threads.iter().map(|(thread, calls)| {
        let mut row = thread_keys(trace, Some(*thread));
        row["calls"] = json!(calls);
        row
    });
    json!({
        "number": used.syscall,
        "name": used.name,
        "op": used.op,
        "object_kind": used.object_kind.name(),
        "object": used.object,
        "object_name": used.object_name,
        "calls": used.count,
        "failed": used.errors,
        "errors": used.by_error.iter().map(|(error, calls)| json!({"errno": error, "calls": calls}))
            .collect::<Value>(),
        "returned": used.returned,
        "timed": used.timed,
        "time_ns": used.time_ns,
        "time_max_ns": used.time_max_ns,
        "times": histogram(&used.times),
        "asked": histogram(&used.asked),
        "results": histogram(&used.results),
        "threads": threads.collect::<Value>(),
        "callers": used.callers.iter().map(|(function, calls)| json!({"function": function, "calls": calls}))
            .collect::<Value>(),
    })
}

fn histogram(histogram: &Histogram) -> Value {
    let bin = |(bucket, calls): (&u8, &u64)| {
        let (from, below) = bounds(*bucket);
        json!({"from": from, "below": below, "calls": calls})
    };
    histogram.0.iter().map(bin).collect()
}
