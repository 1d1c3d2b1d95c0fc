//! `holdup demo`

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::cli::DemoArgs;
use crate::demo_words;

/// Records the built-in program and prints its verdict, or is that program.
pub fn execute(args: &DemoArgs) -> Result<ExitCode> {
    if args.work {
        return super::print(&format!("{} words counted\n", demo_words::count(!args.fixed)));
    }
    let form = match args.fixed {
        false => "threads count words into one table with one lock",
        true => "the same work, with one table per thread",
    };
    say!("holdup: recording a built-in program: {form} (about two seconds)");
    let holdup = std::env::current_exe().context("the path of holdup itself")?;
    let mut run = Command::new(&holdup);
    run.arg("run");
    if let Some(output) = &args.output {
        run.arg("-o").arg(output);
    }
    run.arg("--").arg(&holdup).args(["demo", "--work"]).args(args.fixed.then_some("--fixed"));
    let status = run.stdin(Stdio::null()).status().with_context(|| format!("{}", holdup.display()))?;
    if status.success() {
        let next = match args.fixed {
            false => "holdup demo --fixed      records the same work without the shared lock",
            true => {
                "holdup diff --a 'holdup demo --work' --b 'holdup demo --work --fixed'      compares both forms"
            }
        };
        say!("Next: {next}\n      holdup -- CMD            records your program");
    }
    Ok(ExitCode::from(status.code().map_or(crate::EXIT_FAILURE, |code| code as u8)))
}
