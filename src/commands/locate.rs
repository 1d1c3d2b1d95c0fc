//! Finding and opening the recording that a command is about.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use holdup_events::Trace;
use holdup_events::recording::{self, JournalReader, journal, store};
use holdup_report::damage;

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
    let (path, trace) = open_silently(named)?;
    for sentence in damage::sentences(&trace) {
        say!("holdup: {}: {sentence}", path.display());
    }
    Ok((path, trace))
}

/// The same for a report, whose head names damaged tables.
pub fn open_silently(named: Option<&Path>) -> Result<(PathBuf, Trace)> {
    let path = find(named)?;
    if recording::has_only_journal(&path) {
        report_unfinished(&path)?;
        let trace = recover(&path).with_context(|| format!("reading the journal of {}", path.display()))?;
        // What a full disk kept out of it is a loss that can be reported.
        if trace.threads.is_empty() && trace.wall().0 == 0 && trace.losses.is_empty() {
            bail!("{}: nothing was recorded: its recorder ended before the recording began", path.display());
        }
        return Ok((path, trace));
    }
    let trace = recording::open(&path)?;
    Ok((path, trace))
}

fn report_unfinished(path: &Path) -> Result<()> {
    if journal::is_being_written(path) {
        bail!("{}: is being recorded right now: wait until it is finished", path.display());
    }
    let journal = JournalReader::open(path)?;
    if journal.manifest().is_some_and(|manifest| manifest.mode == "import") {
        bail!("{}: was not imported to its end: import it again", path.display());
    }
    let killed = "its recorder was killed, or had no room to finish it";
    let why = if journal::dropped(path) > 0 { "no room was left" } else { killed };
    say!("holdup: {} was not finished ({why}): reading its journal", path.display());
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
    make_tables(&temporary.path)?;
    Ok(recording::open(&temporary.path)?)
}

/// Temporary directories of one process that are tried.
const NUMBERS: u32 = 1000;

/// A temporary directory, removed on drop. If the process was killed, the next [`Temporary::new`] removes its
/// directory.
pub struct Temporary {
    path: PathBuf,
    /// Locked: it is in use. Numbers of processes mean nothing to those of another container.
    _held: Option<File>,
}

impl Temporary {
    fn new() -> Result<Temporary> {
        let place = std::env::temp_dir();
        remove_abandoned(&place);
        for number in 0..NUMBERS {
            let path = place.join(format!("{TEMPORARY}{}-{number}", std::process::id()));
            // A directory that already exists is never reused: another user may have created it.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error).with_context(|| format!("making {}", path.display())),
            }
            let held = File::open(&path).ok().filter(|file| file.try_lock().is_ok());
            // Another process may have removed the directory before it was locked.
            if path.is_dir() {
                return Ok(Temporary { path, _held: held });
            }
        }
        bail!("too many directories in {} begin with {TEMPORARY}{}-", place.display(), std::process::id())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Prefix of temporary directories, followed by PID and number.
const TEMPORARY: &str = "holdup-";

/// Removes this user's temporary directories that no process has locked.
fn remove_abandoned(place: &Path) {
    // SAFETY: asks for a number.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_temporary)
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_ours
            && let Ok(directory) = File::open(entry.path())
            && directory.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_temporary(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
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

/// Returns the files of a recording (default: the newest). A packed or unfinished recording is converted into
/// a temporary directory.
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
        report_unfinished(&path)?;
        let damaged = || format!("reading the journal of {}", path.display());
        finish::recover(&path, &temporary.path).with_context(damaged)?;
    } else {
        recording::unpack(&path, &temporary.path)?;
    }
    Ok(Tables { directory: temporary.path.clone(), path, _temporary: Some(temporary) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_directories_are_recognized_by_name() {
        let names = [
            "holdup-1-0",
            "holdup-4711-12",
            "holdup-4711",
            "holdup--1",
            "holdup-x-1",
            "holdup-1-0-2",
            "perf-1-0",
        ];
        assert_eq!(names.map(is_temporary), [true, true, false, false, false, false, false]);
    }
}
