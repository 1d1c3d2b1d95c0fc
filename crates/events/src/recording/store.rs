//! Storage of recordings without a name: one directory, newest last, with a size limit.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::journal::{self, JOURNAL, is_being_written};
use super::save::MANIFEST;
use super::{Manifest, TABLES, load};

/// Ending of a recording's name.
pub const ENDING: &str = "holdup";
/// Suffix of a recording that is not visible yet.
const NEW: &str = ".new";

/// A kept recording.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// The recording's manifest, `None` if the recorder did not exit in order.
    pub manifest: Option<Manifest>,
    /// When it began: from the manifest, else when the directory was changed (Unix ns).
    pub started_unix_ns: u64,
}

/// The directory: `$XDG_STATE_HOME/holdup`, else `~/.local/state/holdup`. `None` if neither is set.
pub fn directory(xdg_state_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let state = xdg_state_home
        .filter(|path| path.is_absolute())
        .or_else(|| home.map(|home| home.join(".local/state")));
    state.map(|state| state.join("holdup"))
}

/// A name for a recording of `command` that begins at `unix_seconds`: `pigz-20261121-031500.holdup`.
pub fn name(command: &str, unix_seconds: u64) -> String {
    let base = command.rsplit('/').next().unwrap_or(command);
    let clean: String = base
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' })
        .take(40)
        .collect();
    let clean = clean.trim_start_matches('.');
    let clean = if clean.is_empty() { "program" } else { clean };
    let (year, month, day) = civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{clean}-{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}.{ENDING}")
}

/// Days since 1970-01-01 → (year, month, day), after Howard Hinnant's `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The kept recordings, newest first.
pub fn list(directory: &Path) -> Vec<Kept> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut kept: Vec<Kept> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
        .map(describe)
        .collect();
    kept.sort_by(|a, b| (b.started_unix_ns, &b.path).cmp(&(a.started_unix_ns, &a.path)));
    kept
}

fn describe(path: PathBuf) -> Kept {
    let manifest = load::manifest(&path).ok();
    let changed = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
    let changed = changed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Kept {
        bytes: size(&path),
        started_unix_ns: manifest
            .as_ref()
            .map(|manifest| manifest.start_unix_ns)
            .filter(|start| *start > 0)
            .unwrap_or_else(|| changed.map_or(0, |time| time.as_nanos() as u64)),
        manifest,
        path,
    }
}

/// Size of a directory's files, or of one packed file.
fn size(path: &Path) -> u64 {
    let of = |metadata: fs::Metadata| metadata.len();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let files = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
            files.filter_map(|file| file.metadata().ok()).map(of).sum()
        }
        metadata => metadata.map_or(0, of),
    }
}

/// Removes the oldest recordings until the rest takes at most `limit_bytes`. The newest recording, recordings
/// in progress, and a user's own files (packed files, other directories) are never removed. Returns the
/// removed paths.
pub fn prune(directory: &Path, limit_bytes: u64) -> Vec<PathBuf> {
    remove_abandoned(directory);
    let mut removed = Vec::new();
    let mut kept_bytes = 0u64;
    let recordings = list(directory).into_iter().filter(|kept| kept.path.is_dir());
    for (index, kept) in recordings.enumerate() {
        kept_bytes = kept_bytes.saturating_add(kept.bytes);
        let spare = index == 0 || kept_bytes <= limit_bytes || is_being_written(&kept.path);
        if !spare && may_be_replaced(&kept.path) && remove(&kept.path).is_ok() {
            kept_bytes -= kept.bytes;
            removed.push(kept.path);
        }
    }
    removed
}

/// Removes unfinished recordings of recorders that died.
fn remove_abandoned(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let ending = format!(".{ENDING}{NEW}");
    for path in entries.filter(|path| path.to_string_lossy().ends_with(&ending)) {
        if is_abandoned(&path) {
            let _ = remove(&path);
        }
    }
}

/// Where a recording is made that is to become `path`: `NAME.holdup.new`, which no list shows.
pub fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(NEW);
    path.with_file_name(name)
}

/// Whether `dir` is an unfinished recording under a temporary name without a recorder. A complete one is
/// kept.
pub fn is_abandoned(dir: &Path) -> bool {
    let is_held = fs::File::open(dir)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
    !is_held && !is_being_written(dir) && !dir.join(MANIFEST).exists() && may_be_replaced(dir)
}

/// Whether the directory `dir` is empty, or holds only a recording, finished or not. It must have a holdup
/// manifest or journal, and each other file must have a name that holdup uses. A user's own tables therefore
/// do not count as a recording.
pub fn may_be_replaced(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let mut is_empty = true;
    for entry in entries {
        is_empty = false;
        let is_ours = entry.is_ok_and(|entry| {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            is_file && entry.file_name().to_str().is_some_and(is_name_of_ours)
        });
        if !is_ours {
            return false;
        }
    }
    is_empty || has_manifest(dir) || (dir.join(JOURNAL).is_file() && journal::is_one(dir))
}

fn is_name_of_ours(name: &str) -> bool {
    let table = name.strip_suffix(".parquet");
    matches!(name, MANIFEST | "manifest.json.new" | JOURNAL)
        || table.is_some_and(|name| TABLES.iter().any(|table| table.name == name))
}

/// Also one that a newer holdup wrote. Other programs have files of that name.
fn has_manifest(dir: &Path) -> bool {
    let text = fs::read(dir.join(MANIFEST)).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest.get("format").is_some_and(serde_json::Value::is_u64) && manifest.get("holdup").is_some()
}

/// Removes a recording and its directory. Files added to it since are kept, and then the directory is kept
/// too.
pub fn remove(dir: &Path) -> io::Result<()> {
    // A symbolic link is removed, but not its target.
    if fs::symlink_metadata(dir)?.is_symlink() {
        return fs::remove_file(dir);
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_name_of_ours) {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_names_contain_program_and_time() {
        assert_eq!(name("/usr/bin/pigz", 1_795_227_300), "pigz-20261121-021500.holdup");
        assert_eq!(name("a b/../x;rm -rf", 0), "x_rm_-rf-19700101-000000.holdup");
        assert_eq!(name("", 951_782_400), "program-20000229-000000.holdup");
    }

    #[test]
    fn the_place_follows_the_environment() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(directory(path("/s"), path("/h")), path("/s/holdup"));
        assert_eq!(directory(path("relative"), path("/h")), path("/h/.local/state/holdup"));
        assert_eq!(directory(None, None), None);
    }

    /// A directory with these files. A name with a trailing slash is a directory.
    fn directory_of(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("holdup-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        for (name, text) in files {
            match name.strip_suffix('/') {
                Some(name) => fs::create_dir(path.join(name)).unwrap(),
                None => fs::write(path.join(name), text).unwrap(),
            }
        }
        path
    }

    const MANIFEST_TEXT: (&str, &str) = (MANIFEST, r#"{"format": 1, "holdup": "0.1"}"#);

    #[test]
    fn what_is_not_only_a_recording_is_not_ours() {
        let journal = (JOURNAL, "\u{0}");
        let cases: [(&[(&str, &str)], bool); 11] = [
            (&[], true),
            (&[MANIFEST_TEXT, ("slices.parquet", "")], true),
            (&[(JOURNAL, ""), ("slices.parquet", ""), ("manifest.json.new", "")], true),
            (&[(MANIFEST, r#"{"format": 9999, "holdup": "99"}"#)], true),
            (&[("slices.parquet", "")], false),
            (&[("part-0.parquet", ""), MANIFEST_TEXT], false),
            (&[MANIFEST_TEXT, ("threads.parquet/", "")], false),
            (&[MANIFEST_TEXT, ("notes", "")], false),
            (&[(MANIFEST, r#"{"name": "a page"}"#)], false),
            (&[journal], false),
            (&[("journal/", "")], false),
        ];
        for (files, expected) in cases {
            let path = directory_of("ours", files);
            assert_eq!(may_be_replaced(&path), expected, "{files:?}");
            fs::remove_dir_all(&path).unwrap();
        }
        assert!(!may_be_replaced(Path::new("/no/such/directory")));
        let path = directory_of("linked", &[MANIFEST_TEXT]);
        std::os::unix::fs::symlink("/etc/passwd", path.join("slices.parquet")).unwrap();
        assert!(!may_be_replaced(&path), "a link is no table of ours");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_came_into_a_recording_stays() {
        let path = directory_of("stays", &[MANIFEST_TEXT, ("slices.parquet", ""), ("notes", "")]);
        remove(&path).unwrap_err();
        let names: Vec<_> = fs::read_dir(&path).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["notes"]);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn only_finished_recordings_are_pruned() {
        let store = directory_of("prune", &[("sent.holdup", "a packed file")]);
        let recording = |name: &str, files: &[(&str, &str)]| {
            let path = store.join(name);
            fs::rename(directory_of("one", files), &path).unwrap();
            path
        };
        let started = |start_unix_ns| {
            serde_json::to_string(&Manifest { format: 1, start_unix_ns, ..Manifest::default() }).unwrap()
        };
        let (old, new, newest) = (started(1000), started(2000), started(3000));
        recording("old.holdup", &[(MANIFEST, &old)]);
        recording("newer.holdup", &[(MANIFEST, &new)]);
        recording("newest.holdup", &[(MANIFEST, &newest)]);
        recording("other.holdup", &[("notes", "of the user")]);
        recording("left.holdup.new", &[(JOURNAL, "")]);
        recording("whole.holdup.new", &[(MANIFEST, &newest)]);
        let held = recording("held.holdup.new", &[]);
        let lock = fs::File::open(&held).unwrap();
        lock.try_lock().unwrap();
        let bytes = list(&store).iter().find(|kept| kept.path.is_file()).map(|kept| kept.bytes);
        assert_eq!(bytes, Some(13), "a packed file has a size");
        let limit = size(&store.join("newest.holdup")) + size(&store.join("newer.holdup"));
        let other = size(&store.join("other.holdup"));
        assert_eq!(prune(&store, limit + other), [store.join("old.holdup")]);
        prune(&store, 0);
        let mut left: Vec<_> =
            fs::read_dir(&store).unwrap().flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        // `other` is the newest by its own date.
        assert_eq!(left, ["held.holdup.new", "other.holdup", "sent.holdup", "whole.holdup.new"]);
        fs::remove_dir_all(&store).unwrap();
    }
}
