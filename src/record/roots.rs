//! The roots of processes that see other files than we do (containers, chroot), kept open so that their binaries
//! can be read when they are gone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Distinct roots that are kept open at most.
const ROOTS_MAX: usize = 128;

/// What tells two roots apart: the mount namespace, and the directory in it.
type Identity = (PathBuf, PathBuf);

/// Roots by process.
#[derive(Default)]
pub struct Roots {
    open: BTreeMap<Identity, File>,
    by_pid: BTreeMap<u32, (Identity, u32)>,
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
    /// Looks at a process that lives; one whose files are ours needs nothing.
    pub fn note(&mut self, pid: u32) {
        let (Some(its), Some(own)) = (identity(&pid.to_string()), identity("self")) else { return };
        if its == own {
            self.by_pid.remove(&pid);
            return;
        }
        if !self.open.contains_key(&its) && self.open.len() < ROOTS_MAX {
            let root = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(format!("/proc/{pid}/root"));
            let Ok(root) = root else { return };
            self.open.insert(its.clone(), root);
        }
        self.by_pid.insert(pid, (its, innermost_pid(pid).unwrap_or(pid)));
    }

    /// Where the root of a process that was noted can be reached.
    pub fn of(&self, pid: u32) -> Option<PathBuf> {
        let root = self.open.get(&self.by_pid.get(&pid)?.0)?;
        Some(PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())))
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
    fn who_sees_our_files_is_not_kept() {
        let mut roots = Roots::default();
        roots.note(std::process::id());
        assert!(roots.of(std::process::id()).is_none() && roots.open.is_empty());
        assert_eq!(roots.own_pid(u32::MAX), u32::MAX);
    }
}
