//! `holdup explain`

use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_findings::{experiment, rules};
use holdup_report::explain;

use crate::cli::ExplainArgs;

/// Prints a rule's manual page, or the list of rules.
pub fn execute(args: &ExplainArgs) -> Result<ExitCode> {
    let mut all = rules::all();
    all.extend(experiment::rules());
    let chosen = match &args.rule {
        None => None,
        Some(name) => match all.iter().find(|rule| rule.name == name) {
            Some(rule) => Some(*rule),
            None => {
                let names: Vec<&str> = all.iter().map(|rule| rule.name).collect();
                bail!("'{name}' is not a rule. The rules are: {}", names.join(", "))
            }
        },
    };
    let style = super::style(&std::io::stdout());
    match (chosen, args.json) {
        (Some(rule), true) => super::print_json(&explain::to_json(&[rule])),
        (None, true) => super::print_json(&explain::to_json(&all)),
        (Some(rule), false) => super::print(&explain::manual(&rule, &style)),
        (None, false) => super::print(&explain::list(&all, &style)),
    }
}
