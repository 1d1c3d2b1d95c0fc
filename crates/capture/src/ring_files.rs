//! Event rings of OCaml 5 programs: one file of rings per process. The program makes it if its environment
//! requests it.
//!
//! [`RingDirectory`] is a private directory for these files, with the environment that names it. Another
//! module decodes the files. A program aborts if its directory is missing. Therefore the directory outlives
//! every program that has its name in its environment, as far as the recorder knows them.

use std::cell::Cell;
use std::ffi::{CString, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Any value switches the events on.
const START: &str = "OCAML_RUNTIME_EVENTS_START";
const DIRECTORY: &str = "OCAML_RUNTIME_EVENTS_DIR";
const PRESERVE: &str = "OCAML_RUNTIME_EVENTS_PRESERVE";
/// The runtime's parameters: the first that is set counts.
const PARAMETERS: [&str; 2] = ["OCAMLRUNPARAM", "CAMLRUNPARAM"];

/// Words of a ring, as a power of two. Larger ones are not worth their memory: rings are read a hundred times a second.
const RING_LOG2: u32 = 18;
/// With smaller rings the runtime itself goes wrong (`e=1` never ends).
const RING_LOG2_MIN: u32 = 12;
/// Domains that a program may have by default: a ring for each has its place in the file.
const DOMAINS: u64 = 128;
/// Files end so.
const ENDING: &str = "events";
const PREFIX: &str = "holdup-events-";

/// A directory in memory for the rings of one recording, removed when it is dropped.
#[derive(Debug)]
pub struct RingDirectory {
    path: PathBuf,
    ring_log2: u32,
    kept: Cell<bool>,
}

impl RingDirectory {
    /// Makes one where there is room enough.
    ///
    /// # Errors
    /// There is no such place.
    pub fn make() -> io::Result<RingDirectory> {
        let places =
            [Some(PathBuf::from("/dev/shm")), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)];
        let mut failure = io::Error::new(io::ErrorKind::StorageFull, "no file system in memory has room");
        for place in places.into_iter().flatten() {
            // A program without space for its ring is killed. The maximum size must fit four times.
            let free = free_bytes(&place).unwrap_or(0);
            let fits = |log2: &u32| (DOMAINS * 8) << log2 <= free / 4;
            let Some(ring_log2) = (RING_LOG2_MIN..=RING_LOG2).rev().find(fits) else { continue };
            remove_stale(&place);
            let path = place.join(format!("{PREFIX}{}", std::process::id()));
            match make_private(&path) {
                Ok(()) => return Ok(RingDirectory { path, ring_log2, kept: Cell::new(false) }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns the changes to the program's environment, given its current environment. Empty if the user has
    /// enabled the events: then the user's directory is used.
    pub fn environment(&self, current: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
        settings(&self.path, self.ring_log2, current)
    }

    /// Returns the existing files in the order of processes: PID in the process's own view, and path.
    pub fn files(&self) -> Vec<(u32, PathBuf)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.filter_map(|entry| Some((pid_of(&entry.path())?, entry.path()))).collect();
        files.sort();
        files
    }

    /// Removes the file of a process that has ended. Returns `true` if no file is left.
    pub fn remove(&self, pid: u32) -> bool {
        let removed = fs::remove_file(self.path.join(format!("{pid}.{ENDING}")));
        removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
    }

    /// Programs live on that may start others: the directory stays for them.
    pub fn keep(&self) {
        self.kept.set(true);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RingDirectory {
    fn drop(&mut self) {
        if !self.kept.get() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The directory is private to the user. A program started by root may change its user, and must still be
/// able to write.
fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } == 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o1733))?;
    }
    Ok(())
}

/// Removes the directories of killed recorders whose programs have exited.
fn remove_stale(place: &Path) {
    let is_alive = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let recorder = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        let rings = || fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let in_use = || rings().any(|ring| pid_of(&ring.path()).is_some_and(is_alive));
        if recorder.is_some_and(|recorder: u32| !is_alive(recorder)) && !in_use() {
            // Removing another user's directory fails, and it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn free_bytes(place: &Path) -> Option<u64> {
    let path = CString::new(place.as_os_str().as_bytes()).ok()?;
    // SAFETY: reads a C string, writes one struct of plain numbers.
    unsafe {
        let mut room: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut room) == 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))
    }
}

fn pid_of(path: &Path) -> Option<u32> {
    if path.extension()? != ENDING {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}

fn settings(
    own: &Path,
    ring_log2: u32,
    current: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, OsString)> {
    if current(START).is_some() {
        return Vec::new();
    }
    let mut settings: Vec<(OsString, OsString)> = vec![(START.into(), "1".into())];
    if !current(DIRECTORY).is_some_and(|theirs| Path::new(&theirs).is_dir()) {
        settings.push((DIRECTORY.into(), own.into()));
        settings.push((PRESERVE.into(), "1".into()));
    }
    let [first, _] = PARAMETERS;
    let parameters = PARAMETERS.iter().find_map(|name| current(name)).unwrap_or_default();
    // The last of several counts.
    let theirs =
        parameters.to_string_lossy().rsplit(',').find_map(|item| item.strip_prefix("e=")?.parse().ok());
    if theirs.is_none_or(|log2: u32| log2 < RING_LOG2_MIN) {
        let mut all = parameters;
        all.push(if all.is_empty() { "" } else { "," });
        all.push(format!("e={ring_log2}"));
        settings.push((first.into(), all));
    }
    settings
}

/// The ring that a process has mapped, wherever its user put it: the process's own number for itself, and the path.
///
/// # Errors
///
/// Those of reading its `maps`: it has ended, or it is not ours to ask.
pub fn mapped(pid: u32) -> io::Result<Option<(u32, PathBuf)>> {
    let maps = fs::read(format!("/proc/{pid}/maps"))?;
    let ring = || {
        let path = ring_in_maps(&String::from_utf8_lossy(&maps))?;
        let below_root = Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?);
        Some((pid_of(&path)?, below_root))
    };
    Ok(ring())
}

/// The first file in a `maps` text that is shared, writable and named like a ring.
pub fn ring_in_maps(maps: &str) -> Option<PathBuf> {
    let shared = maps.lines().filter(|line| line.split(' ').nth(1) == Some("rw-s"));
    let mut paths = shared.filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    paths.find(|path| pid_of(Path::new(path)).is_some()).map(PathBuf::from)
}

/// Opens a ring. Fails for symbolic links and for anything except a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(current: &[(&str, &str)]) -> Vec<String> {
        let get = |name: &str| {
            current.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        let settings = settings(Path::new("/own"), 18, get);
        settings.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn a_process_without_a_ring_differs_from_an_exited_one() {
        assert!(mapped(std::process::id()).unwrap().is_none());
        assert!(mapped(u32::MAX).is_err());
    }

    #[test]
    fn the_users_own_parameters_are_kept() {
        let on = [
            "OCAML_RUNTIME_EVENTS_START=1",
            "OCAML_RUNTIME_EVENTS_DIR=/own",
            "OCAML_RUNTIME_EVENTS_PRESERVE=1",
        ];
        let expect = |parameters: &[&'static str]| [&on[..], parameters].concat();
        assert_eq!(with(&[]), expect(&["OCAMLRUNPARAM=e=18"]));
        assert_eq!(with(&[("OCAMLRUNPARAM", "b,s=8M")]), expect(&["OCAMLRUNPARAM=b,s=8M,e=18"]));
        assert_eq!(with(&[("CAMLRUNPARAM", "b")]), expect(&["OCAMLRUNPARAM=b,e=18"]));
        assert_eq!(with(&[("OCAMLRUNPARAM", "e=20,b")]), expect(&[]));
        // With that the program would never begin.
        assert_eq!(with(&[("OCAMLRUNPARAM", "e=1")]), expect(&["OCAMLRUNPARAM=e=1,e=18"]));
        assert_eq!(with(&[(DIRECTORY, "/no/such/place")]), expect(&["OCAMLRUNPARAM=e=18"]));
    }

    #[test]
    fn existing_runtime_events_settings_are_kept() {
        assert!(with(&[(START, "1"), (DIRECTORY, "/no/such/place")]).is_empty());
        assert_eq!(with(&[(DIRECTORY, "/")]), ["OCAML_RUNTIME_EVENTS_START=1", "OCAMLRUNPARAM=e=18"]);
    }

    #[test]
    fn a_mapped_ring_is_found_by_its_name() {
        let maps = "7f00-7f01 r--p 00000000 00:1 5 /lib/1.events\n\
                    7f02-7f03 rw-s 00000000 00:1 6 /dev/zero (deleted)\n\
                    7f04-7f05 rw-s 00000000 00:1 7 /a dir/4711.events\n";
        assert_eq!(ring_in_maps(maps), Some(PathBuf::from("/a dir/4711.events")));
        assert_eq!(ring_in_maps("7f00-7f01 rw-s 0 0 0 /x.events\n"), None);
    }

    #[test]
    fn a_dropped_ring_directory_is_removed() {
        let directory = RingDirectory::make().unwrap();
        let path = directory.path().to_owned();
        fs::write(path.join("12.events"), "x").unwrap();
        fs::write(path.join("other"), "x").unwrap();
        assert_eq!(directory.files(), [(12, path.join("12.events"))]);
        drop(directory);
        assert!(!path.exists());
    }
}
