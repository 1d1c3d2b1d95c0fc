//! Which file a command runs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file that a word would run, as the shell would find it.
pub fn find(word: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if word.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(word)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(word)).find(|path| is_program(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_and_paths_are_taken() {
        let sh = find(OsStr::new("sh")).expect("every system has one");
        assert_eq!(find(sh.as_os_str()), Some(sh));
        assert_eq!(find(OsStr::new("/proc/self/status")), None, "no program");
        assert_eq!(find(OsStr::new("no such program")), None);
    }
}
