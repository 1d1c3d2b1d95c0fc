//! Waits, blame, the critical path and the bottle graph as JSON.

use holdup_events::Trace;
use holdup_findings::analysis::Derived;
use holdup_findings::derive::blame::{Edge, End, KindBlame};
use serde_json::{Value, json};

use super::{classes, thread_keys};

/// Maximum number of listed ends of chains. The rest is the whole minus their sum.
const ENDS_MAX: usize = 100;
/// Edges of the wait graph that are listed.
const EDGES_MAX: usize = 200;
/// Functions that are listed.
const FUNCTIONS_MAX: usize = 20;

pub(super) fn to_json(trace: &Trace, derived: &Derived) -> Value {
    json!({
        "total_ns": derived.blame.total_ns,
        "kinds": derived.waits.iter().map(|one| kind(trace, one)).collect::<Value>(),
        "ends": ends(trace, &derived.blame.ends()),
        "edges": derived.blame.edges.iter().take(EDGES_MAX).map(|one| edge(trace, one)).collect::<Value>(),
    })
}

fn kind(trace: &Trace, kind: &KindBlame) -> Value {
    json!({
        "kind": kind.kind.name(),
        "waits": kind.waits,
        "false_wakeups": kind.false_wakeups,
        "ns": kind.waiting_ns,
        "ends": ends(trace, &kind.ends),
        "functions": functions(&kind.functions),
    })
}

pub(super) fn ends(trace: &Trace, ends: &[(End, u64)]) -> Value {
    let row = |(end, ns): &(End, u64)| {
        json!({
            "class": end.class.name(),
            "thread": thread_keys(trace, end.thread),
            "occupant": thread_keys(trace, end.occupant),
            "ns": ns,
        })
    };
    ends.iter().take(ENDS_MAX).map(row).collect()
}

pub(super) fn functions(functions: &[(String, u64)]) -> Value {
    let row = |(function, ns): &(String, u64)| json!({"function": function, "ns": ns});
    functions.iter().take(FUNCTIONS_MAX).map(row).collect()
}

fn edge(trace: &Trace, edge: &Edge) -> Value {
    json!({
        "waiter": thread_keys(trace, Some(edge.waiter)),
        "holder": thread_keys(trace, Some(edge.holder)),
        "kind": edge.kind.name(),
        "waits": edge.waits,
        "ns": edge.ns,
    })
}

pub(super) fn critical_path(trace: &Trace, derived: &Derived) -> Value {
    let path = &derived.critical_path;
    let threads = path.threads.iter().map(|(thread, by_class)| {
        let mut row = thread_keys(trace, Some(*thread));
        row["classes"] = classes(by_class);
        row
    });
    json!({
        "steps": path.count,
        "classes": classes(&path.classes),
        "threads": threads.collect::<Value>(),
        "functions": functions(&path.functions),
    })
}

pub(super) fn bottles(trace: &Trace, derived: &Derived) -> Value {
    let row = |bottle: &holdup_findings::derive::thread_shares::Bottle| {
        let mut row = thread_keys(trace, Some(bottle.thread));
        row["active_ns"] = json!(bottle.active_ns);
        row["height_ns"] = json!(bottle.height_ns.round() as u64);
        row["parallelism"] = json!(bottle.parallelism());
        row
    };
    derived.bottles.iter().map(row).collect()
}
