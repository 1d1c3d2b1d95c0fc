//! What can go wrong with a recording on disk.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// An error of writing or reading a recording. The text states the fix.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A file cannot be written or read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Cause. It is not the error's source, because printing the error chain would repeat it.
        error: io::Error,
    },
    /// There is no recording there.
    #[error("{}: no recording is there ({reason})", path.display())]
    None {
        /// Where.
        path: PathBuf,
        /// The missing part.
        reason: &'static str,
    },
    /// The file belongs to another user.
    #[error("{0}: is there, but you may not read it: `sudo chown -R $USER {0}` makes one of root's yours", path.display())]
    Forbidden {
        /// Where.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{}: exists and is not a recording: choose another name", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
    },
    /// A newer holdup wrote it.
    #[error("{}: written by holdup {holdup} in format {found}, this holdup reads up to format {known}: use the newer one", path.display())]
    Newer {
        /// Where.
        path: PathBuf,
        /// Version of the writer.
        holdup: String,
        /// Format version of the recording.
        found: u64,
        /// Ours.
        known: u32,
    },
    /// The manifest makes no sense.
    #[error("{}: the manifest is damaged ({reason})", path.display())]
    Manifest {
        /// Where.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
    },
    /// Still being written.
    #[error("{}: is being recorded right now: wait until it is finished", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// A table cannot be written.
    #[error("{}: {error}", path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: ParquetError,
    },
}

impl RecordingError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> RecordingError + use<> {
        let path = path.to_owned();
        move |error| RecordingError::Io { path, error }
    }

    pub(crate) fn table(path: &Path) -> impl Fn(ParquetError) -> RecordingError + use<> {
        let path = path.to_owned();
        move |error| {
            let path = path.clone();
            // A full disk is reported as such by every caller.
            match error {
                ParquetError::External(error) => match error.downcast::<io::Error>() {
                    Ok(error) => RecordingError::Io { path, error: *error },
                    Err(error) => RecordingError::Table { path, error: ParquetError::External(error) },
                },
                error => RecordingError::Table { path, error },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn a_cause_is_printed_once_in_an_error_chain() {
        let full = || io::Error::from_raw_os_error(28);
        let path = Path::new("t.parquet");
        for error in [RecordingError::io(path)(full()), RecordingError::table(path)(full().into())] {
            assert_eq!(error.to_string(), "t.parquet: No space left on device (os error 28)");
            assert!(error.source().is_none());
        }
    }
}
