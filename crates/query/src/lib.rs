//! SQL over recordings: views in the terms of reports, and functions for intervals, on DataFusion.
//!
//! DataFusion executes the queries, and this crate defines the tables. Derived data (classes, holders,
//! findings) comes from [`holdup_findings::analyse`], at the first query that needs it. Raw tables are read
//! from disk.

#[cfg(feature = "s3")]
mod bucket;
mod catalogue;
pub mod dataset;
mod engine;
mod error;
mod facts;
mod fleet;
mod functions;
pub mod listing;
mod nearest;
mod output;
mod raw;
mod run;
mod source;
mod view;
pub mod views;

pub use engine::{Answer, Engine, Options, Subject};
pub use error::QueryError;
pub use facts::Facts;
pub use output::{Cell, Cells, write_csv, write_json, write_parquet};
pub use run::Runner;
pub use view::{ColumnInfo, View};
