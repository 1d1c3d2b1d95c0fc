//! `holdup sweep` and `holdup try`: settings against the baseline, layouts, sizes.

use holdup_findings::experiment::compare::Verdict;
use holdup_findings::experiment::layout::Layout;
use holdup_findings::experiment::sizes::{SizeRow, Sizes};
use holdup_findings::experiment::sweep::{Sweep, SweepRow};
use holdup_findings::experiment::trials::Trial;

use super::page::Page;
use super::{Shown, beyond_reach, change, head, number, range, value};
use crate::numbers::{counted, duration, percent};
use crate::terminal::table::Column;
use crate::text::Tint;

pub(super) fn settings(shown: &Shown, (sweep, trials): (&Sweep, &[Trial]), page: &mut Page) {
    let experiment = shown.experiment;
    page.text(experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" ")));
    head::settings(shown, page);
    verdict(shown, sweep, page);
    page.heading("SETTINGS");
    let mut rows = Vec::new();
    if let Some(baseline) = experiment.settings.first() {
        let values = experiment.values(0);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let known = if values.is_empty() { "-".to_owned() } else { value(experiment.goal, mean) };
        let mut cells = vec![baseline.name.clone(), known, values.len().to_string()];
        cells.extend(["baseline", "", ""].map(str::to_owned));
        rows.push(cells);
    }
    rows.extend(sweep.rows.iter().map(|row| cells(shown, row, trials)));
    let last = if trials.is_empty() { "verdict" } else { "advice" };
    page.table(
        &[
            Column::Text(""),
            Column::Figure("value"),
            Column::Figure("runs"),
            Column::Figure("change"),
            Column::Figure("95 % interval"),
            Column::Text(last),
        ],
        rows,
    );
    page.faint(format!(
        "The intervals hold jointly: the probability that any of the {} is wrong is 5 %.",
        sweep.rows.len()
    ));
    if sweep.best.is_none() && sweep.rows.iter().any(|row| row.change.verdict == Verdict::Unclear) {
        page.faint(match (sweep.runs_wanted(), sweep.beyond_reach()) {
            (Some(wanted), _) => {
                format!("{wanted} runs of each would find the smallest change that matters (--resume, -n {wanted}).")
            }
            (None, Some(row)) => beyond_reach(&row.change, row.change.runs_wanted.unwrap_or(0)),
            (None, None) => "These runs do not show how many more are needed.".to_owned(),
        });
    }
    for (number, trial) in trials.iter().enumerate() {
        let Some(row) = sweep.rows.get(number) else { continue };
        let setting = experiment.settings.get(row.setting).map_or("", |setting| setting.name.as_str());
        page.text(format!(
            "{setting}: {} ({}; {}): {}",
            trial.rule,
            trial.subject,
            trial.hope,
            advice(row.change.verdict)
        ));
    }
    head::foot(shown, page);
}

fn verdict(shown: &Shown, sweep: &Sweep, page: &mut Page) {
    let name = |row: &SweepRow| {
        shown.experiment.settings.get(row.setting).map_or("", |setting| setting.name.as_str())
    };
    match sweep.best.and_then(|best| sweep.rows.get(best)) {
        Some(best) => page.verdict(
            Tint::Good,
            format!(
                "Best: {}: {} against the baseline ({}).",
                name(best),
                change(best.change.relative),
                range(best.change.low, best.change.high)
            ),
        ),
        None if sweep.rows.iter().all(|row| row.change.verdict == Verdict::Same) => {
            page.verdict(Tint::Strong, "No difference that matters: every setting is like the baseline.");
        }
        None if sweep.rows.iter().all(|row| row.change.runs == 0) => {
            page.verdict(
                Tint::Warning,
                "No setting can be compared: no round has a run of it and of the baseline.",
            );
        }
        None => page.verdict(Tint::Strong, "No setting is shown to be better than the baseline."),
    }
}

fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "no difference",
        Verdict::Unclear => "cannot tell",
    }
}

fn advice(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "confirmed",
        Verdict::Slower => "refuted: it is slower",
        Verdict::Same => "refuted: no difference",
        Verdict::Unclear => "cannot tell",
    }
}

fn cells(shown: &Shown, row: &SweepRow, trials: &[Trial]) -> Vec<String> {
    let found = &row.change;
    if found.runs == 0 {
        return unpaired(shown, row);
    }
    let known = found.low.is_finite() && found.high.is_finite();
    vec![
        shown.experiment.settings[row.setting].name.clone(),
        value(shown.experiment.goal, found.b),
        found.runs.to_string(),
        change(found.relative),
        if known { range(found.low, found.high) } else { String::new() },
        if trials.is_empty() { verdict_text(found.verdict) } else { advice(found.verdict) }.to_owned(),
    ]
}

/// Row of a setting without a round in which it and the baseline both succeeded. It only has its own mean.
fn unpaired(shown: &Shown, row: &SweepRow) -> Vec<String> {
    let values = shown.experiment.values(row.setting);
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let known = if values.is_empty() { "-".to_owned() } else { value(shown.experiment.goal, mean) };
    let name = shown.experiment.settings[row.setting].name.clone();
    let why = if values.is_empty() { "no run succeeded" } else { "no run of the baseline to compare with" };
    vec![name, known, values.len().to_string(), String::new(), String::new(), why.to_owned()]
}

pub(super) fn layout(shown: &Shown, layout: &Layout, page: &mut Page) {
    page.text(shown.experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" ")));
    head::settings(shown, page);
    let worst = layout.factors.iter().map(|factor| factor.range).fold(0.0, f64::max);
    if layout.factors.is_empty() {
        page.verdict(Tint::Warning, "Not decided: no whole round of all layouts succeeded.");
    } else if layout.sensitive {
        page.verdict(
            Tint::Bad,
            format!("layout-sensitive: up to {} depends on the layout alone.", change(worst)),
        );
        page.text("See: holdup explain layout-sensitive");
    } else {
        page.verdict(
            Tint::Good,
            "Stable: no layout changes the speed by an amount that matters, beyond chance.",
        );
    }
    page.heading("VARIANCE BY FACTOR");
    let row = |factor: &holdup_findings::experiment::layout::Factor| {
        vec![
            factor.name.clone(),
            percent(factor.share),
            percent(factor.spread),
            change(factor.range),
            format!("{} / {}", factor.ends.0, factor.ends.1),
            if factor.p < 0.001 { "<0.001".to_owned() } else { format!("{:.3}", factor.p) },
        ]
    };
    page.table(
        &[
            Column::Text(""),
            Column::Figure("of variance"),
            Column::Figure("spread"),
            Column::Figure("slowest"),
            Column::Text("fastest / slowest"),
            Column::Figure("chance"),
        ],
        layout.factors.iter().map(row).collect(),
    );
    page.faint(format!(
        "Runs of the same layout scatter by {}. {}. chance: probability of such a difference without a real effect, corrected for all factors.",
        percent(layout.scatter),
        counted(layout.runs as u64, "run")
    ));
    head::foot(shown, page);
}

pub(super) fn sizes(shown: &Shown, sizes: &Sizes, page: &mut Page) {
    page.text(shown.experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" ")));
    head::settings(shown, page);
    growth_verdict(sizes, page);
    page.heading("BY SIZE");
    let row = |(n, ns): &(f64, f64)| {
        let fitted =
            sizes.whole.as_ref().map_or(String::new(), |whole| duration(whole.at(*n).round() as u64));
        vec![number(*n), duration(ns.round() as u64), fitted]
    };
    let columns = [Column::Figure("size"), Column::Figure("time"), Column::Figure("fitted")];
    page.table(&columns, sizes.points.iter().map(row).collect());
    grows(sizes, page);
    head::foot(shown, page);
}

fn grows(sizes: &Sizes, page: &mut Page) {
    if !sizes.rows.is_empty() {
        page.heading("WHAT GROWS");
    }
    let row = |row: &SizeRow| {
        vec![
            row.name.clone(),
            row.table.name().to_owned(),
            duration(row.last_ns.round() as u64),
            format!("{:.2}", row.growth.exponent),
            format!("{:.2} to {:.2}", row.growth.low, row.growth.high),
            row.growth.curve.name().to_owned(),
        ]
    };
    page.table(
        &[
            Column::Text(""),
            Column::Text("kind"),
            Column::Figure("at the largest"),
            Column::Figure("power"),
            Column::Figure("95 % interval"),
            Column::Text("nearest"),
        ],
        sizes.rows.iter().take(14).map(row).collect(),
    );
}

fn growth_verdict(sizes: &Sizes, page: &mut Page) {
    let superlinear: Vec<&SizeRow> = sizes.rows.iter().filter(|row| row.superlinear).collect();
    match (superlinear.first(), &sizes.whole) {
        (Some(row), _) => {
            page.verdict(
                Tint::Bad,
                format!(
                    "superlinear-growth: {} grows as {}^{:.2} ({:.2} to {:.2}), {} of the time at the largest size.",
                    row.name,
                    sizes.knob,
                    row.growth.exponent,
                    row.growth.low,
                    row.growth.high,
                    percent(row.share.min(1.0))
                ),
            );
            page.text("See: holdup explain superlinear-growth");
        }
        (None, Some(_)) => {
            page.verdict(Tint::Good, "Nothing that takes a notable share grows faster than the size.")
        }
        (None, None) => {
            page.verdict(Tint::Warning, "Not decided: at least four sizes are needed, with a run of each.")
        }
    }
    if let Some(whole) = &sizes.whole {
        let apart = match whole.nlogn_over_square {
            ratio if ratio > 20.0 => ", n log n is likelier than n^2",
            ratio if ratio < 0.05 => ", n^2 is likelier than n log n",
            _ => ", n log n and n^2 fit equally well",
        };
        page.text(format!(
            "The total grows as {}^{:.2} ({:.2} to {:.2}) on top of {}, nearest to {}{apart}.",
            sizes.knob,
            whole.exponent,
            whole.low,
            whole.high,
            duration(whole.constant.round() as u64),
            whole.curve.name()
        ));
    }
}
