//! What is half made goes when a signal ends holdup, as it goes when something fails.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use holdup_capture::launch;
use holdup_events::recording::store;

static HALF_MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn half_made() -> MutexGuard<'static, Vec<PathBuf>> {
    HALF_MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a signal takes away what was [begun](begin). For commands that do not record.
pub fn watch() -> Result<()> {
    let tidy = || {
        let paths = half_made();
        for path in &*paths {
            let _ = if path.is_dir() { store::remove(path) } else { std::fs::remove_file(path) };
        }
        // Nothing is made whole any more, now that it is gone.
        std::mem::forget(paths);
    };
    Ok(launch::tidy_when_stopped(tidy)?)
}

/// A recording or a file of ours is half made until it is [finished](finish).
pub fn begin(path: &Path) {
    half_made().push(path.to_owned());
}

/// Makes it whole; no signal takes it away meanwhile.
pub fn finish<T>(path: &Path, make_whole: impl FnOnce() -> T) -> T {
    let mut paths = half_made();
    let made = make_whole();
    paths.retain(|half| half != path);
    made
}
