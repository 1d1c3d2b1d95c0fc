//! Flags of `holdup query`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{ForceArgs, parse_bytes};

/// `holdup query`. A build without SQL parses these arguments, too, to report that it has no SQL.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    /// Recordings [default: the newest], then the query (`-`: from standard input). With several recordings,
    /// each table has a column `recording`
    #[arg(value_name = "RECORDING... SQL")]
    pub words: Vec<OsString>,
    /// Read the query from this file
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Query the runs stored by `holdup pack --dataset`. Each table has the columns host, date and run
    /// (docs/fleet.md)
    #[arg(long, value_name = "DIR|s3://...", conflicts_with = "schema")]
    pub dataset: Option<PathBuf>,
    /// List the tables. With TABLE, list its columns with units and meaning, or with `functions` the
    /// functions
    #[arg(long, value_name = "TABLE", num_args = 0..=1, default_missing_value = "", conflicts_with = "file")]
    pub schema: Option<String>,
    /// As CSV
    #[arg(long, group = "form")]
    pub csv: bool,
    /// As JSON (docs/json.md)
    #[arg(long, group = "form")]
    pub json: bool,
    /// Into a Parquet file
    #[arg(long, value_name = "FILE", group = "form")]
    pub parquet: Option<PathBuf>,
    /// Of that file
    #[command(flatten)]
    pub force: ForceArgs,
    /// Maximum number of rows of a table on the terminal
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rows: usize,
    /// Memory for sorting, grouping and joining. Larger data is spilled to disk where possible
    #[arg(long, value_name = "BYTES", default_value = "2G", value_parser = parse_bytes)]
    pub memory: u64,
}

const EXAMPLES: &str = "\
examples:
  holdup query \"SELECT class, sum(time_ns) AS time_ns FROM ledger GROUP BY class ORDER BY 2 DESC\"
  holdup query a.holdup b.holdup \"SELECT recording, name, wait_ns FROM locks\"
  holdup query --schema waits
docs/sql.md has twenty more, with their answers.";
