//! Path of the viewer's cached answers about a recording, in the user's cache, so that the recording opens
//! faster the next time. The key changes with the recording, this program's version and the runtime
//! descriptors.

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
    /// Returns the cache of the recording at `path`, compared with `before` if present. `None` if nothing can
    /// be cached.
    pub fn for_recording(
        (path, before): (&Path, Option<&Path>),
        descriptors: &DescriptorArgs,
    ) -> Option<KeptAnswers> {
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

    /// Returns the cached answers.
    pub fn read(&self) -> Option<Vec<u8>> {
        self.cache.read(&self.key)
    }

    /// Replaces it.
    pub fn write(&self, answers: &[u8]) {
        self.cache.write(&self.key, answers);
    }
}

/// Size and modification time of a file, as part of the cache key.
fn of_now(file: &Path) -> Option<(u64, SystemTime)> {
    let facts = fs::metadata(file).ok()?;
    Some((facts.len(), facts.modified().ok()?))
}
