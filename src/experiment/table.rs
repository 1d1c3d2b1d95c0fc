//! A set of runs as a table: a row a run, a column a knob and a class of the ledger. Each way to write it is a file here.

mod csv;
mod parquet;

use std::path::Path;

use anyhow::{Context, Result};
use holdup_findings::derive::class::Class;
use holdup_findings::experiment::{Experiment, Run, Setting, Table as LedgerTable};

use crate::cli::ForceArgs;
use crate::commands::outputs;

/// The values of a column, one per run. `None` if a run has no value.
#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// Whole numbers: counts and nanoseconds.
    Whole(Vec<Option<u64>>),
    /// Other numbers.
    Real(Vec<Option<f64>>),
    /// Words.
    Text(Vec<String>),
}

/// A name and its values.
type Column = (String, Values);

/// Writes every run, those that do not count, too: as Parquet if the file's name ends so, else as comma-separated values.
pub fn write(experiment: &Experiment, file: &Path, force: ForceArgs) -> Result<()> {
    let columns = columns(experiment);
    let bytes = match file.extension().is_some_and(|ending| ending == "parquet") {
        true => parquet::bytes(&columns).with_context(|| format!("writing {}", file.display()))?,
        false => csv::text(&columns).into_bytes(),
    };
    outputs::write(file, &bytes, force)
}

fn columns(experiment: &Experiment) -> Vec<Column> {
    let runs = &experiment.runs;
    let setting = |run: &Run| &experiment.settings[run.setting];
    let whole = |of: &dyn Fn(&Run) -> u64| Values::Whole(runs.iter().map(|run| Some(of(run))).collect());
    let real = |of: &dyn Fn(&Run) -> Option<f64>| Values::Real(runs.iter().map(of).collect());
    let text = |of: &dyn Fn(&Run) -> String| Values::Text(runs.iter().map(of).collect());
    let mut columns: Vec<Column> = vec![
        ("setting".into(), text(&|run| setting(run).name.clone())),
        ("round".into(), whole(&|run| run.round.into())),
        ("order".into(), Values::Whole((0..).take(runs.len()).map(Some).collect())),
        ("wall_ns".into(), whole(&|run| run.wall_ns)),
        ("progress".into(), real(&|run| run.progress)),
        ("value".into(), real(&|run| run.value(experiment.goal))),
        ("failure".into(), text(&|run| run.failure.clone())),
        ("stolen".into(), real(&|run| Some(run.drift.stolen))),
        ("others".into(), real(&|run| Some(run.drift.others))),
    ];
    for knob in knobs(&experiment.settings) {
        let value = |run: &Run| {
            let knobs = &setting(run).knobs;
            knobs.iter().find(|(name, _)| name == knob).map_or(String::new(), |(_, value)| value.clone())
        };
        columns.push((knob.to_owned(), text(&value)));
    }
    for class in Class::ALL {
        let ns = runs.iter().map(|run| run.ns(LedgerTable::Ledger, class.name())).collect();
        columns.push((format!("{}_ns", class.name().replace('-', "_")), Values::Whole(ns)));
    }
    columns
}

/// Names of all knobs, each once.
fn knobs(settings: &[Setting]) -> Vec<&str> {
    let mut names: Vec<&str> =
        settings.iter().flat_map(|setting| &setting.knobs).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
fn example() -> Experiment {
    let knobs = vec![("cpus".to_owned(), "0,1".to_owned())];
    Experiment {
        settings: vec![Setting { name: "cpus=0,1".into(), knobs, command: Vec::new() }],
        runs: vec![
            Run { failure: "said \"no\"".into(), ..Run::default() },
            Run { wall_ns: 12, progress: Some(2.5), ..Run::default() },
        ],
        ..Experiment::default()
    }
}
