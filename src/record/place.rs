//! Where a recording goes.

use std::cell::RefCell;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use holdup_events::recording::{RecordingError, journal, store};

/// Maximum total size of unnamed recordings (bytes).
const KEPT_BYTES: u64 = 4 << 30;

/// Recordings contain command lines and paths, so only their owner may read them.
const PRIVATE: u32 = 0o700;

/// A directory that only its owner reads. The directory above must be there: a mistyped path makes no tree of directories.
pub fn make_private(path: &Path) -> io::Result<()> {
    match make_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// The same, where nothing is yet.
pub fn make_new(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(path)
}

/// Checks that the directory above `path` is there.
///
/// # Errors
/// It is not there, or it is no directory.
pub fn check_above(path: &Path) -> Result<()> {
    match path.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) if !above.is_dir() => {
            bail!("cannot write to {}: there is no directory {}", path.display(), above.display())
        }
        _ => Ok(()),
    }
}

/// Returns the directory of unnamed recordings, and creates it if necessary.
pub fn make_store() -> Result<PathBuf> {
    let directory = kept()?;
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {} (-o NAME.holdup puts it elsewhere)", directory.display()))?;
    Ok(directory)
}

/// Where unnamed recordings are kept.
pub fn kept() -> Result<PathBuf> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    store::directory(path("XDG_STATE_HOME"), path("HOME"))
        .context("neither XDG_STATE_HOME nor HOME is set: choose the recording's path with -o")
}

/// `NAME.holdup` → `NAME-1.holdup`.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{}", store::ENDING))
}

/// The directory of a recording in progress. Until it is settled, dropping this removes it and keeps the
/// recording that it would replace.
pub struct Begun {
    /// Where it belongs.
    path: PathBuf,
    /// Where it was begun: there, or aside.
    at: PathBuf,
    /// Lock that marks the directory as in use.
    _held: Option<File>,
    /// Where it is for good.
    settled: RefCell<Option<PathBuf>>,
    /// Thread that removes the replaced recording.
    remover: RefCell<Option<JoinHandle<()>>>,
}

/// Begins a recording in the directory that was named, else in a new one among those kept.
pub fn begin(named: Option<&Path>, command: &str) -> Result<Begun> {
    match named {
        Some(path) => begin_named(path, false),
        None => begin_kept(command, false),
    }
}

/// Begins a recording that stays hidden until it is complete.
pub fn begin_aside(named: Option<&Path>, command: &str) -> Result<Begun> {
    match named {
        Some(path) => begin_named(path, true),
        None => begin_kept(command, true),
    }
}

/// An existing recording will be replaced if its directory contains nothing else. Any other file or directory
/// is an error.
fn begin_named(path: &Path, is_aside: bool) -> Result<Begun> {
    // A slash behind it would lead through a link.
    let path: PathBuf = path.components().collect();
    if path.file_name().is_none() {
        bail!("'{}' is no name for a recording", path.display());
    }
    check_above(&path)?;
    let is_there = is_there(&path);
    if is_there {
        check_replaceable(&path)?;
    }
    let at = match is_there || is_aside {
        true => free_aside(&path)?,
        false => path.clone(),
    };
    make_new(&at).with_context(|| format!("cannot write a recording to {}", path.display()))?;
    Ok(Begun::new(path, at))
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn check_replaceable(path: &Path) -> Result<(), RecordingError> {
    if journal::is_being_written(path) {
        return Err(RecordingError::Busy { path: path.to_owned() });
    }
    match path.is_dir() && store::may_be_replaced(path) {
        true => Ok(()),
        false => Err(RecordingError::InTheWay { path: path.to_owned() }),
    }
}

/// Returns the path at which the replacement of `path` can be begun. Removes the remains of a killed recorder
/// there.
fn free_aside(path: &Path) -> Result<PathBuf> {
    let aside = store::aside(path);
    if is_there(&aside) {
        if !store::is_abandoned(&aside) {
            bail!(
                "{}: is being converted to {}, or is not a recording: wait, move it, or choose another name",
                aside.display(),
                path.display()
            );
        }
        store::remove(&aside).with_context(|| format!("removing {}", aside.display()))?;
    }
    Ok(aside)
}

/// A new directory among the recordings that are kept.
pub fn make_kept(command: &str) -> Result<PathBuf> {
    begin_kept(command, false)?.settle()
}

fn begin_kept(command: &str, is_aside: bool) -> Result<Begun> {
    let directory = make_store()?;
    store::prune(&directory, KEPT_BYTES);
    let name = store::name(command, super::unix_ns() / 1_000_000_000);
    for attempt in 0..1000 {
        let name = match attempt {
            0 => name.clone(),
            _ => name.replace(".holdup", &format!("-{attempt}.holdup")),
        };
        let path = directory.join(name);
        let aside = store::aside(&path);
        // One that is made aside has its name already.
        if is_there(&path) || is_there(&aside) {
            continue;
        }
        let at = if is_aside { aside } else { path.clone() };
        match make_new(&at) {
            Ok(()) => return Ok(Begun::new(path, at)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write to {}", directory.display()));
            }
        }
    }
    bail!("too many recordings of the same name in {}", directory.display())
}

impl Begun {
    fn new(path: PathBuf, at: PathBuf) -> Begun {
        // A file system without locks does no harm.
        let held = File::open(&at).ok().filter(|file| file.try_lock().is_ok());
        Begun { path, at, _held: held, settled: RefCell::default(), remover: RefCell::default() }
    }

    /// Where it was begun.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Moves the recording to its final path and returns that path. Removes the recording that it replaces.
    pub fn settle(&self) -> Result<PathBuf> {
        let mut settled = self.settled.borrow_mut();
        if settled.is_none() && self.at != self.path {
            self.replace().with_context(|| format!("cannot replace {}", self.path.display()))?;
        }
        Ok(settled.get_or_insert_with(|| self.path.clone()).clone())
    }

    /// Like [`Begun::settle`], for a recording that cannot be repeated. If it cannot be moved to its path, it
    /// gets a free name next to it.
    pub fn settle_anyhow(&self) -> PathBuf {
        self.settle().unwrap_or_else(|error| {
            let names = (1..1000).map(|number| numbered(&self.path, number));
            let moved = names.filter(|name| !is_there(name)).find(|name| fs::rename(&self.at, name).is_ok());
            let path = moved.unwrap_or_else(|| self.at.clone());
            say!("holdup: {error:#}. The new recording is {}", path.display());
            self.settled.replace(Some(path.clone()));
            path
        })
    }

    fn replace(&self) -> Result<()> {
        if !is_there(&self.path) {
            return Ok(fs::rename(&self.at, &self.path)?);
        }
        // It may be another by now.
        check_replaceable(&self.path)?;
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".old-{}", std::process::id()));
        let old = self.path.with_file_name(name);
        fs::rename(&self.path, &old)?;
        if let Err(error) = fs::rename(&self.at, &self.path) {
            let _ = fs::rename(&old, &self.path);
            return Err(error.into());
        }
        // Removing a large recording takes long, so a separate thread does it.
        let remove = std::thread::Builder::new().name("remover".to_owned());
        let thread = remove.spawn(move || {
            let _ = store::remove(&old);
        });
        self.remover.replace(thread.ok());
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.settled.get_mut().is_none() {
            let _ = store::remove(&self.at);
        }
        let _ = self.remover.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("holdup-place-{name}-{}", std::process::id()))
    }

    /// The names in a directory, in their order.
    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_recording_is_its_owners() {
        let scratch = scratch("owner");
        let path = scratch.join("deep/a.holdup");
        assert!(begin_named(&path, false).is_err());
        assert!(!scratch.exists(), "no directory is made above a named one");
        fs::create_dir_all(scratch.join("deep")).unwrap();
        for _ in 0..2 {
            assert_eq!(begin_named(&path, false).unwrap().settle().unwrap(), path);
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
        }
        make_private(&path).unwrap();
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn what_was_there_goes_when_the_new_one_has_begun_and_not_before() {
        let scratch = scratch("replace");
        let path = scratch.join("a.holdup");
        fs::create_dir_all(&scratch).unwrap();
        make_new(&path).unwrap();
        fs::write(path.join("journal"), "").unwrap();
        for is_aside in [false, true] {
            let begun = begin_named(&path, is_aside).unwrap();
            fs::write(begun.at().join("slices.parquet"), "half").unwrap();
            assert!(begin_named(&path, is_aside).is_err(), "it is being made");
            drop(begun);
            assert_eq!((names(&scratch), names(&path)), (vec!["a.holdup".into()], vec!["journal".into()]));
        }
        // The remains of a killed recorder are replaced.
        make_new(&store::aside(&path)).unwrap();
        let begun = begin_named(&path, false).unwrap();
        fs::write(begun.at().join("manifest.json"), "{}").unwrap();
        assert_eq!(begun.settle_anyhow(), path);
        drop(begun);
        assert_eq!(names(&scratch), ["a.holdup"]);
        assert_eq!(names(&path), ["manifest.json"]);
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn files_created_during_the_recording_and_the_recording_are_kept() {
        let scratch = scratch("meanwhile");
        let path = scratch.join("a.holdup");
        fs::create_dir_all(&scratch).unwrap();
        make_new(&path).unwrap();
        let begun = begin_named(&path, false).unwrap();
        fs::write(path.join("notes"), "of the user").unwrap();
        assert!(begun.settle().is_err());
        assert_eq!(begun.settle_anyhow(), scratch.join("a-1.holdup"));
        drop(begun);
        assert_eq!(names(&scratch), ["a-1.holdup", "a.holdup"]);
        assert_eq!(names(&path), ["notes"]);
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn recordings_of_one_name_are_numbered() {
        assert_eq!(numbered(Path::new("/tmp/slow.holdup"), 3), Path::new("/tmp/slow-3.holdup"));
        assert_eq!(numbered(Path::new("slow"), 1), Path::new("slow-1.holdup"));
    }
}
