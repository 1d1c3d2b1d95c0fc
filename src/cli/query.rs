//! Flags of `holdup query`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{ForceArgs, parse_bytes};

/// `holdup query`. A build without SQL reads them, too, to say that it has none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    /// Recordings, of which each table then has a column `recording` if they are several [default: the newest], and the
    /// query last; `-` reads it from standard input
    #[arg(value_name = "RECORDING... SQL")]
    pub words: Vec<OsString>,
    /// Read the query from this file
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Ask the runs that `holdup pack --dataset` put there; each table has the columns host, date and run (docs/fleet.md)
    #[arg(long, value_name = "DIR|s3://...", conflicts_with = "schema")]
    pub dataset: Option<PathBuf>,
    /// List the tables; of one, its columns with units and meaning; `functions`: the functions
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
    /// Rows of a table on the terminal at the most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub rows: usize,
    /// Memory for sorting, grouping and joining; what exceeds it goes to the disk where that is possible
    #[arg(long, value_name = "BYTES", default_value = "2G", value_parser = parse_bytes)]
    pub memory: u64,
}

const EXAMPLES: &str = "\
examples:
  holdup query \"SELECT class, sum(time_ns) AS time_ns FROM ledger GROUP BY class ORDER BY 2 DESC\"
  holdup query a.holdup b.holdup \"SELECT recording, name, wait_ns FROM locks\"
  holdup query --schema waits
docs/sql.md has twenty more, with their answers.";
