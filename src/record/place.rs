//! Where a recording goes.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_events::recording::{RecordingError, journal, store};

/// Recordings that nobody named are kept up to this size together.
const KEPT_BYTES: u64 = 4 << 30;

/// Recordings say what programs do, with their command lines and paths: they are for who made them.
const PRIVATE: u32 = 0o700;

/// A directory that only its owner reads, and those above it.
pub fn make_private(path: &Path) -> std::io::Result<()> {
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        std::fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Where unnamed recordings are kept.
pub fn kept() -> Result<PathBuf> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    store::directory(path("XDG_STATE_HOME"), path("HOME"))
        .context("neither XDG_STATE_HOME nor HOME is set: say where the recording goes with -o")
}

/// Makes the directory of a new recording: the one that was named, else a new one among those kept.
pub fn make(named: Option<&Path>, command: &str) -> Result<PathBuf> {
    match named {
        Some(path) => make_named(path),
        None => make_kept(command),
    }
}

/// A recording of ours is replaced; anything else is left alone.
fn make_named(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        if journal::is_being_written(path) {
            return Err(RecordingError::Busy { path: path.to_owned() }.into());
        }
        let ours = path.is_dir() && is_recording_or_empty(path);
        if !ours {
            return Err(RecordingError::InTheWay { path: path.to_owned() }.into());
        }
        std::fs::remove_dir_all(path).with_context(|| format!("replacing {}", path.display()))?;
    }
    make_private(path).with_context(|| format!("cannot write a recording to {}", path.display()))?;
    Ok(path.to_owned())
}

fn is_recording_or_empty(dir: &Path) -> bool {
    let files = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    files.into_iter().all(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.ends_with(".parquet") || name.starts_with("manifest.json") || name == journal::JOURNAL
    })
}

fn make_kept(command: &str) -> Result<PathBuf> {
    let directory = kept()?;
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    store::prune(&directory, KEPT_BYTES);
    let name = store::name(command, super::unix_ns() / 1_000_000_000);
    for attempt in 0..1000 {
        let name = match attempt {
            0 => name.clone(),
            _ => name.replace(".holdup", &format!("-{attempt}.holdup")),
        };
        let path = directory.join(name);
        match DirBuilder::new().mode(PRIVATE).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write to {}", directory.display()));
            }
        }
    }
    bail!("too many recordings of the same name in {}", directory.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_recording_is_its_owners() {
        let scratch = std::env::temp_dir().join(format!("holdup-place-{}", std::process::id()));
        let path = scratch.join("deep/a.holdup");
        for _ in 0..2 {
            assert_eq!(make_named(&path).unwrap(), path);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
        }
        make_private(&path).unwrap();
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
