//! The `holdup` command: flags and wiring. Everything it knows comes from the crates.

mod build_name;
mod cli;
mod commands;
mod experiment;
mod live;
mod record;
mod top;
mod watch;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

/// holdup's own failures: bad usage, bad input, nothing to be done.
const EXIT_FAILURE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.len() < 2 {
        println!("holdup {}: why is my program with many threads slow?\n", env!("CARGO_PKG_VERSION"));
        println!(
            "{}\n\n`holdup --help` lists every command; `holdup doctor` says what works here.",
            cli::EXAMPLES
        );
        return ExitCode::SUCCESS;
    }
    let cli = match cli::Cli::try_parse_from(cli::with_default_command(words)) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_FAILURE) } else { ExitCode::SUCCESS };
        }
    };
    match commands::execute(cli.command) {
        Ok(code) => code,
        Err(error) => {
            if commands::is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            let mark = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
                "\x1b[1;31mholdup:\x1b[0m"
            } else {
                "holdup:"
            };
            // What is wrong with a foreign file may be told in its own words.
            eprintln!("{mark} {}", holdup_report::text::clean_lines(&format!("{error:#}")));
            ExitCode::from(EXIT_FAILURE)
        }
    }
}
