//! An experiment as JSON (docs/json-experiments.md).

use holdup_findings::experiment::collections::{Collections, Part};
use holdup_findings::experiment::compare::{Change, Estimate};
use holdup_findings::experiment::difference::{Basis, Figure, RowChange, Trend};
use holdup_findings::experiment::growth::Growth;
use holdup_findings::experiment::layout::Layout;
use holdup_findings::experiment::scaling::{ScalePoint, Scaling};
use holdup_findings::experiment::sizes::Sizes;
use holdup_findings::experiment::sweep::Sweep;
use holdup_findings::experiment::trials::Trial;
use holdup_findings::experiment::usl::Coefficient;
use holdup_findings::experiment::within::ClassChange;
use holdup_findings::experiment::{Experiment, Measure, surroundings};
use serde_json::{Value, json};

use super::{Answer, Diff, Shown};

pub(super) fn to_json(shown: &Shown) -> Value {
    let experiment = shown.experiment;
    let around = surroundings::summarize(experiment);
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
        "scale": null,
        "sweep": null,
        "layout": null,
        "size": null,
    });
    let (name, answer) = match shown.answer {
        Answer::Diff(diff) => ("diff", of_diff(diff)),
        Answer::Scale(scaling) => ("scale", of_scaling(scaling)),
        Answer::Sweep(sweep, trials) => ("sweep", of_sweep(sweep, trials)),
        Answer::Layout(layout) => ("layout", of_layout(layout)),
        Answer::Sizes(sizes) => ("size", of_sizes(sizes)),
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
        "beyond_reach": found.is_beyond_reach(),
        "finds": found.finds,
    })
}

fn of_diff(diff: &Diff) -> Value {
    json!({
        "a": diff.names.0,
        "b": diff.names.1,
        "paired": diff.difference.paired,
        "change": of_change(&diff.difference.goal),
        "rows": diff.difference.rows.iter().map(|one| row(diff.difference.basis, one)).collect::<Value>(),
        "collections": diff.collections.as_ref().map(collections),
        "within": diff.within.iter().map(class).collect::<Value>(),
    })
}

fn collections(found: &Collections) -> Value {
    let part = |part: &Part| json!({"name": part.name, "a_ns": part.a_ns, "b_ns": part.b_ns});
    json!({
        "a_ns": found.a_ns,
        "b_ns": found.b_ns,
        "more_ns": found.more_ns,
        "share": found.share(),
        "parts": found.parts.iter().map(part).collect::<Value>(),
    })
}

fn row(basis: Basis, row: &RowChange) -> Value {
    // Rows that are no time have none.
    let time = row.figure(Measure::Time);
    let of = |field: fn(&Estimate) -> f64| time.and_then(|time| time.change.as_ref()).map(field);
    let count = row.figure(Measure::Count);
    let main = row.main();
    json!({
        "table": row.table.name(),
        "name": row.name,
        "a_ns": time.map(|time| time.a.round() as u64),
        "b_ns": time.map(|time| time.b.round() as u64),
        "low_ns": of(|found| found.low),
        "high_ns": of(|found| found.high),
        "p": main.change.as_ref().map(|found| found.p),
        "real": basis == Basis::Runs && main.trend.is_change(),
        "a_count": count.map(|count| count.a),
        "b_count": count.map(|count| count.b),
        "figures": row.figures.iter().map(|one| figure(basis, one)).collect::<Value>(),
    })
}

fn figure(basis: Basis, figure: &Figure) -> Value {
    let of = |field: fn(&Estimate) -> f64| figure.change.as_ref().map(field);
    // One run of each is no verdict.
    let (verdict, throughout) = match basis {
        Basis::Runs => (figure.trend, None),
        Basis::Blocks => (Trend::Unclear, figure.change.as_ref().map(|_| figure.trend.name())),
    };
    json!({
        "measure": figure.measure.name(),
        "unit": figure.measure.unit(),
        "a": figure.a,
        "b": figure.b,
        "relative": figure.relative(),
        "low": of(|found| found.low),
        "high": of(|found| found.high),
        "p": of(|found| found.p),
        "verdict": verdict.name(),
        "runs_wanted": figure.runs_wanted,
        "throughout": throughout,
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

fn of_scaling(scaling: &Scaling) -> Value {
    let coefficient = |of: &Coefficient| json!({"value": of.value, "low": of.low, "high": of.high});
    json!({
        "cpus": scaling.cpus,
        "points": scaling.points.iter().map(point).collect::<Value>(),
        "usl": scaling.usl.as_ref().map(|law| json!({
            "gamma": law.gamma,
            "sigma": coefficient(&law.sigma),
            "kappa": coefficient(&law.kappa),
            "points": law.points,
            "peak": law.peak(),
        })),
        "carrying": scaling.carrying,
        "missing": scaling.missing,
        "forecast": scaling.forecast.map(|(best, low, high)| json!({
            "workers": scaling.at, "speedup": best, "low": low, "high": high,
        })),
        "growing": scaling.growing.iter().map(|one| json!({
            "table": one.table.name(),
            "name": one.name,
            "first_ns": one.first_ns.round() as u64,
            "last_ns": one.last_ns.round() as u64,
            "exponent": one.power.map(|power| power.exponent),
            "sure": one.is_sure(),
            "low": one.power.map(|power| power.low),
            "high": one.power.map(|power| power.high),
            "forecast_ns": one.power.map(|power| power.forecast_ns.round() as u64),
        })).collect::<Value>(),
    })
}

fn point(point: &ScalePoint) -> Value {
    let known = |value: f64| value.is_finite().then_some(1.0 + value);
    json!({
        "workers": point.workers,
        "has_cpus": point.has_cpus,
        "value": point.value,
        "runs": point.speedup.runs,
        "speedup": 1.0 + point.speedup.relative,
        "low": known(point.speedup.low),
        "high": known(point.speedup.high),
        "stack": point.stack.as_ref().map(|stack| json!({
            "useful": stack.useful,
            "inflation": stack.inflation,
            "losses": stack.losses.iter().map(|(name, size)| json!({"name": name, "workers": size}))
                .collect::<Value>(),
        })),
    })
}

fn of_sweep(sweep: &Sweep, trials: &[Trial]) -> Value {
    let row = |(number, row): (usize, &holdup_findings::experiment::sweep::SweepRow)| {
        json!({
            "setting": row.setting,
            "change": of_change(&row.change),
            "p_corrected": row.p_corrected,
            "tries": trials.get(number).map(|trial| json!({"rule": trial.rule, "subject": trial.subject})),
        })
    };
    let best = sweep.best.and_then(|best| sweep.rows.get(best)).map(|row| row.setting);
    json!({"best": best, "rows": sweep.rows.iter().enumerate().map(row).collect::<Value>()})
}

fn of_layout(layout: &Layout) -> Value {
    json!({
        "sensitive": layout.sensitive,
        "scatter": layout.scatter,
        "runs": layout.runs,
        "factors": layout.factors.iter().map(|factor| json!({
            "name": factor.name,
            "share": factor.share,
            "spread": factor.spread,
            "range": factor.range,
            "fastest": factor.ends.0,
            "slowest": factor.ends.1,
            "p": factor.p,
        })).collect::<Value>(),
    })
}

fn of_sizes(sizes: &Sizes) -> Value {
    json!({
        "knob": sizes.knob,
        "points": sizes.points.iter().map(|(n, ns)| json!({"size": n, "wall_ns": ns.round() as u64}))
            .collect::<Value>(),
        "whole": sizes.whole.as_ref().map(growth),
        "rows": sizes.rows.iter().map(|row| json!({
            "table": row.table.name(),
            "name": row.name,
            "last_ns": row.last_ns.round() as u64,
            "share": row.share,
            "superlinear": row.superlinear,
            "growth": growth(&row.growth),
        })).collect::<Value>(),
    })
}

fn growth(growth: &Growth) -> Value {
    json!({
        "exponent": growth.exponent,
        "low": growth.low,
        "high": growth.high,
        "constant_ns": growth.constant,
        "curve": growth.curve.name(),
    })
}
