//! The recording on disk: `NAME.holdup/` with a manifest and one Parquet file a table, and the
//! append-only journal of events that it is made from. See `docs/format.md`.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod codec;
mod error;
pub mod journal;
mod load;
mod manifest;
mod parquet;
pub mod ring;
mod save;
pub mod store;

pub use codec::{CodecError, Decoder, Encoder};
pub use error::RecordingError;
pub use journal::{HeldJournal, JournalReader, JournalWriter};
pub use load::{SliceStart, SliceStarts, has_only_journal, manifest, open, pack, pack_aside, unpack};
pub use manifest::{Backend, Cost, CpuPlace, FORMAT_VERSION, Fired, Host, Manifest, MemoryUse, SourceState};
pub use parquet::{Kind, Schema, TABLES};
pub use save::{RecordingWriter, SmallTables};
