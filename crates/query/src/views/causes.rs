//! The verdict, its evidence, and missing data.

use std::borrow::Cow;

use holdup_events::Loss;
use holdup_findings::{Confidence, Evidence, Finding};

use crate::facts::{Facts, cpu};
use crate::view::{Table, columns, int, part, text};

/// A finding, with its number as the report counts.
pub(super) struct FindingRow {
    number: Option<usize>,
    of: Option<usize>,
    finding: Finding,
}

fn finding_rows(facts: &Facts) -> Vec<FindingRow> {
    let analysis = facts.analysis();
    let own = analysis.findings.iter().zip(1..);
    let own =
        own.map(|(finding, number)| FindingRow { number: Some(number), of: None, finding: finding.clone() });
    let symptoms = analysis.symptoms.iter().map(|symptom| FindingRow {
        number: None,
        of: Some(symptom.root + 1),
        finding: symptom.finding.clone(),
    });
    own.chain(symptoms).collect()
}

pub(super) fn findings() -> Table<FindingRow> {
    Table {
        name: "findings",
        meaning: "a cause of lost time, or a symptom that another cause explains",
        columns: columns! { facts, row: FindingRow;
            Int "finding" "its number in the report, NULL for a symptom" = row.number.map(|number| number as i64);
            Int "explained_by" "for a symptom: the finding that explains it" = row.of.map(|number| number as i64);
            Text "rule" "the rule that found it (`holdup explain RULE`)" = text(row.finding.rule);
            Text "subject" "the lock, function, process or other object that the finding is about" = text(&row.finding.subject);
            Int "cost_ns" "thread time lost to it (ns)" = int(row.finding.cost_ns);
            Real "gain_low" "share of the run's time that removing it would save, lower bound" = Some(row.finding.gain.low);
            Real "gain_high" "the same, upper bound" = Some(row.finding.gain.high);
            Text "confidence" "low, medium or high" = text(confidence(row.finding.confidence));
            Text "summary" "the figures that support the finding" = Some(Cow::Owned(row.finding.summary.join(" ")));
            Text "advice" "what to try, one action per line" = Some(Cow::Owned(row.finding.advice.join("\n")));
        },
        places: |facts| finding_rows(facts).len(),
        rows: |facts, places| part(finding_rows(facts), places),
    }
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

fn evidence_rows(facts: &Facts) -> Vec<(usize, Evidence)> {
    let findings = facts.analysis().findings.iter().zip(1..);
    let rows = findings.flat_map(|(finding, number)| finding.evidence.iter().map(move |row| (number, row)));
    rows.map(|(number, row)| (number, row.clone())).collect()
}

pub(super) fn evidence() -> Table<(usize, Evidence)> {
    Table {
        name: "evidence",
        meaning: "rows that a finding rests on",
        columns: columns! { facts, row: (usize, Evidence);
            Int "finding" "row in findings" = Some(row.0 as i64);
            Text "evidence_table" "table that contains the row" = text(row.1.table);
            Int "thread" "thread of the row: row in threads" = Some(i64::from(row.1.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.1.thread).and_then(text);
            Int "start_ns" "start of the row (ns)" = int(row.1.start.0);
            Int "duration_ns" "length (ns)" = int(row.1.duration.0);
            Real "at_s" "its start, seconds since the recording began" = Some(facts.at_s(row.1.start));
            Text "note" "reason why the row is evidence" = text(&row.1.note);
        },
        places: |facts| evidence_rows(facts).len(),
        rows: |facts, places| part(evidence_rows(facts), places),
    }
}

pub(super) fn loss() -> Table<Loss> {
    Table {
        name: "loss",
        meaning: "a gap in the recording: events of this time are missing",
        columns: columns! { facts, row: Loss;
            Text "source" "source that lost the events" = text(&row.source);
            Text "reason" "reason of the loss" = text(&row.reason);
            Int "cpu" "CPU, NULL for all CPUs" = cpu(row.cpu);
            Int "start_ns" "start of the gap (ns)" = int(row.start.0);
            Int "end_ns" "end of the gap (ns)" = int(row.end.0);
            Int "duration_ns" "length of the gap (ns)" = int(row.end.since(row.start).0);
            Real "at_s" "its start, seconds since the recording began" = Some(facts.at_s(row.start));
            Int "events" "number of lost events, NULL if unknown" = int(row.events).filter(|events| *events > 0);
        },
        places: |facts| facts.trace.losses.len(),
        rows: |facts, places| facts.trace.losses.get(places).unwrap_or(&[]).to_vec(),
    }
}
