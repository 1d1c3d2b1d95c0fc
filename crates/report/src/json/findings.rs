//! A finding as JSON: of the report, whose times are the clock's, and of the viewer, whose times are since the start.

use holdup_events::{Timestamp, Trace};
use holdup_findings::{Evidence, Finding};
use serde_json::{Value, json};

use super::tid;

/// As `docs/json.md` has it.
pub(super) fn in_report(trace: &Trace, finding: &Finding) -> Value {
    with(trace, finding, |row| {
        let mut out = evidence(row, row.start);
        out["tid"] = json!(tid(trace, row.thread));
        out
    })
}

/// As `docs/viewer-api.md` has it.
pub(crate) fn in_viewer(trace: &Trace, finding: &Finding) -> Value {
    with(trace, finding, |row| {
        let slice = row.slice(trace);
        let mut out = evidence(row, Timestamp(row.start.since(trace.start()).0));
        out["row"] = json!(slice.map_or(-1, |(row, ..)| row as i64));
        out
    })
}

fn with(trace: &Trace, finding: &Finding, evidence: impl Fn(&Evidence) -> Value) -> Value {
    json!({
        "rule": finding.rule,
        "subject": finding.subject,
        "summary": finding.summary,
        "cost_ns": finding.cost_ns,
        "gain": {"low": finding.gain.low, "likely": finding.likely, "high": finding.gain.high},
        "throughput": throughput(trace, finding),
        "confidence": finding.confidence,
        "evidence": finding.evidence.iter().map(evidence).collect::<Value>(),
        "advice": finding.advice,
    })
}

fn evidence(row: &Evidence, start: Timestamp) -> Value {
    json!({
        "table": row.table,
        "thread": row.thread.0,
        "start_ns": start.0,
        "duration_ns": row.duration.0,
        "note": row.note,
    })
}

/// How many times as much work the same time would hold; null of a recording that covers a whole run.
fn throughput(trace: &Trace, finding: &Finding) -> Value {
    if !trace.is_part_of_run() {
        return Value::Null;
    }
    let times = |gain: f64| (gain < 1.0).then(|| 1.0 / (1.0 - gain));
    json!({
        "low": times(finding.gain.low),
        "likely": finding.likely.and_then(times),
        "high": times(finding.gain.high),
    })
}
