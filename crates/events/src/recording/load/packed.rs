//! One file for a whole recording: magic, then for each file its name's length, its length, its name
//! and its bytes (little-endian u32 and u64). The files are compressed already.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
        let none = || RecordingError::None {
            path: path.to_owned(),
            reason: "it is no packed recording, or damaged",
        };
        let failed = RecordingError::io(path);
        let read = || {
            let mut file = fs::File::open(path)?;
            let mut bytes = Vec::new();
            // Any file may have been named: one that is none is not read whole.
            (&file).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
            if bytes == MAGIC {
                file.read_to_end(&mut bytes)?;
            }
            io::Result::Ok(bytes)
        };
        Packed::parse(&Bytes::from(read().map_err(failed)?)).ok_or_else(none)
    }

    /// The same with one of its files alone: the others, which are large, are passed over.
    pub fn open_only(path: &Path, name: &str) -> Result<Packed, RecordingError> {
        let picked = fs::File::open(path).and_then(|file| match Packed::pick(&file, name) {
            // The archive ends within a file that it announced.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            picked => picked,
        });
        picked.map_err(RecordingError::io(path))?.ok_or_else(|| RecordingError::None {
            path: path.to_owned(),
            reason: "it is no packed recording, or damaged",
        })
    }

    fn pick(mut file: &fs::File, wanted: &str) -> io::Result<Option<Packed>> {
        let whole = file.metadata()?.len();
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Ok(None);
        }
        let (mut at, mut files) = (MAGIC.len() as u64, BTreeMap::new());
        while at < whole {
            file.seek(SeekFrom::Start(at))?;
            let (mut name_length, mut length) = ([0; 4], [0; 8]);
            file.read_exact(&mut name_length)?;
            file.read_exact(&mut length)?;
            let (name_length, length) =
                (u64::from(u32::from_le_bytes(name_length)), u64::from_le_bytes(length));
            let end = (at + 12 + name_length).checked_add(length).filter(|end| *end <= whole);
            let Some(end) = end else { return Ok(None) };
            if name_length == wanted.len() as u64 {
                let mut name = vec![0; wanted.len()];
                file.read_exact(&mut name)?;
                if name == wanted.as_bytes() {
                    let mut bytes = Vec::new();
                    file.take(length).read_to_end(&mut bytes)?;
                    files.insert(wanted.to_owned(), Bytes::from(bytes));
                }
            }
            at = end;
        }
        Ok(Some(Packed { files }))
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

/// Packs the recording in `dir` into one file. Returns its size in bytes. An existing `file` is not
/// overwritten, and the name appears only once the file is complete.
///
/// # Errors
/// `dir` has no recording, `file` exists, or an error of the file system.
pub fn pack(dir: &Path, file: &Path) -> Result<u64, RecordingError> {
    super::manifest(dir)?;
    if fs::symlink_metadata(file).is_ok() {
        return Err(RecordingError::io(file)(io::ErrorKind::AlreadyExists.into()));
    }
    let aside = pack_aside(file);
    let written = write(dir, (&aside, file)).and_then(|bytes| {
        put_in_place(&aside, file).map_err(RecordingError::io(file))?;
        Ok(bytes)
    });
    // Another name of the file, or half of one.
    let _ = fs::remove_file(&aside);
    written
}

/// Where a packed file is made that is to become `file`.
pub fn pack_aside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

/// Gives a file its name, unless that name exists by now.
fn put_in_place(aside: &Path, file: &Path) -> io::Result<()> {
    match fs::hard_link(aside, file) {
        // There are file systems where a file has one name.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && fs::symlink_metadata(file).is_err() => {
            fs::rename(aside, file)
        }
        linked => linked,
    }
}

/// Writes the files of `dir` into the new file `aside`, which is to become `file`.
fn write(dir: &Path, (aside, file): (&Path, &Path)) -> Result<u64, RecordingError> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .map_err(RecordingError::io(dir))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
        .filter(|name| name.ends_with(".parquet") || name == super::MANIFEST)
        .collect();
    names.sort();
    let mut out = fs::File::create_new(aside).map_err(RecordingError::io(aside))?;
    out.write_all(MAGIC).map_err(RecordingError::io(file))?;
    for name in names {
        let path = dir.join(&name);
        let bytes = fs::read(&path).map_err(RecordingError::io(&path))?;
        let mut head = (name.len() as u32).to_le_bytes().to_vec();
        head.extend((bytes.len() as u64).to_le_bytes());
        head.extend(name.as_bytes());
        out.write_all(&head).and_then(|()| out.write_all(&bytes)).map_err(RecordingError::io(file))?;
    }
    out.sync_all()
        .and_then(|()| out.metadata())
        .map(|metadata| metadata.len())
        .map_err(RecordingError::io(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Manifest;

    #[test]
    fn a_packed_file_is_whole_or_not_there() {
        let dir = std::env::temp_dir().join(format!("holdup-pack-{}", std::process::id()));
        let (recording, file) = (dir.join("t.holdup"), dir.join("t.pack"));
        fs::create_dir_all(&recording).unwrap();
        let manifest = serde_json::to_string(&Manifest::default()).unwrap();
        fs::write(recording.join("manifest.json"), manifest).unwrap();
        // What cannot be read: half is written by then.
        fs::create_dir(recording.join("slices.parquet")).unwrap();
        let names = || -> Vec<String> {
            let entries = fs::read_dir(&dir).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        pack(&recording, &file).unwrap_err();
        assert_eq!(names(), ["t.holdup"]);
        fs::remove_dir(recording.join("slices.parquet")).unwrap();
        assert_eq!(pack(&recording, &file).unwrap(), fs::metadata(&file).unwrap().len());
        assert_eq!(names(), ["t.holdup", "t.pack"]);
        assert!(super::super::manifest(&file).is_ok());
        // Wherever the file is cut, the manifest is found, or its absence is reported.
        let whole = fs::read(&file).unwrap();
        for length in 0..whole.len() {
            fs::write(dir.join("cut"), &whole[..length]).unwrap();
            let (alone, of_all) = (super::super::manifest(&dir.join("cut")), Packed::open(&dir.join("cut")));
            let of_all = of_all.is_ok_and(|packed| packed.file("manifest.json").is_some());
            assert_eq!(alone.is_ok(), of_all, "{length}");
        }
        fs::remove_file(dir.join("cut")).unwrap();
        let again = pack(&recording, &file).unwrap_err().to_string();
        assert!(again.contains("t.pack"), "{again}");
        fs::write(&file, "of somebody").unwrap();
        pack(&recording, &file).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "of somebody");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_that_is_no_recording_is_not_read_whole() {
        let endless = Packed::open(Path::new("/dev/zero"));
        assert!(matches!(endless, Err(RecordingError::None { .. })));
    }
}
