//! Files that a command writes in its end: whether they can be is asked before minutes of runs are spent on them.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Those that are asked for can be written.
///
/// # Errors
/// For the first that cannot. One that is there already is left as it is; none is left behind that was not there.
pub fn check<'a>(files: impl IntoIterator<Item = &'a Option<PathBuf>>) -> Result<()> {
    for file in files.into_iter().flatten() {
        // Who reads a pipe would take this for the whole.
        if file.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            continue;
        }
        let is_new = !file.exists();
        let opened = OpenOptions::new().append(true).create(true).open(file);
        opened.with_context(|| format!("cannot write {}", file.display()))?;
        if is_new {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(())
}

/// Writes one.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))
}
