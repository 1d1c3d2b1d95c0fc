//! Finding and opening the recording that a command is about.

use std::path::{Path, PathBuf};

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
        if journal::is_being_written(&path) {
            bail!("{}: is being recorded right now; wait until that ends", path.display());
        }
        eprintln!(
            "holdup: {} was not finished (its recorder was killed): reading its journal",
            path.display()
        );
        let trace = recover(&path).with_context(|| format!("reading the journal of {}", path.display()))?;
        return Ok((path, trace));
    }
    let trace = recording::open(&path)?;
    Ok((path, trace))
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
    let temporary = std::env::temp_dir().join(format!("holdup-recover-{}", std::process::id()));
    std::fs::create_dir(&temporary).with_context(|| format!("making {}", temporary.display()))?;
    let trace = make_tables(&temporary).and_then(|()| Ok(recording::open(&temporary)?));
    let _ = std::fs::remove_dir_all(&temporary);
    trace
}
