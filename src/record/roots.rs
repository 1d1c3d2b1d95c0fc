//! Files kept open so that binaries can be read after processes have exited. They are the root directories of
//! processes with other file systems (containers, chroot), and executed files, which a rebuild may replace.
//! Also keeps code that runtimes generated.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use holdup_capture::lower::procfs;

use super::generated_code::CodeKept;
use super::runtime_names::NamesKept;

/// Distinct roots that are kept open at most.
const ROOTS_MAX: usize = 128;

/// Identity of a root: the mount namespace, and the directory in it.
type Identity = (PathBuf, PathBuf);

/// A file that was mapped.
#[derive(Clone)]
pub struct KeptFile {
    /// As the process saw it.
    pub path: String,
    /// Empty if it has none.
    pub build_id: Vec<u8>,
    /// Open.
    pub file: Arc<File>,
}

/// Roots by process, and files.
#[derive(Clone, Default)]
pub struct Roots {
    /// Our own root, which does not change.
    own: OnceLock<Option<Identity>>,
    open: BTreeMap<Identity, Arc<File>>,
    by_pid: BTreeMap<u32, (Identity, u32)>,
    files: Vec<KeptFile>,
    /// Code read from memory without a file.
    pub generated: CodeKept,
    /// Names read from Java virtual machines and CPython.
    pub runtime_names: NamesKept,
}

fn identity(pid: &str) -> Option<Identity> {
    Some((
        fs::read_link(format!("/proc/{pid}/ns/mnt")).ok()?,
        fs::read_link(format!("/proc/{pid}/root")).ok()?,
    ))
}

/// The number that a process has in its own pid namespace.
fn innermost_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

impl Roots {
    /// Keeps the root of a living process. A process with our own root needs none.
    pub fn note(&mut self, pid: u32) {
        let own = self.own.get_or_init(|| identity("self")).as_ref();
        let shown = procfs::shown_as(pid);
        let (Some(its), Some(own)) = (identity(&shown.to_string()), own) else { return };
        if its == *own {
            self.by_pid.remove(&pid);
            return;
        }
        if !self.open.contains_key(&its) && self.open.len() < ROOTS_MAX {
            let root = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(format!("/proc/{shown}/root"));
            let Ok(root) = root else { return };
            self.open.insert(its.clone(), Arc::new(root));
        }
        self.by_pid.insert(pid, (its, innermost_pid(pid).unwrap_or(pid)));
    }

    /// Where the root of a process that was noted can be reached.
    pub fn root_of(&self, pid: u32) -> Option<PathBuf> {
        let root = self.open.get(&self.by_pid.get(&pid)?.0)?;
        Some(PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())))
    }

    /// Keeps files open until all is named.
    pub fn keep(&mut self, files: Vec<KeptFile>) {
        self.files.extend(files);
    }

    /// Where a file that is kept can be opened: the one with this build id, or if that is not known what `path` was.
    pub fn kept_file(&self, path: &str, build_id: &[u8]) -> Option<PathBuf> {
        let is_it = |kept: &&KeptFile| match build_id {
            [] => kept.path == path,
            known => kept.build_id == known,
        };
        let kept = self.files.iter().find(is_it)?;
        Some(PathBuf::from(format!("/proc/self/fd/{}", kept.file.as_raw_fd())))
    }

    /// The number that a process has, or had, for itself.
    pub fn own_pid(&self, pid: u32) -> u32 {
        let noted = self.by_pid.get(&pid).map(|(_, own)| *own);
        noted.or_else(|| innermost_pid(pid)).unwrap_or(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_with_our_root_are_not_kept() {
        let mut roots = Roots::default();
        roots.note(std::process::id());
        assert!(roots.root_of(std::process::id()).is_none() && roots.open.is_empty());
        assert_eq!(roots.own_pid(u32::MAX), u32::MAX);
    }

    #[test]
    fn a_file_that_ran_is_there_though_another_took_its_place() {
        let directory = std::env::temp_dir().join(format!("holdup-kept-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("program");
        fs::write(&path, "old").unwrap();
        let mut roots = Roots::default();
        let name = path.to_str().unwrap();
        roots.keep(vec![KeptFile {
            path: name.to_owned(),
            build_id: vec![1, 2],
            file: Arc::new(File::open(&path).unwrap()),
        }]);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "new").unwrap();
        let read = |found: Option<PathBuf>| found.map(|found| fs::read_to_string(found).unwrap());
        assert_eq!(read(roots.kept_file(name, &[1, 2])).as_deref(), Some("old"));
        assert_eq!(read(roots.kept_file(name, &[])).as_deref(), Some("old"));
        assert_eq!(read(roots.kept_file(name, &[3])), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
