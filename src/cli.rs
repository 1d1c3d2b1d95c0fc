//! The command line: flags and their help. Completions and the man page come from here too.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod demo;
pub mod experiment;
mod live_flags;
pub mod pack;
mod parse;
pub mod query;
pub mod top;
pub mod watch;

pub use demo::DemoArgs;
pub use experiment::{DiffArgs, ScaleArgs, SweepArgs, TryArgs};
pub use live_flags::MeanwhileArgs;
pub use pack::PackArgs;
pub use parse::parse;
pub use top::TopArgs;
pub use watch::WatchArgs;

/// Reports why a program with many threads is slow or does not scale.
#[derive(Debug, Parser)]
#[command(name = "holdup", version, about, long_about = None, after_help = after_help())]
#[command(override_usage = "holdup [OPTIONS] -- CMD ARGS...\n       holdup <COMMAND>")]
#[command(disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    /// The subcommand. `run` if the command line is `holdup [OPTIONS] -- CMD`.
    #[command(subcommand)]
    pub command: Command,
}

/// Printed by `holdup` without arguments, and at the end of every help text.
pub const EXAMPLES: &str = "Examples:
  holdup -- ./server --threads 8       run a program, record it, print what holds it up
  holdup attach 4711 --for 10s         the same for a running process, for ten seconds
  holdup report locks threads          more tables of the newest recording";

/// With what holdup ends, where it is not the program's status.
pub const STATUS: &str = "Exit status:
  that of CMD, also if it was ended by a signal, if `run`, `watch` or `top` started it. Otherwise:
  0  done
  1  `diff --fail-if`: the condition holds
  2  holdup failed (reported on standard error), no run succeeded, or `diff` has nothing to compare";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{STATUS}")
}

#[cfg(feature = "sql")]
const PACK_ABOUT: &str =
    "Pack a recording into one file to send or keep, or collect recordings of many machines";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program, record it, print the verdict
    Run(RunArgs),
    /// Record a process that already runs, or the whole machine
    Attach(AttachArgs),
    /// Keep the last seconds of everything in memory, and save them when something happens
    Watch(WatchArgs),
    /// See what threads and CPUs do now: classes of time, waits and locks, in the terminal or as lines
    Top(TopArgs),
    /// Print the verdict of a recording, or chosen tables of it
    Report(ReportArgs),
    /// View a recording in the browser, or write it as one page
    View(ViewArgs),
    /// Write a recording in another tool's format
    Export(ExportArgs),
    /// Make a recording of another tool's (perf.data, perf script, folded stacks), print the verdict
    Import(ImportArgs),
    /// List the recordings that are kept
    List(ListArgs),
    /// Make one file of a recording, to send or to keep
    #[cfg_attr(feature = "sql", command(about = PACK_ABOUT))]
    Pack(PackArgs),
    /// Query a recording with SQL: threads, waits, wakers, findings
    // A build without SQL parses the command to print an error, and does not list it.
    #[cfg_attr(not(feature = "sql"), command(hide = true))]
    Query(query::QueryArgs),
    /// Predict how long a recorded run would take after a change
    Whatif(WhatifArgs),
    /// Compare two commands, run in turn, or two recordings: what changed, and whether it is real
    Diff(DiffArgs),
    /// Run a program with 1..N workers: speed-up, the fitted law, and which cause grows
    Scale(ScaleArgs),
    /// Try values of knobs, memory layouts, or sizes: which is best, and is it real
    Sweep(SweepArgs),
    /// Try what a recording's findings advise, as far as that needs no change of code
    Try(TryArgs),
    /// Explain a finding: its meaning, its criteria and its limits
    Explain(ExplainArgs),
    /// Record a built-in program with a contended lock, and print its verdict
    Demo(DemoArgs),
    /// Check which features work on this machine, and how to enable the others
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the man page
    Man,
}

/// Recording options of `run` and `attach`.
#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// Path of the recording, replaced if it exists [default: a new one in $XDG_STATE_HOME/holdup]
    #[arg(short, long, value_name = "NAME.holdup")]
    pub output: Option<PathBuf>,
    /// Write the report to a file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Whether the file of --report may be replaced
    #[command(flatten)]
    pub force: ForceArgs,
    /// The report as JSON (docs/json.md): on standard error, or in the file of --report
    #[arg(long)]
    pub json: bool,
    /// Record only, print no report. A report file given with --report is still written
    #[arg(short, long)]
    pub quiet: bool,
    /// On-CPU samples per second and CPU (0: none)
    // The scheduler switches threads at kernel ticks (100, 250, 300 or 1000 per second). A sampling rate near
    // half, once or twice the tick rate aliases: for seconds, samples fall on the same points between two
    // ticks. 223 Hz covers a tick evenly within a quarter of a second, with no gap longer than 3 % of a tick.
    // Twice the rate did not improve the on-CPU profile. On a virtual machine, where interrupts are
    // expensive, it cost a program with dependent threads 1 % of its time.
    #[arg(long, value_name = "HZ", default_value_t = 223, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub freq: u32,
    /// Hardware counters recorded with samples: up to four perf event names, separated by commas. `auto` is
    /// cycles and instructions if the machine has them, `none` records none
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "auto", value_parser = crate::record::hardware::parse)]
    pub counters: Vec<String>,
    /// CPU time that recording may use, in percent of all CPUs. Stacks of waits and wakers are sampled, and
    /// syscalls counted in windows, to stay within it (0: no syscalls)
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = parse_percent)]
    pub budget: f64,
    /// Count every syscall, with its errors, times and sizes, by thread and file, pipe or socket: exact, and it makes
    /// each call slower (docs/syscalls.md)
    #[arg(long)]
    pub syscalls: bool,
    /// Stacks of threads that block, and of those that wake them: every one, a fair sample within the budget, or none
    #[arg(long, value_enum, default_value_t = StackChoice::Sampled)]
    pub stacks: StackChoice,
    /// Backend that records events. `auto` uses the best one that this machine allows, and falls back to the
    /// next one if it cannot be opened
    #[arg(long = "backend", value_name = "BACKEND", value_enum, default_value_t = BackendChoice::Auto)]
    pub backend: BackendChoice,
    /// Kernel buffer in MiB (a power of two)
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = parse_buffer)]
    pub buffer: u32,
    /// Descriptors of runtimes
    #[command(flatten)]
    pub descriptors: DescriptorArgs,
}

/// Whether an existing file is replaced.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ForceArgs {
    /// Replace an existing file. Without this option only an empty file is replaced
    #[arg(long)]
    pub force: bool,
}

/// Descriptors of the user's own.
#[derive(Clone, Debug, Default, Args)]
pub struct DescriptorArgs {
    /// Describe the code, threads and locks of a runtime, in addition to the built-in descriptors
    /// (docs/descriptors.md)
    #[arg(long, value_name = "FILE")]
    pub descriptor: Vec<PathBuf>,
}

/// See [`RecordArgs::stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackChoice {
    /// At every blocking switch
    All,
    /// At as many as cost little, with a known probability
    Sampled,
    /// At none
    None,
}

/// See [`RecordArgs::backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendChoice {
    /// The best that works
    Auto,
    /// BPF programs (root, or CAP_BPF + CAP_PERFMON)
    Bpf,
    /// perf_event_open as an ordinary user
    Perf,
    /// Polling of /proc
    Proc,
}

/// `holdup run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Recording options
    #[command(flatten)]
    pub record: RecordArgs,
    /// Enable the garbage collector's events of OCaml 5 programs, through their environment. `auto` enables
    /// them if the command names an OCaml 5 program
    #[arg(long, value_enum, default_value_t = RuntimeEvents::Auto)]
    pub runtime_events: RuntimeEvents,
    /// Sample allocations, one sample per BYTES allocated (docs/allocations.md). holdup loads a library into
    /// the program, which must be dynamically linked
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512k",
          value_parser = parse_bytes)]
    pub allocs: Option<u64>,
    /// A condition of the program, not of the recorder: `cpus=0`, `policy=batch`, `nice=5`, `aslr=off`, `thp=off`
    #[arg(long, value_name = "NAME=VALUE", hide = true)]
    pub under: Vec<String>,
    /// Record nothing: only write how long the program took, in nanoseconds
    #[arg(long, value_name = "FILE", hide = true)]
    pub unrecorded: Option<PathBuf>,
    /// Count calls of a function or a probe, for `--counted`
    #[arg(long, value_name = "WHAT", hide = true, requires = "counted")]
    pub count: Option<String>,
    /// Where to write how many there were
    #[arg(long, value_name = "FILE", hide = true, requires = "count")]
    pub counted: Option<PathBuf>,
    /// End, with the program, when the process of this number dies, which started this one
    #[arg(long, value_name = "PID", hide = true)]
    pub end_with: Option<u32>,
    /// A variable of the program's environment, not of the recorder's
    #[arg(long, value_name = "NAME=VALUE", hide = true)]
    pub set_env: Vec<String>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// See [`RunArgs::runtime_events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeEvents {
    /// If the command, or a word of it, is an OCaml 5 program
    Auto,
    /// For every OCaml program that it starts
    Always,
    /// Only where the program's user has switched them on
    Never,
}

/// `holdup attach`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).args(["pid", "all"]))]
pub struct AttachArgs {
    /// The process with its threads, the processes that it has started and will start, and theirs
    #[arg(value_name = "PID", value_parser = parse::pid)]
    pub pid: Option<u32>,
    /// Every process of the machine
    #[arg(long)]
    pub all: bool,
    /// Record only this process, without its existing and future children
    #[arg(long, requires = "pid", conflicts_with = "all")]
    pub only: bool,
    /// Not available for a running process, and rejected with the reason
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub allocs: Option<String>,
    /// How long (10s, 500ms, 2m) [default: until it ends, or Ctrl-C]
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = parse_length)]
    pub length: Option<std::time::Duration>,
    /// Recording options
    #[command(flatten)]
    pub record: RecordArgs,
}

/// Lists the sections of the report, from their registry.
fn sections_help() -> String {
    let row = |(name, summary)| format!("  {name:9} {summary}");
    let mut rows: Vec<String> = holdup_report::terminal::section_summaries().into_iter().map(row).collect();
    rows.push(row(("annotate", "FN: the instructions of one function with their cost. For a pattern (`*`): the function with the most own time")));
    format!("Sections:\n{}", rows.join("\n"))
}

/// `holdup report`
#[derive(Debug, Args)]
#[command(after_help = sections_help())]
pub struct ReportArgs {
    /// The recording [default: the newest], followed by the sections to print (see below), or `annotate FN`
    #[arg(value_name = "RECORDING | SECTION")]
    pub words: Vec<OsString>,
    /// How it is shown
    #[command(flatten)]
    pub results: experiment::ResultArgs,
    /// Number of operations that the program did. The section `allocs` prints bytes and objects per operation
    #[arg(long, value_name = "N")]
    pub operations: Option<std::num::NonZeroU32>,
    /// Print each thread's steps over time in the section `threads`
    #[arg(long)]
    pub over_time: bool,
    /// Print all findings in full. Without it, the first three are
    #[arg(long)]
    pub full: bool,
    /// Selects stacks or allocations. Any of these options selects the section `stacks` unless it belongs to
    /// `allocs`
    #[command(flatten)]
    pub stacks: StackArgs,
}

/// Which stacks, and how they are shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Stacks")]
pub struct StackArgs {
    /// Callers and callees of this function (`*` matches any text)
    #[arg(long, value_name = "FN")]
    pub function: Option<String>,
    /// As a tree from callers to callees
    #[arg(long, conflicts_with = "callers")]
    pub tree: bool,
    /// As a tree from callees up to their callers
    #[arg(long)]
    pub callers: bool,
    /// Waits as a tree: below each wait, the waker and its stack at the wakeup
    #[arg(long, conflicts_with = "callers")]
    pub wakers: bool,
    /// Leave out entries below this share
    #[arg(long, value_name = "PERCENT", value_parser = parse_share)]
    pub min: Option<f64>,
    /// Until this second of the recording
    #[arg(long, visible_alias = "until", value_name = "SECONDS", value_parser = parse_duration)]
    pub to: Option<std::time::Duration>,
    /// Which part of the recording
    #[command(flatten)]
    pub part: PartArgs,
}

/// Which part of a recording's stacks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Stacks")]
pub struct PartArgs {
    /// Only these threads, by name (`*` matches any text) or TID
    #[arg(long, value_name = "NAME|TID")]
    pub thread: Vec<String>,
    /// Only these classes of time: classes of the ledger, on-cpu, off-cpu, all
    #[arg(long, value_name = "CLASS,...")]
    pub class: Option<String>,
    /// From this second of the recording on
    #[arg(long, value_name = "SECONDS", value_parser = parse_duration)]
    pub from: Option<std::time::Duration>,
    /// Fold frames by a rule (`root caml_call_gc`), or by the rules in a file (docs/stacks.md)
    #[arg(long, value_name = "RULE|FILE")]
    pub fold: Vec<String>,
    /// Every frame as it was recorded, without the built-in folding rules
    #[arg(long)]
    pub no_fold: bool,
    /// By symbol: calls that the compiler inlined belong to the function that holds them
    #[arg(long)]
    pub no_inline: bool,
    /// Descriptors of runtimes
    #[command(flatten)]
    pub descriptors: DescriptorArgs,
}

/// `holdup view`
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// The recording [default: the newest]. With `#t=SECONDS` appended, as reports print it, it opens at that
    /// time
    pub recording: Option<PathBuf>,
    /// A second, later recording, which is shown instead. Its flame graphs are compared with the first one
    pub changed: Option<PathBuf>,
    /// Write one self-contained page instead, to open from disk or to send
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Whether the file of --html may be replaced
    #[command(flatten)]
    pub force: ForceArgs,
    /// Largest size of that page, in MiB: detail away from the findings is left out to keep to it
    // Browsers have no longer text than half a gigabyte, and the answers are one, several times as long when unpacked.
    #[arg(long, value_name = "MIB", default_value_t = 8, requires = "html", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub size: u32,
    /// Do not open a browser, only print the address
    #[arg(long)]
    pub no_open: bool,
    /// Listen on this port [default: any that is free]
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub port: u16,
    /// Serve the page from this folder: for work on the page itself
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub page: Option<PathBuf>,
    /// Descriptors of runtimes
    #[command(flatten)]
    pub descriptors: DescriptorArgs,
}

/// `holdup export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The recording [default: the newest]
    pub recording: Option<PathBuf>,
    /// Output format (see `holdup export --to help`)
    #[arg(long, value_name = "FORMAT")]
    pub to: String,
    /// Where to [default: standard output if it is no terminal, else RECORDING.EXTENSION]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Of that file
    #[command(flatten)]
    pub force: ForceArgs,
    /// For `--to flame`: class of time
    #[arg(long, value_enum, default_value_t = FlameChoice::All, value_name = "TIME")]
    pub flame: FlameChoice,
    /// For `--to flame`: show the change since this recording
    #[arg(long, value_name = "OTHER")]
    pub against: Option<PathBuf>,
    /// Until this second of the recording
    #[arg(long, value_name = "SECONDS", value_parser = parse_duration)]
    pub until: Option<std::time::Duration>,
    /// Which part of the recording
    #[command(flatten)]
    pub part: PartArgs,
}

/// See [`ExportArgs::flame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlameChoice {
    /// Running
    OnCpu,
    /// All else, by class
    OffCpu,
    /// Waiting, each stack going on with the threads that ended the wait (waker chains)
    Wakers,
    /// On-CPU and off-CPU time together
    All,
}

/// `holdup import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files of other tools, whose format is detected from their content. Each file becomes one recording
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where the recording goes, of one file [default: a new one in $XDG_STATE_HOME/holdup]
    #[arg(short, long, value_name = "NAME.holdup")]
    pub output: Option<PathBuf>,
    /// Import only this process and its descendants as the program [default: all except kernel threads]
    #[arg(long, value_name = "PID|NAME")]
    pub process: Option<String>,
    /// Print the report as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
    /// Import only, print no report
    #[arg(short, long)]
    pub quiet: bool,
    /// Descriptors of runtimes
    #[command(flatten)]
    pub descriptors: DescriptorArgs,
}

/// `holdup list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `holdup whatif`
#[derive(Debug, Args)]
pub struct WhatifArgs {
    /// The recording [default: the newest]
    pub recording: Option<PathBuf>,
    /// Remove the waits for a lock (lock:NAME), a finding (rule:N), other programs (others), garbage
    /// collection (gc), or a class of the ledger. gc-wait removes only the waits for other threads at a
    /// collection, as separate processes would
    #[arg(long, value_name = "SUBJECT")]
    pub without: Vec<String>,
    /// Speed up a function and its callees by this factor (`*` matches any text)
    #[arg(long, value_name = "FN=TIMESx", value_parser = parse_faster)]
    pub faster: Vec<(String, f64)>,
    /// Number of CPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub cpus: Option<u32>,
    /// With no CPU taken from a running thread
    #[arg(long)]
    pub no_preempt: bool,
    /// As JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// `holdup explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The rule [default: list them]
    pub rule: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `holdup doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// For each BPF program, report whether the running kernel loads it, or why not
    #[arg(long)]
    pub programs: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `holdup completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: clap_complete::Shell,
}

/// `2`, `2%`, `0.5 %`.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a percentage is wanted, such as 2%".to_owned()),
    }
}

/// `65536`, `64k`, `2M`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim().char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text.trim()[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text.trim()[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text.trim()[..at], 1 << 30),
        _ => (text.trim(), 1u64),
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
        Some(bytes) if (1..=1 << 40).contains(&bytes) => Ok(bytes),
        _ => Err("a number of bytes is wanted, such as 512k".to_owned()),
    }
}

/// `fn=2x`, `fn=1.5`.
fn parse_faster(text: &str) -> Result<(String, f64), String> {
    let (function, times) =
        text.rsplit_once('=').ok_or("a function and how many times is wanted: parse=2x")?;
    match times.trim().trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok((function.to_owned(), times)),
        _ => Err(format!("'{times}' is not a factor: write 2x")),
    }
}

/// Parses `10s`, `500ms`, `2m`, `1.5h`. A number without a unit is seconds.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 =
        number.parse().map_err(|_| format!("'{text}' is not a time: write 10s, 500ms or 2m"))?;
    let scale = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("'{other}' is not a unit of time: use ms, s, m or h")),
    };
    std::time::Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())
}

/// [`parse_duration`] where no time at all makes no sense.
pub fn parse_length(text: &str) -> Result<std::time::Duration, String> {
    match parse_duration(text)? {
        std::time::Duration::ZERO => Err("a time above zero is wanted".to_owned()),
        length => Ok(length),
    }
}

/// Size of the kernel buffer in MiB, from 1 to 1024: the kernel takes powers of two only.
fn parse_buffer(text: &str) -> Result<u32, String> {
    let size = text.parse::<u32>().ok().filter(|size| (1..=1024).contains(size));
    let size = size.ok_or_else(|| "a number of MiB from 1 to 1024 is wanted".to_owned())?;
    match size.is_power_of_two() {
        true => Ok(size),
        false => Err(format!("a power of two is wanted, such as {}", size.next_power_of_two())),
    }
}

/// `0.5%` or `0.5` (percent) as a share of 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not a share: write 0.5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("10s"), Ok(std::time::Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Ok(std::time::Duration::from_millis(500)));
        assert_eq!(parse_duration("2"), Ok(std::time::Duration::from_secs(2)));
        assert!(parse_duration("2 weeks").is_err());
        assert!(parse_duration("s").is_err());
        assert!(parse_duration("-1s").is_err());
        assert_eq!(parse_length("10s"), parse_duration("10s"));
        assert!(parse_length("0s").is_err() && parse_length("0").is_err());
    }

    #[test]
    fn buffers_are_powers_of_two() {
        assert_eq!([1, 64, 1024].map(|size| parse_buffer(&size.to_string())), [Ok(1), Ok(64), Ok(1024)]);
        assert!(parse_buffer("63").unwrap_err().contains("such as 64"));
        assert!(parse_buffer("0").is_err() && parse_buffer("2048").is_err() && parse_buffer("x").is_err());
    }
}
