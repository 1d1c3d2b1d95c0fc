//! `api/ledger`: where the time of a range went.

use std::cmp::Reverse;

use holdup_events::ThreadId;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger::ByClass;
use holdup_findings::derive::zoom::range_ledger;
use serde_json::{Value, json};

use super::{Ask, Refusal, Viewer, to_text};
use crate::json;

/// Threads of an answer.
const THREADS_MAX: usize = 50;

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let range = viewer.range(ask)?;
    let threads = viewer.threads(ask)?.unwrap_or_else(|| viewer.trace.target_threads().collect());
    let own: Vec<ThreadId> =
        threads.into_iter().filter(|id| viewer.trace.threads[id.index()].target).collect();
    let roles = &viewer.roles;
    let ledger = range_ledger((&viewer.trace, &viewer.timelines, &viewer.zoom, roles), &own, range);
    let off_cpu = |classes: &ByClass| {
        let off = Class::ALL.into_iter().filter(|class| !class.on_cpu());
        off.map(|class| classes[class as usize]).sum::<u64>()
    };
    let mut rows = ledger.threads;
    rows.sort_by_key(|(thread, classes)| (Reverse(off_cpu(classes)), *thread));
    rows.truncate(THREADS_MAX);
    Ok(to_text(&json!({
        "start_ns": viewer.since(range.0),
        "end_ns": viewer.since(range.1),
        "total_ns": ledger.total_ns,
        "classes": ledger.classes,
        "run_queue": json::run_queue(&ledger.run_queue),
        "split_error_ns": ledger.split_error_ns.into_iter().max(),
        "split_known": ledger.samples > 0,
        "samples": ledger.samples,
        "threads": rows.iter().map(|(id, classes)| json!({"id": id.0, "classes": classes})).collect::<Value>(),
    })))
}
