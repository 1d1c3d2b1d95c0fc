//! SQL over recordings: views in the field's terms, functions for intervals, on DataFusion.
//!
//! The engine is DataFusion's; this crate says what its tables are. What is derived (classes, holders, findings) is
//! [`holdup_findings::analyse`]'s, made once when a query first asks; raw tables are read as they lie on disk.

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
