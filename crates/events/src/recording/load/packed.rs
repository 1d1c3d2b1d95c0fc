//! One file for a whole recording: magic, then for each file its name's length, its length, its name
//! and its bytes (little-endian u32 and u64). The files are compressed already.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;

use crate::recording::RecordingError;

const MAGIC: &[u8; 8] = b"holdup\x00\x01";

/// The files of a packed recording.
pub struct Packed {
    files: BTreeMap<String, Bytes>,
}

impl Packed {
    /// Reads a packed recording.
    pub fn open(path: &Path) -> Result<Packed, RecordingError> {
        let bytes = Bytes::from(fs::read(path).map_err(RecordingError::io(path))?);
        Packed::parse(&bytes).ok_or(RecordingError::None {
            path: path.to_owned(),
            reason: "it is no packed recording, or damaged",
        })
    }

    fn parse(bytes: &Bytes) -> Option<Packed> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let mut at = MAGIC.len();
        let mut files = BTreeMap::new();
        while at < bytes.len() {
            let name_length = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            let length = u64::from_le_bytes(bytes.get(at + 4..at + 12)?.try_into().ok()?);
            let name_end = at.checked_add(12)?.checked_add(name_length)?;
            let end = name_end.checked_add(usize::try_from(length).ok()?)?;
            let name = String::from_utf8_lossy(bytes.get(at + 12..name_end)?).into_owned();
            bytes.get(name_end..end)?;
            files.insert(name, bytes.slice(name_end..end));
            at = end;
        }
        Some(Packed { files })
    }

    /// One of the files.
    pub fn file(&self, name: &str) -> Option<Bytes> {
        self.files.get(name).cloned()
    }
}

/// Puts the files of the packed recording `file` into `dir`, an existing directory: the manifest and the tables, under
/// the names that a recording has.
pub fn unpack(file: &Path, dir: &Path) -> Result<(), RecordingError> {
    super::manifest(file)?;
    let packed = Packed::open(file)?;
    let tables = crate::recording::TABLES.iter().map(|table| format!("{}.parquet", table.name));
    for name in tables.chain([super::MANIFEST.to_owned()]) {
        let Some(bytes) = packed.file(&name) else { continue };
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(RecordingError::io(&path))?;
    }
    Ok(())
}

/// Makes one file of the recording in `dir`. An existing `file` is not overwritten.
pub fn pack(dir: &Path, file: &Path) -> Result<u64, RecordingError> {
    super::manifest(dir)?;
    let mut out = fs::File::create_new(file).map_err(RecordingError::io(file))?;
    out.write_all(MAGIC).map_err(RecordingError::io(file))?;
    let mut names: Vec<_> = fs::read_dir(dir)
        .map_err(RecordingError::io(dir))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
        .filter(|name| name.ends_with(".parquet") || name == super::MANIFEST)
        .collect();
    names.sort();
    for name in names {
        let path = dir.join(&name);
        let bytes = fs::read(&path).map_err(RecordingError::io(&path))?;
        let mut head = (name.len() as u32).to_le_bytes().to_vec();
        head.extend((bytes.len() as u64).to_le_bytes());
        head.extend(name.as_bytes());
        out.write_all(&head).and_then(|()| out.write_all(&bytes)).map_err(RecordingError::io(file))?;
    }
    Ok(out.metadata().map_err(RecordingError::io(file))?.len())
}
