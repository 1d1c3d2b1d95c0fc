//! `holdup whatif`

use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_findings::what_if::{Ask, what_if};

use super::locate;
use crate::cli::WhatifArgs;

/// Replays a recording with changes and prints how long it would take.
pub fn execute(args: &WhatifArgs) -> Result<ExitCode> {
    let ask = Ask {
        without: args.without.clone(),
        faster: args.faster.clone(),
        cpus: args.cpus,
        no_preempt: args.no_preempt,
    };
    let (_, trace) = locate::open(args.recording.as_deref())?;
    let answer = match what_if(&trace, &ask) {
        Ok(answer) => answer,
        Err(why) => bail!(why),
    };
    if args.json {
        return super::print_json(&holdup_report::what_if_json(&answer));
    }
    let style = super::style(&std::io::stdout());
    super::print(&holdup_report::render_what_if(&trace, &answer, &style))
}
