//! Names that earlier recordings looked up, on disk: `$XDG_CACHE_HOME/holdup/names`. May be deleted at any time.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

/// Beyond this the files that were not used for longest go.
const BYTES_MAX: u64 = 512 << 20;

/// A directory of small files.
pub struct NamesCache {
    directory: PathBuf,
}

impl NamesCache {
    /// In this directory, which is made when something is written.
    pub fn new(directory: PathBuf) -> NamesCache {
        NamesCache { directory }
    }

    /// What was written under `key`.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.directory.join(key);
        let bytes = fs::read(&path).ok()?;
        // Its age is when it was last of use.
        if let Ok(file) = fs::File::options().write(true).open(&path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Writes whole or not at all: another recorder may read meanwhile. A cache that cannot be written is none.
    pub fn write(&self, key: &str, bytes: &[u8]) {
        let temporary = self.directory.join(format!("{key}.{}", std::process::id()));
        let _ = fs::create_dir_all(&self.directory);
        let written =
            fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, self.directory.join(key)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let directory = std::env::temp_dir().join(format!("holdup-names-{}", std::process::id()));
        let cache = NamesCache::new(directory.clone());
        for key in ["a", "b", "c"] {
            cache.write(key, &[7; 100]);
        }
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
        fs::File::options().write(true).open(directory.join("b")).unwrap().set_modified(old).unwrap();
        cache.trim(250);
        assert_eq!(cache.read("a").as_deref(), Some(&[7; 100][..]));
        assert!(cache.read("b").is_none() && cache.read("c").is_some());
        fs::remove_dir_all(directory).unwrap();
    }
}
