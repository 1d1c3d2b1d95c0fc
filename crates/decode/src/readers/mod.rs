//! Importers of other tools' recordings. A new format is one new file and one entry in the list below.
//!
//! An importer takes the bytes of a file and emits events. Importers read untrusted bytes: they never panic,
//! and need no more memory than a small multiple of the file.

use std::borrow::Cow;
use std::io::Read;

use holdup_events::Event;
use thiserror::Error;

pub use crate::imported::{Facts, Kernel, Names};

/// Public description of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Kebab-case id, for ever.
    pub name: &'static str,
    /// One line, at most 80 characters, no full stop.
    pub summary: &'static str,
}

/// Why a file cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// No reader knows it.
    #[error("not a format that holdup reads: it reads {formats}")]
    Unrecognised {
        /// The names of those it reads.
        formats: String,
    },
    /// The file ends before the announced end.
    #[error("the file is cut: {what} should end at byte {end}, but there are only {length}")]
    Cut {
        /// Which part.
        what: &'static str,
        /// Where that should end.
        end: u64,
        /// Bytes of the file.
        length: u64,
    },
    /// The file is inconsistent.
    #[error("the file is broken at byte {offset}: {what}")]
    Broken {
        /// Description of the damage.
        what: &'static str,
        /// Where.
        offset: u64,
    },
    /// A variant of the format that is not read.
    #[error("{what}; {remedy}")]
    Unsupported {
        /// Which.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The file has no data about time.
    #[error("the file has neither samples nor context switches")]
    Empty,
}

/// Part of a file to import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this process and its descendants are the program: a pid or a name. All, if empty.
    pub process: String,
}

/// A format that recordings are read from.
pub trait Reader: Sync {
    /// About the format.
    fn info(&self) -> Info;

    /// Whether this is a file of this format, by its content.
    fn recognises(&self, bytes: &[u8]) -> bool;

    /// Emits the file as events, in time order.
    ///
    /// # Errors
    /// The file is damaged, or of an unsupported variant. Some events may have been emitted before.
    fn read(&self, bytes: &[u8], wanted: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError>;
}

macro_rules! readers {
    ($($module:ident,)*) => {
        $(mod $module;)*

        static ALL: &[&dyn Reader] = &[$(&$module::Format,)*];
    };
}

// The first that recognises a file reads it.
readers! {
    perf_data,
    ocaml_events,
    chrome_trace,
    memtrace,
    jfr,
    ghc_eventlog,
    go_trace,
    hotspot_log,
    v8_gc,
    beam_msacc,
    pprof,
    thread_sanitizer,
    go_race,
    valgrind_races,
    perf_script,
    folded,
}

/// Every format, in the order of the registry.
pub fn all() -> &'static [&'static dyn Reader] {
    ALL
}

/// The bytes of a file, unpacked if packed by gzip. If a packed file is truncated, returns the part before
/// the damage.
///
/// # Errors
/// The file unpacks to more than `length_max` bytes (protection against a gzip bomb).
pub fn unpack(bytes: &[u8], length_max: u64) -> Result<Cow<'_, [u8]>, ReadError> {
    if !bytes.starts_with(&[0x1f, 0x8b, 8]) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::MultiGzDecoder::new(bytes).take(length_max.saturating_add(1));
    // The part before the damage is kept, as for a file without compression.
    let _ = reader.read_to_end(&mut unpacked);
    if unpacked.len() as u64 > length_max {
        return Err(ReadError::Unsupported {
            what: format!("unpacked it has more than the {length_max} bytes that can be imported"),
            remedy: "import a part of it",
        });
    }
    Ok(Cow::Owned(unpacked))
}

/// The reader of these bytes.
///
/// # Errors
/// No reader knows them.
pub fn detect(bytes: &[u8]) -> Result<&'static dyn Reader, ReadError> {
    ALL.iter().copied().find(|reader| reader.recognises(bytes)).ok_or_else(|| ReadError::Unrecognised {
        formats: ALL.iter().map(|reader| reader.info().name).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
