//! Where the viewer's answers about a recording are kept, so that it opens at once the next time: in the user's cache, under a
//! key that changes with the recording, with this program and with the descriptors of runtimes.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::SystemTime;

use crate::cli::DescriptorArgs;
use crate::record::disk_cache::DiskCache;

/// See the module.
pub struct KeptAnswers {
    cache: DiskCache,
    key: String,
}

impl KeptAnswers {
    /// Of the recording at `path`, compared with another or not; `None` where nothing can be kept.
    pub fn of((path, before): (&Path, Option<&Path>), descriptors: &DescriptorArgs) -> Option<KeptAnswers> {
        let mut hasher = DefaultHasher::new();
        let mut files = vec![std::env::current_exe().ok()?];
        for recording in [Some(path), before].into_iter().flatten() {
            let recording = fs::canonicalize(recording).ok()?;
            recording.hash(&mut hasher);
            if recording.is_dir() {
                files.extend(fs::read_dir(&recording).ok()?.map_while(Result::ok).map(|entry| entry.path()));
            }
            files.push(recording);
        }
        files.extend(descriptors.descriptor.iter().cloned());
        files.sort();
        for file in &files {
            file.hash(&mut hasher);
            of_now(file)?.hash(&mut hasher);
        }
        Some(KeptAnswers { cache: DiskCache::own("views")?, key: format!("{:016x}", hasher.finish()) })
    }

    /// What was kept last.
    pub fn read(&self) -> Option<Vec<u8>> {
        self.cache.read(&self.key)
    }

    /// Replaces it.
    pub fn write(&self, answers: &[u8]) {
        self.cache.write(&self.key, answers);
    }
}

/// What changes if a file does.
fn of_now(file: &Path) -> Option<(u64, SystemTime)> {
    let facts = fs::metadata(file).ok()?;
    Some((facts.len(), facts.modified().ok()?))
}
