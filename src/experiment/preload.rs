//! The library that is loaded into the program where a setting pads its memory or pins its threads.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The library built from `preload/`. Empty if the build had no C compiler.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libholdup_preload.so"));

/// Puts it into a folder.
pub fn place(folder: &Path) -> Result<PathBuf> {
    anyhow::ensure!(!LIBRARY.is_empty(), "this holdup was built without the library that pads and pins");
    let path = folder.join("libholdup_preload.so");
    if !std::fs::metadata(&path).is_ok_and(|file| file.len() == LIBRARY.len() as u64) {
        std::fs::write(&path, LIBRARY).with_context(|| format!("writing {}", path.display()))?;
    }
    std::path::absolute(&path).with_context(|| path.display().to_string())
}
