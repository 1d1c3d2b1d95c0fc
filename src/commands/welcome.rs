//! `holdup` without arguments.

use std::process::ExitCode;

use anyhow::Result;
use holdup_capture::doctor;
use holdup_capture::privileges;

use crate::cli;

/// Prints the examples, and the command that enables the best backend if this machine does not allow it yet.
pub fn execute() -> Result<ExitCode> {
    let (_, reason) = doctor::best_backend(&doctor::examine());
    privileges::give_back()?;
    let reason = match reason.as_str() {
        "" => String::new(),
        reason => format!("Recordings here are limited: {reason}\n\n"),
    };
    super::print(&format!(
        "holdup {}: why is my program with many threads slow?\n\n{}\n\n{reason}`holdup --help` lists every command. `holdup \
         doctor` prints what works here.\n",
        env!("CARGO_PKG_VERSION"),
        cli::EXAMPLES
    ))
}
