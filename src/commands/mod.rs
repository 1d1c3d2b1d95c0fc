//! The commands, one file each.

mod annotate;
mod attach;
mod catalogue;
#[cfg(feature = "sql")]
mod dataset;
mod demo;
pub mod descriptors;
mod diff;
mod doctor;
mod experiment;
mod explain;
mod export;
mod import;
mod kept_answers;
mod locate;
mod man;
pub mod outputs;
mod pack;
#[cfg(feature = "sql")]
mod query;
mod report;
mod run;
mod scale;
pub mod socket;
mod stacks;
mod sweep;
mod top;
mod view;
mod watch;
mod welcome;
mod whatif;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use holdup_capture::{launch, privileges};
use holdup_report::Style;

use crate::cli::Command;

/// Executes one command.
pub use welcome::execute as welcome;

/// Executes one command.
pub fn execute(command: Command) -> Result<ExitCode> {
    limit_rights(&command)?;
    match command {
        Command::Run(args) => run::execute(args),
        Command::Attach(args) => attach::execute(&args),
        Command::Watch(args) => watch::execute(args),
        Command::Top(args) => top::execute(args),
        Command::Report(args) => report::execute(&args),
        Command::View(args) => view::execute(&args),
        Command::Export(args) => export::execute(&args),
        Command::Import(args) => import::execute(&args),
        Command::List(args) => catalogue::list(&args),
        Command::Pack(args) => pack::execute(&args),
        #[cfg(feature = "sql")]
        Command::Query(args) => query::execute(&args),
        #[cfg(not(feature = "sql"))]
        Command::Query(_) => bail!(
            "this build has no SQL (it was made with --no-default-features); a recording's Parquet files can be asked by others: \
             docs/format.md"
        ),
        Command::Whatif(args) => whatif::execute(&args),
        Command::Diff(args) => diff::execute(&args),
        Command::Scale(args) => scale::execute(&args),
        Command::Sweep(args) => sweep::execute(&args),
        Command::Try(args) => sweep::execute_try(&args),
        Command::Explain(args) => explain::execute(&args),
        Command::Demo(args) => demo::execute(&args),
        Command::Doctor(args) => doctor::execute(&args),
        Command::Completions(args) => catalogue::completions(args.shell),
        Command::Man => man::print(),
    }
}

/// Rights that `setcap` lends to the program are for recording alone, and never open a file that the user names.
fn limit_rights(command: &Command) -> Result<()> {
    match command {
        Command::Run(_) | Command::Attach(_) | Command::Watch(_) | Command::Top(_) => {
            privileges::open_own_files()?
        }
        // It reports which recordings are possible with the file's capabilities.
        Command::Doctor(_) => {}
        // These commands start holdup again to record. The new process gets the file's capabilities again.
        _ => privileges::give_back()?,
    }
    Ok(())
}

/// Whether the reader of our output went away: no error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Standard output, to write an answer to.
///
/// # Errors
/// It was closed when holdup began.
pub fn stdout() -> Result<std::io::Stdout> {
    if launch::was_closed(libc::STDOUT_FILENO) {
        bail!("standard output is closed: the answer has no place");
    }
    Ok(std::io::stdout())
}

/// Prints to standard output.
pub fn print(text: &str) -> Result<ExitCode> {
    stdout()?.lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &serde_json::Value) -> Result<ExitCode> {
    print(&format!("{value:#}\n"))
}

/// How to print on a stream: colour and width of a terminal, plain text elsewhere.
fn style(stream: &impl StreamKind) -> Style {
    let terminal = stream.is_a_terminal();
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_none_or(|value| value.to_ascii_lowercase().replace('-', "").contains("utf8"));
    Style {
        colour: terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        width: if terminal { stream.columns() } else { None }.or_else(columns_asked).unwrap_or(COLUMNS),
        whole: !terminal,
        unicode: utf8,
        full: false,
    }
}

/// Default width if neither the terminal nor the user gives one.
const COLUMNS: usize = 80;

/// Value of the environment variable `COLUMNS`.
fn columns_asked() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// Standard output or standard error.
trait StreamKind {
    fn is_a_terminal(&self) -> bool;
    /// Width of the terminal, if known.
    fn columns(&self) -> Option<usize>;
}

impl<T: IsTerminal + std::os::fd::AsRawFd> StreamKind for T {
    fn is_a_terminal(&self) -> bool {
        self.is_terminal()
    }

    fn columns(&self) -> Option<usize> {
        // SAFETY: the kernel writes one struct of plain numbers, or fails and leaves zeros.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            libc::ioctl(self.as_raw_fd(), libc::TIOCGWINSZ, &mut size);
            size
        };
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }
}
