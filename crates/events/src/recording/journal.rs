//! The journal: what a running recorder appends to, so that nothing written is lost by its death.
//!
//! A file of chunks, each on its own: 32 bytes of header (magic, kind, three lengths, CRC-32 of header and
//! payload; of the first also how many events found no room) and a zstd frame of encoded events. The first chunk is the manifest as far as it is
//! known, and there is one more as soon as it is known when the recording begins. A reader takes every whole chunk and says
//! what is missing between them.

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

/// Whether what has the journal's name in `dir` is one, or was only begun. Others call files so, too.
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
