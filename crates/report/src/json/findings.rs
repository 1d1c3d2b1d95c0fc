//! A finding as JSON: of the report, whose times are the clock's, and of the viewer, whose times are since the start.

use holdup_events::{Timestamp, Trace};
use holdup_findings::derive::ledger::Ledger;
use holdup_findings::{Evidence, Finding};
use serde_json::{Value, json};

use super::tid;
use crate::gains;
use crate::throughput::{Measure, Throughput, measure};

/// As `docs/json.md` has it.
pub(super) fn in_report(trace: &Trace, ledger: &Ledger, finding: &Finding) -> Value {
    with(trace, ledger, finding, |row| {
        let mut out = evidence(row, row.start);
        out["tid"] = json!(tid(trace, row.thread));
        out
    })
}

/// As `docs/viewer-api.md` has it.
pub(crate) fn in_viewer(trace: &Trace, ledger: &Ledger, finding: &Finding) -> Value {
    let mut shown = with(trace, ledger, finding, |row| {
        let slice = row.slice(trace);
        let mut out = evidence(row, Timestamp(row.start.since(trace.start()).0));
        out["row"] = json!(slice.map_or(-1, |(row, ..)| row as i64));
        out
    });
    shown["gain_text"] = json!(gains::short(trace, ledger, finding));
    shown
}

fn with(trace: &Trace, ledger: &Ledger, finding: &Finding, evidence: impl Fn(&Evidence) -> Value) -> Value {
    json!({
        "rule": finding.rule,
        "subject": finding.subject,
        "summary": finding.summary,
        "cost_ns": finding.cost_ns,
        "gain": {"low": finding.gain.low, "likely": finding.likely, "high": finding.gain.high},
        "throughput": throughput(trace, ledger, finding),
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

/// Null of a recording whose gains have another measure.
fn throughput(trace: &Trace, ledger: &Ledger, finding: &Finding) -> Value {
    if measure(trace, ledger) != Measure::Throughput {
        return Value::Null;
    }
    let Throughput { low, likely, high } = Throughput::new(finding);
    json!({ "low": low, "likely": likely, "high": high })
}
