//! What can go wrong with a recording on disk.

use std::io;
use std::path::{Path, PathBuf};

/// An error of writing or reading a recording; its text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no recording there.
    #[error("{}: no recording is there ({reason})", path.display())]
    None {
        /// Where.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// Something else is there.
    #[error("{}: not a recording, and in the way; choose another name", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
    },
    /// A newer holdup wrote it.
    #[error("{}: written by holdup {holdup} in format {found}; this holdup reads up to format {known}: use the newer one", path.display())]
    Newer {
        /// Where.
        path: PathBuf,
        /// Version of the writer.
        holdup: String,
        /// Its format.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The manifest makes no sense.
    #[error("{}: the manifest is damaged ({reason})", path.display())]
    Manifest {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Still being written.
    #[error("{}: is being recorded right now; wait until that ends", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// A table cannot be written.
    #[error("{}: {source}", path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}

impl RecordingError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> RecordingError + use<> {
        let path = path.to_owned();
        move |source| RecordingError::Io { path, source }
    }

    pub(crate) fn table(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> RecordingError + use<> {
        let path = path.to_owned();
        move |source| RecordingError::Table { path: path.clone(), source }
    }
}
