//! An experiment as JSON; see docs/json.md.

use holdup_findings::experiment::compare::{Change, Estimate};
use holdup_findings::experiment::difference::RowChange;
use holdup_findings::experiment::within::ClassChange;
use holdup_findings::experiment::{Experiment, surroundings};
use serde_json::{Value, json};

use super::{Answer, Diff, Shown};

pub(super) fn to_json(shown: &Shown) -> Value {
    let experiment = shown.experiment;
    let around = surroundings::of(experiment);
    let mut out = json!({
        "schema_version": crate::json::SCHEMA_VERSION,
        "set": shown.set,
        "goal": experiment.goal.name(),
        "seed": experiment.seed,
        "settings": (0..experiment.settings.len()).map(|one| setting(experiment, one)).collect::<Value>(),
        "runs": experiment.runs.iter().map(|run| json!({
            "setting": run.setting,
            "round": run.round,
            "wall_ns": run.wall_ns,
            "progress": run.progress,
            "value": run.value(experiment.goal),
            "failure": run.failure,
            "recording": run.recording,
            "others": run.drift.others,
            "stolen": run.drift.stolen,
        })).collect::<Value>(),
        "surroundings": {
            "others": around.others,
            "stolen": around.stolen,
            "disturbed": around.disturbed,
            "judged": around.judged,
        },
        "diff": null,
    });
    let (name, answer) = match shown.answer {
        Answer::Diff(diff) => ("diff", of_diff(diff)),
    };
    out[name] = answer;
    out
}

fn setting(experiment: &Experiment, number: usize) -> Value {
    let setting = &experiment.settings[number];
    let values = experiment.values(number);
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    json!({
        "name": setting.name,
        "command": setting.command,
        "knobs": setting.knobs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Value>(),
        "runs": values.len(),
        "mean": mean,
    })
}

pub(super) fn of_change(found: &Change) -> Value {
    let known = |value: f64| value.is_finite().then_some(value);
    json!({
        "runs": found.runs,
        "a": found.a,
        "b": found.b,
        "relative": found.relative,
        "low": known(found.low),
        "high": known(found.high),
        "p": found.p,
        "verdict": found.verdict.name(),
        "runs_wanted": found.runs_wanted,
    })
}

fn of_diff(diff: &Diff) -> Value {
    json!({
        "a": diff.names.0,
        "b": diff.names.1,
        "paired": diff.difference.paired,
        "change": of_change(&diff.difference.goal),
        "rows": diff.difference.rows.iter().map(row).collect::<Value>(),
        "within": diff.within.iter().map(class).collect::<Value>(),
    })
}

fn row(row: &RowChange) -> Value {
    let of = |field: fn(&Estimate) -> f64| row.change.as_ref().map(field);
    json!({
        "table": row.table.name(),
        "name": row.name,
        "a_ns": row.a_ns.round() as u64,
        "b_ns": row.b_ns.round() as u64,
        "low_ns": of(|found| found.low),
        "high_ns": of(|found| found.high),
        "p": of(|found| found.p),
        "real": row.is_real,
        "a_count": row.counts.map(|both| both.0),
        "b_count": row.counts.map(|both| both.1),
    })
}

fn class(row: &ClassChange) -> Value {
    let of = |field: fn(&Estimate) -> f64| row.change.as_ref().map(field);
    json!({
        "class": row.class.name(),
        "a": row.a,
        "b": row.b,
        "low": of(|found| found.low),
        "high": of(|found| found.high),
    })
}
