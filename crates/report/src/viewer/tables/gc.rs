//! Pauses of a garbage collector: how many of which length, and the longest.

use holdup_findings::derive::gc::{BINS_NS, Pause};
use serde_json::Value;

use super::{Row, Table, no_note, place};
use crate::numbers::duration;
use crate::viewer::Viewer;

pub(super) const LENGTHS: Table = Table {
    name: "gc-lengths",
    label: "GC pauses",
    columns: &[
        ("length", "pauses of a length", "text"),
        ("count", "pauses", "count"),
        ("share", "share", "share"),
        ("below", "this or shorter", "share"),
    ],
    note: no_note,
    rows: |viewer| lengths(viewer).into(),
};

pub(super) const LONGEST: Table = Table {
    name: "gc-longest",
    label: "Long GC pauses",
    columns: &[
        ("thread", "thread", "thread"),
        ("start", "from", "time"),
        ("length_ns", "length", "ns"),
        ("ran_ns", "ran", "ns"),
        ("mostly", "mostly in", "text"),
        ("mostly_ns", "… for", "ns"),
    ],
    note: no_note,
    rows: |viewer| longest(viewer).into(),
};

fn lengths(viewer: &Viewer) -> Vec<Row> {
    let pauses = &viewer.analysis().derived.gc.pauses;
    if pauses.count == 0 {
        return Vec::new();
    }
    let share = |count: u64| Value::from(count as f64 / pauses.count as f64);
    let mut below = 0;
    let mut rows = Vec::new();
    for (bin, (bound, count)) in BINS_NS.iter().zip(pauses.bins).enumerate() {
        below += count;
        let length = match bin.checked_sub(1).map(|before| BINS_NS[before]) {
            Some(before) if *bound == u64::MAX => format!("{} and more", duration(before)),
            _ => format!("below {}", duration(*bound)),
        };
        rows.push((vec![length.into(), count.into(), share(count), share(below)], None));
    }
    let figures = [
        ("median", pauses.p50_ns),
        ("90 %", pauses.p90_ns),
        ("99 %", pauses.p99_ns),
        ("99.9 %", pauses.p999_ns),
        ("longest", pauses.max_ns),
    ];
    let percentile = |(name, ns): (&str, u64)| {
        (vec![format!("{name}: {}", duration(ns)).into(), Value::Null, Value::Null, Value::Null], None)
    };
    rows.extend(figures.map(percentile));
    rows
}

fn longest(viewer: &Viewer) -> Vec<Row> {
    let row = |pause: &Pause| {
        let cells = vec![
            pause.thread.0.into(),
            viewer.since(pause.start).into(),
            pause.end.since(pause.start).0.into(),
            pause.ran_ns.into(),
            pause.mostly.clone().into(),
            pause.mostly_ns.into(),
        ];
        (cells, place(viewer, pause.thread, (pause.start, pause.end)))
    };
    viewer.analysis().derived.gc.slowest.iter().map(row).collect()
}
