//! Syscalls: cost by syscall, and details by object, with sizes, results and times as histograms.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, WaitId};
use holdup_findings::derive::calls::{CallUse, Histogram, bounds};
use holdup_findings::derive::syscalls::SyscallUse;
use serde_json::{Value, json};

use super::{Place, Row, Table, life, place};
use crate::numbers::{counted, duration};
use crate::viewer::Viewer;

pub(super) const COSTS: Table = Table {
    name: "syscalls",
    label: "Syscalls",
    columns: &[
        ("name", "syscall", "text"),
        ("cpu_ns", "CPU time (sampled)", "ns"),
        ("cpu_error_ns", "±", "ns"),
        ("blocked_ns", "blocked", "ns"),
        ("blocked", "times blocked", "count"),
        ("per_second", "calls", "per-second"),
        ("call_ns", "CPU time of a call", "ns"),
    ],
    note: |viewer| {
        let rates = &viewer.analysis().derived.syscall_rates;
        if rates.windows == 0 {
            return String::new();
        }
        let (windows, time) = (counted(rates.windows, "window"), duration(rates.windows_ns));
        format!("Calls were counted in {windows} ({time} in total).")
    },
    rows: |viewer| costs(viewer).into(),
};

pub(super) const USES: Table = Table {
    name: "calls",
    label: "Calls",
    columns: &[
        ("name", "syscall", "text"),
        ("object", "on", "text"),
        ("thread", "most by", "thread"),
        ("count", "calls", "count"),
        ("errors", "failed", "count"),
        ("returned", "bytes or events returned", "count"),
        ("mean_ns", "mean time", "ns"),
        ("max_ns", "longest", "ns"),
        ("times", "times", "histogram-ns"),
        ("asked", "sizes asked for", "histogram-bytes"),
        ("results", "sizes returned", "histogram-bytes"),
        ("caller", "most from", "function"),
    ],
    note: |viewer| {
        let calls = &viewer.analysis().derived.calls;
        match (calls.exact, calls.by_object.is_empty()) {
            (_, true) => String::new(),
            (true, _) => {
                "All calls were counted. Times are from entry to return, waiting included.".to_owned()
            }
            (false, _) => {
                format!(
                    "Calls in windows of {} in total: sizes and shares, not totals.",
                    duration(calls.counted_ns)
                )
            }
        }
    },
    rows: |viewer| uses(viewer).into(),
};

fn costs(viewer: &Viewer) -> Vec<Row> {
    let longest = longest_blocked(viewer);
    let row = |call: &SyscallUse| {
        let name = match call.number {
            -1 => "(page fault)".to_owned(),
            number if call.name.is_empty() => format!("syscall {number}"),
            _ => call.name.to_owned(),
        };
        let cells = vec![
            name.into(),
            call.cpu_ns.into(),
            call.cpu_error_ns.into(),
            call.blocked_ns.into(),
            call.blocked.into(),
            call.rate.map(|rate| rate.per_second).into(),
            call.call.map(|call| call.cpu_ns).into(),
        ];
        (cells, longest.get(&call.number).copied())
    };
    viewer.analysis().derived.syscalls.iter().map(row).collect()
}

/// Where a thread of the program was blocked for longest, by syscall.
fn longest_blocked(viewer: &Viewer) -> BTreeMap<i32, Place> {
    let trace = &viewer.trace;
    let mut longest: BTreeMap<i32, Place> = BTreeMap::new();
    for thread in trace.target_threads() {
        for slice in trace.slices.of_thread(thread) {
            if slice.state != ThreadState::Blocked || slice.wait == WaitId::NONE {
                continue;
            }
            let Some(wait) = trace.waits.get(slice.wait.index()) else { continue };
            let known = longest.get(&wait.syscall).map_or(0, |place| place.end_ns - place.start_ns);
            if slice.duration().0 > known
                && let Some(place) = place(viewer, thread, (slice.start, slice.end))
            {
                longest.insert(wait.syscall, place);
            }
        }
    }
    longest
}

fn uses(viewer: &Viewer) -> Vec<Row> {
    let row = |used: &CallUse| {
        let most = used.threads.first().map(|(thread, _)| *thread);
        // The raw operation, for calls that are distinguished by it, as in the report.
        let name = if used.op == 0 { used.name.to_owned() } else { format!("{} {:#x}", used.name, used.op) };
        let cells = vec![
            name.into(),
            used.object_name.clone().into(),
            most.map(|thread: ThreadId| thread.0).into(),
            used.count.into(),
            used.errors.into(),
            if used.results.total() > 0 { used.returned.into() } else { Value::Null },
            used.mean_ns().into(),
            if used.timed > 0 { used.time_max_ns.into() } else { Value::Null },
            histogram(&used.times),
            histogram(&used.asked),
            histogram(&used.results),
            used.callers.first().map(|(name, _)| name.clone()).into(),
        ];
        (cells, most.and_then(|thread| life(viewer, thread)))
    };
    viewer.analysis().derived.calls.by_object.iter().map(row).collect()
}

/// Buckets in order: from, below, how many. Nothing where nothing was counted.
fn histogram(counts: &Histogram) -> Value {
    if counts.total() == 0 {
        return Value::Null;
    }
    let bucket = |(bucket, count): (&u8, &u64)| {
        let (from, below) = bounds(*bucket);
        json!([from, below, count])
    };
    counts.0.iter().map(bucket).collect()
}
