//! Flags of `holdup demo`.

use std::path::PathBuf;

use clap::Args;

/// `holdup demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Record the fixed form of the program, in which threads share no lock
    #[arg(long)]
    pub fixed: bool,
    /// Do the work that the demo records
    #[arg(long, hide = true, conflicts_with = "output")]
    pub work: bool,
    /// Path of the recording, replaced if it exists [default: a new one in $XDG_STATE_HOME/holdup]
    #[arg(short, long, value_name = "NAME.holdup")]
    pub output: Option<PathBuf>,
}
