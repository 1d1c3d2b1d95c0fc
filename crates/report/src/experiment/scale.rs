//! `holdup scale`: the table, the plot, the law, the speed-up stacks, and what grows.

use holdup_findings::experiment::growth;
use holdup_findings::experiment::scaling::{Growing, Power, ScalePoint, Scaling};
use holdup_findings::experiment::speedup_stack::SpeedupStack;
use holdup_findings::experiment::usl;

use super::page::Page;
use super::{Shown, head, number, value};
use crate::numbers::{counted, duration, percent};
use crate::terminal::table::Column;
use crate::text::Tint;

/// Losses of less than this many workers are added up.
const LOSS_MIN: f64 = 0.01;
/// Columns of a plot's bars.
const BAR_WIDTH: usize = 40;

pub(super) fn write(shown: &Shown, scaling: &Scaling, page: &mut Page) {
    let command =
        shown.experiment.settings.first().map_or(String::new(), |setting| setting.command.join(" "));
    page.text(command);
    head::settings(shown, page);
    verdict(scaling, page);
    page.heading("SPEED-UP");
    page.table(&COLUMNS, scaling.points.iter().map(|point| row(shown, scaling, point)).collect());
    page.picture(plot(scaling));
    law(scaling, page);
    stacks(scaling, page);
    growing(scaling, page);
    head::foot(shown, page);
}

const COLUMNS: [Column; 6] = [
    Column::Figure("workers"),
    Column::Figure("runs"),
    Column::Figure("value"),
    Column::Figure("speed-up"),
    Column::Figure("95 % interval"),
    Column::Figure("efficiency"),
];

fn first_workers(scaling: &Scaling) -> f64 {
    f64::from(scaling.points.first().map_or(1, |point| point.workers))
}

fn row(shown: &Shown, scaling: &Scaling, point: &ScalePoint) -> Vec<String> {
    let found = &point.speedup;
    let interval = match found.low.is_finite() && found.high.is_finite() {
        true => format!("{:.2} to {:.2}", 1.0 + found.low, 1.0 + found.high),
        false => String::new(),
    };
    let over = if point.has_cpus { "" } else { " *" };
    let times = f64::from(point.workers) / first_workers(scaling);
    vec![
        format!("{}{over}", point.workers),
        found.runs.to_string(),
        value(shown.experiment.goal, point.value),
        format!("{:.2}", 1.0 + found.relative),
        interval,
        percent((1.0 + found.relative) / times),
    ]
}

fn verdict(scaling: &Scaling, page: &mut Page) {
    let within = scaling.points.iter().filter(|point| point.has_cpus);
    let best = within.max_by(|a, b| a.speedup.relative.total_cmp(&b.speedup.relative));
    let Some(best) = best.or(scaling.points.first()) else { return };
    page.verdict(
        Tint::Strong,
        format!(
            "{} workers are {:.2} times{} as fast as {}: {} of the {} that would be ideal.",
            best.workers,
            1.0 + best.speedup.relative,
            interval(best),
            first_workers(scaling),
            percent((1.0 + best.speedup.relative) * first_workers(scaling) / f64::from(best.workers)),
            number(f64::from(best.workers) / first_workers(scaling)),
        ),
    );
    if scaling.points.iter().any(|point| !point.has_cpus) {
        page.faint(format!(
            "* more workers than the {} of this machine: they share CPUs, so these rows do not predict more CPUs.",
            counted(u64::from(scaling.cpus), "CPU")
        ));
    }
}

/// The interval of a speed-up, where it is one.
fn interval(point: &ScalePoint) -> String {
    let (low, high) = (1.0 + point.speedup.low, 1.0 + point.speedup.high);
    if low.is_finite() && high.is_finite() && low < high {
        format!(" ({low:.2} to {high:.2})")
    } else {
        String::new()
    }
}

/// A bar for each number of workers, with a mark for the ideal.
fn plot(scaling: &Scaling) -> Vec<String> {
    let most = scaling.points.iter().map(|point| 1.0 + point.speedup.relative);
    let ideal = |point: &ScalePoint| f64::from(point.workers) / first_workers(scaling);
    let most = most.chain(scaling.points.iter().filter(|one| one.has_cpus).map(ideal)).fold(1.0, f64::max);
    let mut lines = vec![String::new()];
    for point in &scaling.points {
        let bar = crate::text::bar((1.0 + point.speedup.relative) / most, BAR_WIDTH);
        let mut columns: Vec<char> = bar.chars().collect();
        columns.resize(BAR_WIDTH + 1, ' ');
        let mark = (ideal(point) / most * BAR_WIDTH as f64).round() as usize;
        if let Some(column) = columns.get_mut(mark).filter(|column| **column == ' ') {
            *column = '│';
        }
        let line: String = columns.into_iter().collect();
        lines.push(format!("  {:>7}  {}", point.workers, line.trim_end()));
    }
    lines.push(format!("  {:>7}  │ ideal", ""));
    lines
}

fn law(scaling: &Scaling, page: &mut Page) {
    page.heading("THE LAW (Universal Scalability Law, joint 95 % intervals)");
    let Some(law) = &scaling.usl else {
        page.text(not_fitted(scaling));
        return;
    };
    let coefficient = |name: &str, what: &str, of: &usl::Coefficient| {
        vec![
            name.to_owned(),
            format!("{:.4}", of.value),
            format!("{:.4} to {:.4}", of.low, of.high),
            what.to_owned(),
        ]
    };
    page.table(
        &[Column::Text(""), Column::Figure("value"), Column::Figure("interval"), Column::Text("meaning")],
        vec![
            coefficient("sigma", "serial part: contention", &law.sigma),
            coefficient("kappa", "each worker with each other worker: coherence", &law.kappa),
        ],
    );
    if let Some(peak) = law.peak().filter(|peak| *peak < 10_000.0) {
        page.text(format!("Beyond {peak:.0} workers more make it slower."));
    }
    if let Some((best, low, high)) = scaling.forecast {
        let seen = scaling.points.iter().filter(|point| point.has_cpus).map(|point| point.workers).max();
        let extrapolates = match seen {
            Some(seen) if scaling.at > seen => {
                format!(" This extrapolates: the law was measured up to {seen}.")
            }
            _ => String::new(),
        };
        page.text(format!(
            "At {} workers: {best:.1} times as fast as one ({low:.1} to {high:.1}).{extrapolates}",
            scaling.at
        ));
    }
}

/// Returns the reason why no law was fitted, and the missing sizes or runs.
fn not_fitted(scaling: &Scaling) -> String {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let carrying = scaling.carrying.len();
    if carrying >= usl::POINTS_MIN {
        return "Not fitted: there are too few runs.".to_owned();
    }
    let has = match carrying {
        0 => "There are none".to_owned(),
        _ => format!("There are only {carrying} ({})", list(&scaling.carrying)),
    };
    let missing = match scaling.missing.is_empty() {
        true => format!(
            "This machine has {}: measure on one with {} or more.",
            counted(u64::from(scaling.cpus), "CPU"),
            usl::POINTS_MIN
        ),
        false => {
            let mut all = [&scaling.carrying[..], &scaling.missing].concat();
            all.sort_unstable();
            format!("Missing are {}, for example --workers {}.", scaling.missing.len(), list(&all))
        }
    };
    format!(
        "Not fitted: the law has {} coefficients and needs {} numbers of workers that do not share CPUs. {has}. {missing}",
        usl::COEFFICIENTS,
        usl::POINTS_MIN
    )
}

fn stacks(scaling: &Scaling, page: &mut Page) {
    let stacks: Vec<&SpeedupStack> = scaling.points.iter().filter_map(|point| point.stack.as_ref()).collect();
    let mut names: Vec<(&str, f64)> = Vec::new();
    for (name, size) in stacks.iter().flat_map(|stack| &stack.losses) {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, most)) => *most = most.max(*size),
            None => names.push((name, *size)),
        }
    }
    names.retain(|(_, most)| *most >= LOSS_MIN);
    names.sort_by(|a, b| b.1.total_cmp(&a.1));
    if stacks.is_empty() {
        return;
    }
    page.heading("SPEED-UP STACK (workers: each row sums to their number)");
    let line = |stack: &SpeedupStack| -> Vec<(String, f64)> {
        let of =
            |name: &str| stack.losses.iter().find(|(known, _)| known == name).map_or(0.0, |(_, size)| *size);
        let mut parts = vec![("useful".to_owned(), stack.useful), ("inflation".to_owned(), stack.inflation)];
        parts.extend(names.iter().map(|(name, _)| ((*name).to_owned(), of(name))));
        parts
    };
    for stack in stacks {
        let parts: Vec<String> = line(stack)
            .into_iter()
            .filter(|(_, size)| size.abs() >= LOSS_MIN)
            .map(|(name, size)| format!("{name} {size:.2}"))
            .collect();
        page.text(format!("{} = {}", stack.workers, parts.join(" + ")));
    }
    page.faint("inflation: useful work that takes more time than one worker needs for it (caches, memory, frequency).");
}

fn growing(scaling: &Scaling, page: &mut Page) {
    if scaling.growing.is_empty() {
        return;
    }
    page.heading("WHAT GROWS WITH THE WORKERS (thread time for the same work)");
    let row = |one: &Growing| {
        let figure = |of: fn(&Power) -> String| one.power.as_ref().map_or(String::new(), of);
        vec![
            one.name.clone(),
            one.table.name().to_owned(),
            duration(one.first_ns.round() as u64),
            duration(one.last_ns.round() as u64),
            figure(|power| format!("{:.2}", power.exponent)),
            figure(|power| format!("{:.1} to {:.1}", power.low, power.high)),
            if one.is_sure() { "yes" } else { "perhaps" }.to_owned(),
            figure(|power| duration(power.forecast_ns.round() as u64)),
        ]
    };
    let columns = [
        Column::Text(""),
        Column::Text("kind"),
        Column::Figure("first"),
        Column::Figure("last"),
        Column::Figure("power"),
        Column::Figure("interval"),
        Column::Text("grows"),
        Column::Figure("forecast"),
    ];
    page.table(&columns, scaling.growing.iter().map(row).collect());
    let note = match scaling.growing.iter().any(|one| one.power.is_some()) {
        true => format!("forecast: at {} workers, if the growth continues", scaling.at),
        false => format!("no power and no forecast: these need {} numbers of workers", growth::POINTS_MIN),
    };
    page.faint(format!("{note} (not certain: the runs do not show any growth)."));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(carrying: &[u32], missing: &[u32], cpus: u32) -> Scaling {
        Scaling {
            points: Vec::new(),
            usl: None,
            carrying: carrying.to_vec(),
            missing: missing.to_vec(),
            forecast: None,
            at: 24,
            cpus,
            growing: Vec::new(),
        }
    }

    #[test]
    fn an_unfitted_law_names_the_missing_worker_counts() {
        let text = not_fitted(&scaling(&[1, 2, 8], &[4, 6], 16));
        assert!(text.contains("needs 5 numbers of workers"), "{text}");
        assert!(text.ends_with("only 3 (1,2,8). Missing are 2, for example --workers 1,2,4,6,8."), "{text}");
        let text = not_fitted(&scaling(&[1, 2], &[], 2));
        assert!(
            text.ends_with("only 2 (1,2). This machine has 2 CPUs: measure on one with 5 or more."),
            "{text}"
        );
        assert_eq!(not_fitted(&scaling(&[1, 2, 3, 4, 5], &[], 8)), "Not fitted: there are too few runs.");
    }
}
