//! Flags of the commands that run a program several times: `diff`, `scale`, `sweep`, `try`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ForceArgs, parse_bytes, parse_length, parse_share};

/// Options for making and judging runs, shared by all experiments.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Runs")]
pub struct RunsArgs {
    /// Runs of each setting [default: 10, then as many as the scatter of these asks for]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: Option<u32>,
    /// Runs of each setting that do not count, to begin with
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: u32,
    /// No round of runs begins after this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_length)]
    pub time: std::time::Duration,
    /// A run that takes longer is ended, and does not count
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub timeout: Option<std::time::Duration>,
    /// The smallest change that matters: runs are made until it would be found
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = parse_share)]
    pub matters: f64,
    /// Measure a run by a number in its output (regular expression with one group) or by its calls
    /// (`syscall:NAME`, `function:NAME`, `usdt:PROVIDER:NAME`) [default: run time]
    #[arg(long, value_name = "REGEX")]
    pub progress: Option<String>,
    /// Meaning of that number
    #[arg(long, value_enum, default_value_t = ProgressKind::Work)]
    pub progress_is: ProgressKind,
    /// How much to record of each run
    #[arg(long, value_enum, default_value_t = RecordChoice::Light)]
    pub record: RecordChoice,
    /// Draw a sample of the bytes that each run allocates, one in BYTES, as `holdup run --allocs` does
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512k",
          value_parser = parse_bytes)]
    pub allocs: Option<u64>,
    /// Seed of the random order of the runs [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// A run counts whatever its exit status
    #[arg(long)]
    pub ignore_failure: bool,
    /// Where the runs are kept [default: a new set in $XDG_STATE_HOME/holdup]
    #[arg(short, long, value_name = "NAME.holdup-set")]
    pub output: Option<PathBuf>,
    /// Go on with a set that was interrupted, or add runs to it
    #[arg(long, value_name = "NAME.holdup-set", conflicts_with = "output")]
    pub resume: Option<PathBuf>,
}

/// How results are shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    /// Everything as JSON (docs/json.md; of experiments docs/json-experiments.md)
    #[arg(long)]
    pub json: bool,
    /// For experiments: print Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// For experiments: write each run as a row, as Parquet if FILE ends in .parquet, otherwise as
    /// comma-separated values
    #[arg(long, value_name = "FILE", visible_alias = "csv")]
    pub table: Option<PathBuf>,
    /// For experiments: write the result and its chart as one HTML file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Of these files
    #[command(flatten)]
    pub force: ForceArgs,
}

/// See [`RunsArgs::progress_is`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressKind {
    /// Work done: a run is judged by work per second
    Work,
    /// Already per second, or otherwise better if greater
    Rate,
    /// A time, or otherwise better if smaller
    Cost,
}

/// See [`RunsArgs::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordChoice {
    /// States, few samples and stacks
    Light,
    /// As `holdup run` does
    Full,
    /// Nothing: only its length
    None,
}

/// `holdup diff`
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The recording or set that is the baseline, and the one to compare with it
    #[arg(value_name = "A B", num_args = 0..=2)]
    pub recordings: Vec<PathBuf>,
    /// The baseline's command, split into words like a shell does. A shell runs it if it contains pipes or
    /// other shell syntax
    #[arg(long, value_name = "CMD", requires = "b", conflicts_with_all = ["recordings", "resume"])]
    pub a: Option<String>,
    /// The command to compare with it
    #[arg(long, value_name = "CMD", requires = "a")]
    pub b: Option<String>,
    /// Exit with status 1 if this condition holds: slower>3%, faster>10%, different. Needs several runs of
    /// each command
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Option<String>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rows: usize,
    /// Also print rows for which the runs do not show whether they changed
    #[arg(long)]
    pub all: bool,
    /// How runs are made
    #[command(flatten)]
    pub runs: RunsArgs,
    /// How results are shown
    #[command(flatten)]
    pub results: ResultArgs,
}

/// `holdup scale`
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// How many workers [default: 1 to the number of CPUs]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub workers: Vec<u32>,
    /// The number of workers is this variable of the environment, not `{}` in the command
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,
    /// The number of workers is the number of CPUs that the program may use
    #[arg(long, conflicts_with = "env")]
    pub by_cpus: bool,
    /// Number of workers to predict the result for
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub at: u32,
    /// Write the speed-up as a picture: SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The same as PNG
    #[arg(long, value_name = "FILE")]
    pub png: Option<PathBuf>,
    /// How runs are made
    #[command(flatten)]
    pub runs: RunsArgs,
    /// How results are shown
    #[command(flatten)]
    pub results: ResultArgs,
    /// The program and its arguments, in which `{}` is replaced by the number of workers
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `holdup sweep`
#[derive(Debug, Args)]
#[command(after_help = crate::experiment::knobs::help())]
pub struct SweepArgs {
    /// A knob and its values, the baseline first: an environment variable, `{NAME}` in the command, or a knob
    /// listed below. Separate values that contain commas by semicolons
    #[arg(long, value_name = "NAME=V1,V2,...")]
    pub set: Vec<String>,
    /// How much of its speed is luck of the memory layout
    #[arg(long, conflicts_with_all = ["set", "size"])]
    pub layout: bool,
    /// How time grows with the input: `{NAME}` in the command (1k is 1,000)
    #[arg(long, value_name = "NAME=N1,N2,...", conflicts_with = "set")]
    pub size: Option<String>,
    /// How runs are made
    #[command(flatten)]
    pub runs: RunsArgs,
    /// How results are shown
    #[command(flatten)]
    pub results: ResultArgs,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `holdup try`
#[derive(Debug, Args)]
pub struct TryArgs {
    /// The recording whose findings' advice is tried [default: the newest]
    pub recording: Option<PathBuf>,
    /// How runs are made
    #[command(flatten)]
    pub runs: RunsArgs,
    /// How results are shown
    #[command(flatten)]
    pub results: ResultArgs,
}
