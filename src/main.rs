//! The `holdup` command: flags and wiring. Everything it knows comes from the crates.

#[macro_use]
mod stderr;

mod build_name;
mod cli;
mod commands;
mod demo_words;
mod experiment;
mod half_made;
mod live;
mod record;
mod top;
mod watch;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::io::IsTerminal;
use std::process::ExitCode;

/// Exit status of holdup's own failures: bad usage, bad input, nothing to do. `cli::STATUS` documents it.
const EXIT_FAILURE: u8 = 2;

fn main() -> ExitCode {
    holdup_capture::privileges::become_privileged_copy();
    let words: Vec<_> = std::env::args_os().collect();
    let done = match words.len() {
        0 | 1 => commands::welcome(),
        _ => match cli::parse(words) {
            Ok(cli) => commands::execute(cli.command),
            // The requested text, such as `--help`, or the usage error.
            Err(error) if !error.use_stderr() => {
                commands::stdout().and_then(|_| Ok(error.print().map(|()| ExitCode::SUCCESS)?))
            }
            Err(error) => {
                let _ = error.print();
                Ok(ExitCode::from(EXIT_FAILURE))
            }
        },
    };
    done.unwrap_or_else(|error| fail(&error))
}

fn fail(error: &anyhow::Error) -> ExitCode {
    if commands::is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let mark = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        "\x1b[1;31mholdup:\x1b[0m"
    } else {
        "holdup:"
    };
    // The error text may contain text from a foreign file.
    say!("{mark} {}", holdup_report::text::clean_lines(&format!("{error:#}")));
    ExitCode::from(EXIT_FAILURE)
}
