//! A finding as JSON: of the report, whose times are the clock's, and of the viewer, whose times are since the start.

use holdup_events::{Timestamp, Trace};
use holdup_findings::{Evidence, Finding};
use serde_json::{Value, json};

use super::tid;

/// As `docs/json.md` has it.
pub(super) fn in_report(trace: &Trace, finding: &Finding) -> Value {
    with(finding, |row| {
        let mut out = evidence(row, row.start);
        out["tid"] = json!(tid(trace, row.thread));
        out
    })
}

/// As `docs/viewer-api.md` has it.
pub(crate) fn in_viewer(trace: &Trace, finding: &Finding) -> Value {
    with(finding, |row| {
        let slice = row.slice(trace);
        let mut out = evidence(row, Timestamp(row.start.since(trace.start()).0));
        out["row"] = json!(slice.map_or(-1, |(row, ..)| row as i64));
        out
    })
}

fn with(finding: &Finding, evidence: impl Fn(&Evidence) -> Value) -> Value {
    json!({
        "rule": finding.rule,
        "subject": finding.subject,
        "summary": finding.summary,
        "cost_ns": finding.cost_ns,
        "gain": {"low": finding.gain.low, "likely": finding.gain.likely(), "high": finding.gain.high},
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
