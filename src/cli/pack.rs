//! Flags of `holdup pack`.

use std::path::PathBuf;

use clap::Args;

use super::ForceArgs;

/// `holdup pack`
#[derive(Debug, Args)]
pub struct PackArgs {
    /// The recording [default: the newest]
    #[cfg_attr(
        feature = "sql",
        arg(help = "The recording [default: the newest], or with --dataset any number of them")
    )]
    pub recordings: Vec<PathBuf>,
    /// Where to [default: NAME.holdup.pack in this directory]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Of that file
    #[command(flatten)]
    pub force: ForceArgs,
    /// As tables of many machines
    #[cfg(feature = "sql")]
    #[command(flatten)]
    pub dataset: DatasetArgs,
}

/// Where a fleet's recordings are put together.
#[cfg(feature = "sql")]
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Fleet")]
pub struct DatasetArgs {
    /// Add the views of recordings to this directory or s3://BUCKET/PREFIX, as `host=/date=/run=` partitions of Parquet
    /// (docs/fleet.md)
    #[arg(long, value_name = "DIR|s3://...", conflicts_with = "output")]
    pub dataset: Option<PathBuf>,
    /// Label of these runs in the table `labels`, such as release=B
    #[arg(long, value_name = "NAME=VALUE", requires = "dataset", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only these views [default: all of `holdup query --schema`]
    #[arg(long, value_name = "VIEW,...", value_delimiter = ',', requires = "dataset")]
    pub views: Vec<String>,
}

#[cfg(feature = "sql")]
fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("wanted is NAME=VALUE".to_owned()),
    }
}
