//! The journal: a running recorder appends to it, so that a crash loses nothing that is written.
//!
//! The file is a sequence of self-contained chunks. A chunk has a header of 32 bytes (magic, kind, three
//! lengths, CRC-32 of header and payload) and a zstd frame of encoded events. The first header also holds the
//! number of events that could not be written. The first chunk is the manifest as known at that time. Another
//! manifest follows as soon as the start of the recording is known. A reader returns every whole chunk, and
//! reports the gaps between them.

mod chunk;
mod pack;
mod read;
mod write;

pub(super) use pack::{Batch, Content};
pub use read::JournalReader;
pub use write::{HeldJournal, JournalWriter};

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Name of the journal in a recording's directory.
pub const JOURNAL: &str = "journal";

/// Whether a recorder is writing the journal in `dir` right now.
pub fn is_being_written(dir: &Path) -> bool {
    let Ok(file) = File::open(dir.join(JOURNAL)) else { return false };
    matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

/// Whether the file with the journal's name in `dir` is a journal, or the start of one. Other programs use
/// that name too.
pub(super) fn is_one(dir: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(dir.join(JOURNAL))
        .and_then(|file| file.take(chunk::MAGIC.len() as u64).read_to_end(&mut begin));
    read.is_ok() && (begin.is_empty() || begin == chunk::MAGIC)
}

/// How many events the recorder of the journal in `dir` could not write, for want of room.
pub fn dropped(dir: &Path) -> u64 {
    let mut header = [0; chunk::HEADER];
    let read = File::open(dir.join(JOURNAL)).and_then(|mut file| file.read_exact(&mut header));
    read.map_or(0, |()| chunk::dropped_events(&header))
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
