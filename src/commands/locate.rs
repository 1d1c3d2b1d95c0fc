//! Finding and opening the recording that a command is about.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use holdup_events::Trace;
use holdup_events::recording::{self, journal, store};

use crate::record::{Unfinished, finish};

/// Where unnamed recordings are kept.
pub fn kept() -> Result<PathBuf> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    store::directory(path("XDG_STATE_HOME"), path("HOME"))
        .context("neither XDG_STATE_HOME nor HOME is set: name the recording")
}

/// The newest recording.
pub fn newest() -> Result<PathBuf> {
    let directory = kept()?;
    match store::list(&directory).into_iter().next() {
        Some(kept) => Ok(kept.path),
        None => bail!("no recording in {}: make one with `holdup -- CMD`, or name one", directory.display()),
    }
}

/// Where a recording is, the newest if none is named.
pub fn find(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(newest, |path| Ok(path.to_owned()))
}

/// Opens a recording, the newest if none is named. One that was never finished is finished first, in its place if
/// that can be written, else in memory's stead in a temporary directory.
pub fn open(named: Option<&Path>) -> Result<(PathBuf, Trace)> {
    let path = find(named)?;
    if recording::has_only_journal(&path) {
        say_unfinished(&path)?;
        let trace = recover(&path).with_context(|| format!("reading the journal of {}", path.display()))?;
        return Ok((path, trace));
    }
    let trace = recording::open(&path)?;
    Ok((path, trace))
}

fn say_unfinished(path: &Path) -> Result<()> {
    if journal::is_being_written(path) {
        bail!("{}: is being recorded right now; wait until that ends", path.display());
    }
    let killed = "its recorder was killed, or had no room to finish it";
    let why = if journal::dropped(path) > 0 { "no room was left" } else { killed };
    eprintln!("holdup: {} was not finished ({why}): reading its journal", path.display());
    Ok(())
}

/// The trace of a journal that its own recorder could not finish where it is.
pub fn from_journal(path: &Path, unfinished: &Unfinished) -> Result<Trace> {
    let mut manifest = unfinished.manifest.clone();
    elsewhere(|to| {
        finish::make_tables((path, to), &mut manifest, unfinished.dropped.clone(), &unfinished.roots)
    })
}

fn recover(path: &Path) -> Result<Trace> {
    elsewhere(|to| finish::recover(path, to))
}

/// The journal is kept: the tables are made in a temporary directory and thrown away.
fn elsewhere(make_tables: impl FnOnce(&Path) -> Result<()>) -> Result<Trace> {
    let temporary = Temporary::new()?;
    make_tables(&temporary.0)?;
    Ok(recording::open(&temporary.0)?)
}

/// A directory that goes when this does.
pub struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Temporary> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("holdup-{}-{number}", std::process::id()));
        // What somebody else has put there is not taken for it.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("making {}", path.display()))?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A recording as files.
#[cfg(feature = "sql")]
pub struct Tables {
    /// The recording that was named.
    pub path: PathBuf,
    /// Where its Parquet files are.
    pub directory: PathBuf,
    /// Keeps them, if they are not the recording's own.
    pub _temporary: Option<Temporary>,
}

/// The files of a recording, the newest if none is named. Of one that is packed, or was never finished, they are made in a
/// temporary directory.
#[cfg(feature = "sql")]
pub fn tables(named: Option<&Path>) -> Result<Tables> {
    let path = find(named)?;
    let unfinished = recording::has_only_journal(&path);
    if !unfinished {
        recording::manifest(&path)?;
        if path.is_dir() {
            return Ok(Tables { directory: path.clone(), path, _temporary: None });
        }
    }
    let temporary = Temporary::new()?;
    if unfinished {
        say_unfinished(&path)?;
        let damaged = || format!("reading the journal of {}", path.display());
        finish::recover(&path, &temporary.0).with_context(damaged)?;
    } else {
        recording::unpack(&path, &temporary.0)?;
    }
    Ok(Tables { directory: temporary.0.clone(), path, _temporary: Some(temporary) })
}
