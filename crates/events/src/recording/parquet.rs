//! Tables as Parquet files, column by column, without Arrow.

mod reader;
mod schema;
mod writer;

pub use reader::{ColumnBatches, TableReader};
pub use schema::{Kind, Schema, TABLES, schema};
pub use writer::{TableWriter, Values};
