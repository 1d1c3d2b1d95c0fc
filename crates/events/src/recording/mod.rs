//! The recording on disk: `NAME.holdup/` with a manifest and one Parquet file a table, and the
//! append-only journal of events that it is made from. See `docs/format.md`.

mod manifest;

pub use manifest::{Cost, Host, Manifest, Rung, SourceState};
