//! Cache lines that threads took from each other.

use holdup_events::Duration;
use holdup_findings::derive::lines::{SharedData, Sharing};
use serde_json::Value;

use super::{Row, Table, place};
use crate::viewer::Viewer;

/// Range shown around the time at which a cache line moved to another CPU.
const AROUND: Duration = Duration(500_000);

pub(super) const TABLE: Table = Table {
    name: "lines",
    label: "Cache lines",
    columns: &[
        ("name", "memory", "text"),
        ("sharing", "threads touch", "text"),
        ("process", "process", "process"),
        ("ns", "CPU time at it (sampled)", "ns"),
        ("error_ns", "±", "ns"),
        ("samples", "samples", "count"),
        ("turns", "turns", "count"),
        ("lines", "lines", "count"),
        ("threads", "threads", "count"),
        ("first", "most by", "thread"),
        ("function", "most in", "function"),
    ],
    note: |viewer| {
        if viewer.analysis().derived.lines.is_empty() {
            return String::new();
        }
        "A turn: the next sample at the line was another thread's on another CPU.".to_owned()
    },
    rows: |viewer| rows(viewer).into(),
};

fn rows(viewer: &Viewer) -> Vec<Row> {
    let row = |shared: &SharedData| {
        let first = shared.lines.first().copied().unwrap_or_default();
        let name = if shared.name.is_empty() { format!("{first:#x}") } else { shared.name.clone() };
        let sharing = match shared.sharing {
            Sharing::True => "the same bytes",
            Sharing::False => "bytes of their own",
        };
        let cells: Vec<Value> = vec![
            name.into(),
            sharing.into(),
            shared.process.0.into(),
            shared.ns.into(),
            shared.error_ns.into(),
            shared.samples.into(),
            shared.turns.into(),
            shared.lines.len().into(),
            shared.threads.len().into(),
            shared.threads.first().map(|one| one.thread.0).into(),
            shared.functions.first().map(|(name, _)| name.clone()).into(),
        ];
        let turn = shared.turned.first();
        let leads = turn.and_then(|(thread, at, _)| {
            let from = (*at - AROUND).max(viewer.trace.start());
            place(viewer, *thread, (from, (*at + AROUND).min(viewer.trace.end())))
        });
        (cells, leads)
    };
    viewer.analysis().derived.lines.iter().map(row).collect()
}
