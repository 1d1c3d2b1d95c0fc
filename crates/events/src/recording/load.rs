//! Reading a recording: a directory, or one packed file. What cannot be read becomes a [`Loss`].

mod calls;
mod long;
mod packed;
mod small;
mod sound;
mod spans;
mod starts;
mod task_waits;

use std::fs;
use std::path::Path;

use super::journal::JOURNAL;
use super::save::MANIFEST;
use super::{Manifest, RecordingError};
use crate::{CpuId, Loss, Timestamp, Trace};

pub use packed::{pack, pack_aside, unpack};
pub use starts::{SliceStart, SliceStarts};

/// Where the files of a recording are.
enum Place<'a> {
    Directory(&'a Path),
    Packed(packed::Packed),
}

/// Reads the recording at `path`.
pub fn open(path: &Path) -> Result<Trace, RecordingError> {
    check_permission(path)?;
    let place = if path.is_dir() {
        Place::Directory(path)
    } else if path.is_file() {
        Place::Packed(packed::Packed::open(path)?)
    } else {
        return Err(RecordingError::None { path: path.to_owned(), reason: "nothing has that name" });
    };
    let manifest = manifest_of(path, &place)?;
    let (start, end) = (Timestamp(manifest.start_ns), Timestamp(manifest.end_ns));
    let mut unreadable = Vec::new();
    let mut trace = Trace { manifest, ..Trace::default() };
    small::read(&place, &mut trace, &mut unreadable);
    long::read(&place, &mut trace, &mut unreadable);
    spans::read(&place, &mut trace, &mut unreadable);
    trace.losses.extend(unreadable.into_iter().map(|table| Loss {
        source: table.to_owned(),
        reason: "unreadable".to_owned(),
        cpu: CpuId::NONE,
        start,
        end,
        events: 0,
    }));
    sound::make_sound(&mut trace);
    Ok(trace)
}

/// Recordings are their owner's alone: one that was made with sudo is there, though nothing in it can be seen.
fn check_permission(path: &Path) -> Result<(), RecordingError> {
    let seen = if path.is_dir() { fs::read_dir(path).map(drop) } else { fs::metadata(path).map(drop) };
    match seen {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(RecordingError::Forbidden { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Reads the manifest alone.
pub fn manifest(path: &Path) -> Result<Manifest, RecordingError> {
    check_permission(path)?;
    let place = match path.is_dir() {
        true => Place::Directory(path),
        false => Place::Packed(packed::Packed::open_only(path, MANIFEST)?),
    };
    manifest_of(path, &place)
}

/// `dir` holds the journal of a recorder that did not end in order, and no finished recording.
pub fn has_only_journal(dir: &Path) -> bool {
    dir.join(JOURNAL).is_file() && !dir.join(MANIFEST).is_file()
}

fn manifest_of(path: &Path, place: &Place<'_>) -> Result<Manifest, RecordingError> {
    let none = RecordingError::None { path: path.to_owned(), reason: "it has no manifest" };
    let text = match place {
        Place::Directory(dir) if !dir.join(MANIFEST).exists() => return Err(none),
        Place::Directory(dir) => {
            fs::read(dir.join(MANIFEST)).map_err(RecordingError::io(&dir.join(MANIFEST)))?
        }
        Place::Packed(packed) => packed.file(MANIFEST).ok_or(none)?.to_vec(),
    };
    Manifest::parse(&text, path)
}

/// Runs a reader of foreign bytes. The Parquet library may panic on hostile ones: that is an error too.
fn contained<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).ok().and_then(Result::ok)
}

impl Place<'_> {
    /// The table is there, whatever it holds.
    fn has(&self, name: &str) -> bool {
        let file = format!("{name}.parquet");
        match self {
            Place::Directory(dir) => dir.join(file).exists(),
            Place::Packed(packed) => packed.file(&file).is_some(),
        }
    }

    fn table(&self, name: &str) -> parquet::errors::Result<super::parquet::TableReader> {
        let file = format!("{name}.parquet");
        match self {
            Place::Directory(dir) => super::parquet::TableReader::open(fs::File::open(dir.join(file))?),
            Place::Packed(packed) => match packed.file(&file) {
                Some(bytes) => super::parquet::TableReader::open(bytes),
                None => Err(parquet::errors::ParquetError::General(format!("no {file}"))),
            },
        }
    }
}
