//! Where recordings are kept that nobody named: one directory, newest last, up to a size.

use std::fs;
use std::path::{Path, PathBuf};

use super::journal::is_being_written;
use super::{Manifest, load};

/// Ending of a recording's name.
pub const ENDING: &str = "holdup";

/// A kept recording.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// What it says about itself; `None` if its recorder did not end in order.
    pub manifest: Option<Manifest>,
    /// When it began: from the manifest, else when the directory was changed (Unix ns).
    pub started_unix_ns: u64,
}

/// The directory: `$XDG_STATE_HOME/holdup`, else `~/.local/state/holdup`; `None` without either.
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

fn size(path: &Path) -> u64 {
    let files = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Removes the oldest recordings until the rest takes at most `limit_bytes`; never the newest, never one that
/// is being written. Returns what was removed.
pub fn prune(directory: &Path, limit_bytes: u64) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    let mut kept_bytes = 0u64;
    for (index, kept) in list(directory).into_iter().enumerate() {
        kept_bytes = kept_bytes.saturating_add(kept.bytes);
        let spare = index == 0 || kept_bytes <= limit_bytes || is_being_written(&kept.path);
        if !spare && fs::remove_dir_all(&kept.path).is_ok() {
            kept_bytes -= kept.bytes;
            removed.push(kept.path);
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_and_when() {
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
}
