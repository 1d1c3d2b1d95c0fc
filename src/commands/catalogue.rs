//! `holdup list` and `holdup completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use holdup_events::recording::store;
use holdup_report::list::Row;

use super::locate;
use crate::cli::{Cli, ListArgs};
use crate::experiment::kept_sets::{self, KeptSet};

/// Lists the kept recordings and sets of runs, newest first.
pub fn list(args: &ListArgs) -> Result<ExitCode> {
    let folder = locate::kept()?;
    let mut rows: Vec<Row> = store::list(&folder)
        .into_iter()
        .map(|kept| Row {
            path: kept.path.display().to_string(),
            command: kept
                .manifest
                .as_ref()
                .map_or_else(|| "(not finished)".to_owned(), |manifest| manifest.command.join(" ")),
            started_unix_ns: kept.started_unix_ns,
            wall_ns: kept
                .manifest
                .as_ref()
                .map_or(0, |manifest| manifest.end_ns.saturating_sub(manifest.start_ns)),
            bytes: kept.bytes,
        })
        .collect();
    rows.extend(kept_sets::list(&folder).iter().map(KeptSet::row));
    rows.sort_by_key(|row| std::cmp::Reverse(row.started_unix_ns));
    if args.json {
        return super::print_json(&holdup_report::list::to_json(&rows));
    }
    super::print(&holdup_report::list::render(&rows, &super::style(&std::io::stdout())))
}

/// Prints the completions of a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdup", &mut text);
    super::print(&String::from_utf8_lossy(&text))
}
