//! The flags of `holdup watch`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::{MeanwhileArgs, RecordArgs, parse_bytes, parse_duration, parse_length};
use crate::watch::triggers;

/// Lists the kinds of triggers, from their registry.
fn triggers_help() -> String {
    let rows: Vec<String> = triggers::KINDS.iter().map(|kind| format!("  {}", kind.help)).collect();
    format!("Triggers (docs/watch.md):\n{}", rows.join("\n"))
}

/// `holdup watch`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true).args(["pid", "all", "command"]))]
#[command(after_help = triggers_help())]
pub struct WatchArgs {
    /// The process with its threads, the processes that it has started and will start, and theirs
    #[arg(value_name = "PID", value_parser = super::parse::pid_or_program)]
    pub pid: Option<u32>,
    /// Every process of the machine
    #[arg(long)]
    pub all: bool,
    /// When to save. May be repeated, see below
    #[arg(short, long, required = true, value_name = "TRIGGER")]
    pub trigger: Vec<String>,
    /// Only threads of these processes fire triggers [default: threads of all recorded processes]
    #[arg(long, value_name = "PID|NAME")]
    pub trigger_process: Vec<String>,
    /// How much time before the moment is saved
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_length)]
    pub keep: Duration,
    /// How much time after it
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_duration)]
    pub after: Duration,
    /// Memory for the kept events. If it is too small, a shorter time is kept
    #[arg(long, default_value = "128M", value_name = "BYTES", value_parser = parse_bytes)]
    pub keep_bytes: u64,
    /// Save at most this many recordings, then stop. With `signal:`, continue and save on signals only
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_saves: u32,
    /// Time after a recording in which no trigger except `signal:` saves. It doubles each time for the same
    /// cause
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_duration)]
    pub cooldown: Duration,
    /// Disk space for all recordings together. With `-o NAME.holdup`, existing recordings count, too
    #[arg(long, default_value = "4G", value_name = "BYTES", value_parser = parse_bytes)]
    pub quota: u64,
    /// Metrics and runtime events
    #[command(flatten)]
    pub meanwhile: MeanwhileArgs,
    /// Recording options. With `-o NAME.holdup`, recordings are NAME-1.holdup, NAME-2.holdup, ...
    #[command(flatten)]
    pub record: RecordArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
