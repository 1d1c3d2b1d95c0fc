//! The flags of `holdup top`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::{MeanwhileArgs, RecordArgs, parse_bytes, parse_duration, parse_length};

/// Keys, for the help.
const KEYS: &str =
    "Keys: q ends, w saves the last seconds as a recording, f freezes, s sorts by the next column, / filters,
arrows select a thread, Enter shows all of it, ? lists the keys (docs/top.md).";

/// `holdup top`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").args(["pid", "all", "command"]))]
#[command(after_help = KEYS)]
pub struct TopArgs {
    /// The process with its threads, the processes that it has started and will start, and theirs
    #[arg(value_name = "PID", value_parser = super::parse::pid_or_program)]
    pub pid: Option<u32>,
    /// Record every process of the machine. This is the default without PID and CMD
    #[arg(long)]
    pub all: bool,
    /// Print plain lines, one block per interval, instead of a screen. With --json, print one object per line
    /// (docs/json.md)
    #[arg(short, long)]
    pub batch: bool,
    /// Length of an interval, from 100ms to 60s
    #[arg(short = 'd', long, default_value = "1s", value_name = "TIME", value_parser = parse_interval)]
    pub interval: Duration,
    /// End after this number of intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// How much time the key w saves
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_length)]
    pub keep: Duration,
    /// Memory for the kept events. If it is too small, a shorter time is kept
    #[arg(long, default_value = "64M", value_name = "BYTES", value_parser = parse_bytes)]
    pub keep_bytes: u64,
    /// Metrics and runtime events
    #[command(flatten)]
    pub meanwhile: MeanwhileArgs,
    /// Recording options. With `-o NAME.holdup`, saved recordings are NAME-1.holdup, NAME-2.holdup, ...
    #[command(flatten)]
    pub record: RecordArgs,
    /// The program and its arguments. With a screen, its output is shown at the end
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(60);
    if allowed.contains(&length) { Ok(length) } else { Err("an interval is from 100ms to 60s".to_owned()) }
}
