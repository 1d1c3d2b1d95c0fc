//! Removes incomplete output files if a signal ends holdup, as after an error.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use holdup_capture::launch;
use holdup_events::recording::store;

static HALF_MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn half_made() -> MutexGuard<'static, Vec<PathBuf>> {
    HALF_MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on, a signal removes files that were [begun](begin) and not finished. For commands that do not
/// record.
pub fn watch() -> Result<()> {
    let tidy = || {
        let paths = half_made();
        for path in &*paths {
            let _ = if path.is_dir() { store::remove(path) } else { std::fs::remove_file(path) };
        }
        // The lock is never released, so no file can be completed after its removal.
        std::mem::forget(paths);
    };
    Ok(launch::tidy_when_stopped(tidy)?)
}

/// A recording or a file of ours is half made until it is [finished](finish).
pub fn begin(path: &Path) {
    half_made().push(path.to_owned());
}

/// Completes the file. A signal cannot remove it during this call.
pub fn finish<T>(path: &Path, make_whole: impl FnOnce() -> T) -> T {
    let mut paths = half_made();
    let made = make_whole();
    paths.retain(|half| half != path);
    made
}
