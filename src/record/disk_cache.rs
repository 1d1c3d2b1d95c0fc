//! Cache on disk in `$XDG_CACHE_HOME/holdup`: names and unwind tables of binaries by build id, and the
//! viewer's answers about recordings. It may be deleted at any time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, process};

/// Beyond this the files that were not used for longest go.
const BYTES_MAX: u64 = 512 << 20;

/// Version of this layout. A checksum of the content follows.
const HEAD: &[u8] = b"holdup cache 1\n";

/// Where the user's caches are.
pub fn cache_home() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")))
}

/// A directory of files that each are whole, or not there.
#[derive(Clone)]
pub struct DiskCache {
    directory: PathBuf,
}

impl DiskCache {
    /// Returns our cache for items of one `kind`. Root writes no files into another user's home, even if sudo
    /// has left it in `HOME`. Files that other users may write are not trusted.
    pub fn own(kind: &str) -> Option<DiskCache> {
        let system = PathBuf::from("/var/cache");
        let mut homes = cache_home().into_iter().chain([system]);
        let directory = homes.find(|home| is_ours(home))?.join("holdup").join(kind);
        is_ours(&directory).then_some(DiskCache { directory })
    }

    /// Returns the content of `key`, if it is complete.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.directory.join(key);
        let mut bytes = fs::read(&path).ok()?;
        let payload = bytes.strip_prefix(HEAD).and_then(<[u8]>::split_first_chunk::<4>);
        if payload.is_none_or(|(checksum, payload)| crc32fast::hash(payload).to_le_bytes() != *checksum) {
            let _ = fs::remove_file(&path);
            return None;
        }
        bytes.drain(..HEAD.len() + 4);
        // Its age is when it was last of use.
        if let Ok(file) = File::options().write(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Writes atomically, because another recorder may read at the same time. A failure to write is ignored.
    pub fn write(&self, key: &str, bytes: &[u8]) {
        let temporary = self.directory.join(format!("{key}.{}", process::id()));
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        let checksum = crc32fast::hash(bytes).to_le_bytes();
        let written = write_new(&temporary, &[HEAD, &checksum, bytes])
            .and_then(|()| fs::rename(&temporary, self.directory.join(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.trim(BYTES_MAX);
    }

    fn trim(&self, bytes_max: u64) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let mut files: Vec<(SystemTime, PathBuf, u64)> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let facts = entry.metadata().ok()?;
                Some((facts.modified().ok()?, entry.path(), facts.len()))
            })
            .collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, _, length)| length).sum();
        for (_, path, length) in files {
            if bytes <= bytes_max {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= length;
            }
        }
    }
}

fn write_new(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))
}

/// A directory, or the nearest above that is there, belongs to us, and others may not write to it.
fn is_ours(path: &Path) -> bool {
    // SAFETY: takes and changes nothing.
    let user = unsafe { libc::geteuid() };
    let facts = path.ancestors().find_map(|above| fs::metadata(above).ok());
    facts.is_some_and(|facts| facts.is_dir() && facts.uid() == user && facts.mode() & 0o002 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cache(name: &str) -> DiskCache {
        DiskCache { directory: env::temp_dir().join(format!("holdup-cache-{name}-{}", process::id())) }
    }

    #[test]
    fn the_oldest_go_first() {
        let cache = cache("oldest");
        for key in ["a", "b", "c"] {
            cache.write(key, &[7; 100]);
        }
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
        File::options().write(true).open(cache.directory.join("b")).unwrap().set_modified(old).unwrap();
        cache.trim(250);
        assert_eq!(cache.read("a").as_deref(), Some(&[7; 100][..]));
        assert!(cache.read("b").is_none() && cache.read("c").is_some());
        fs::remove_dir_all(cache.directory).unwrap();
    }

    #[test]
    fn what_was_damaged_is_not_there() {
        let cache = cache("damaged");
        let path = cache.directory.join("a");
        for damage in [0, HEAD.len(), HEAD.len() + 5] {
            cache.write("a", &[7; 100]);
            let mut bytes = fs::read(&path).unwrap();
            bytes[damage] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(cache.read("a"), None, "byte {damage}");
        }
        fs::write(&path, HEAD).unwrap();
        assert!(cache.read("a").is_none() && !path.exists());
        fs::remove_dir_all(cache.directory).unwrap();
    }

    #[test]
    fn directories_writable_by_other_users_are_rejected() {
        let place = cache("others").directory;
        fs::create_dir_all(&place).unwrap();
        assert!(is_ours(&place) && is_ours(&place.join("not/there/yet")));
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_ours(&place.join("x")) && !is_ours(Path::new("/tmp")));
        fs::remove_dir_all(place).unwrap();
    }
}
