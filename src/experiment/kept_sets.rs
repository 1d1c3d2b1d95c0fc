//! Unnamed sets of runs. They are stored with the unnamed recordings and removed like them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use holdup_report::list::Row;

use super::set::{ENDING, FILE, Set};

/// Maximum total size (bytes).
const KEPT_BYTES: u64 = 4 << 30;

/// A set that is kept.
pub struct KeptSet {
    path: PathBuf,
    bytes: u64,
    /// Start time, as far as the file system has it.
    begun: SystemTime,
}

/// The sets in a folder, newest first.
pub fn list(folder: &Path) -> Vec<KeptSet> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let sets = entries.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
    let mut kept: Vec<KeptSet> = sets.filter(|path| Set::is_at(path)).map(KeptSet::new).collect();
    kept.sort_by(|a, b| (b.begun, &b.path).cmp(&(a.begun, &a.path)));
    kept
}

/// Removes the oldest sets until the rest fits into the limit. Keeps sets to which runs are being added, and
/// sets that contain a user's file.
pub fn prune(folder: &Path) {
    prune_to(folder, KEPT_BYTES);
}

fn prune_to(folder: &Path, limit_bytes: u64) {
    let mut kept_bytes = 0u64;
    for set in list(folder) {
        kept_bytes = kept_bytes.saturating_add(set.bytes);
        if kept_bytes > limit_bytes && set.is_ours() && set.is_free() && fs::remove_dir_all(&set.path).is_ok()
        {
            kept_bytes -= set.bytes;
        }
    }
}

impl KeptSet {
    fn new(path: PathBuf) -> KeptSet {
        let metadata = fs::metadata(&path);
        let begun = metadata.and_then(|found| found.created().or_else(|_| found.modified()));
        KeptSet { bytes: bytes_in(&path), begun: begun.unwrap_or(UNIX_EPOCH), path }
    }

    /// As `holdup list` shows it.
    pub fn row(&self) -> Row {
        let since = self.begun.duration_since(UNIX_EPOCH);
        let (command, wall_ns) = match Set::open(&self.path) {
            Ok(set) => {
                let experiment = &set.file.experiment;
                let command = experiment.settings.first().map_or(String::new(), |one| one.command.join(" "));
                let runs = holdup_report::numbers::counted(experiment.runs.len() as u64, "run");
                let what = format!("{} ({runs}): {command}", set.file.purpose.command());
                (what, experiment.runs.iter().map(|run| run.wall_ns).sum())
            }
            Err(_) => ("(damaged)".to_owned(), 0),
        };
        Row {
            path: self.path.display().to_string(),
            command,
            started_unix_ns: since.map_or(0, |since| since.as_nanos() as u64),
            wall_ns,
            bytes: self.bytes,
        }
    }

    fn is_free(&self) -> bool {
        File::open(&self.path).is_ok_and(|folder| folder.try_lock().is_ok())
    }

    /// All that is in it has a name that holdup gives.
    fn is_ours(&self) -> bool {
        let Ok(entries) = fs::read_dir(&self.path) else { return false };
        let is_own = |name: &str| {
            let own = ["warm-up.holdup", "stdout", "stderr", "took", "counted", "libholdup_preload.so"];
            name.starts_with(FILE)
                || own.contains(&name)
                || name.starts_with("run-") && name.contains(".holdup")
        };
        entries.flatten().all(|entry| entry.file_name().to_str().is_some_and(is_own))
    }
}

/// Bytes of the files in a directory and below it. Links are not followed.
fn bytes_in(folder: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_in(&entry.path()),
        _ => entry.metadata().map_or(0, |found| found.len()),
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::set::Purpose;
    use holdup_findings::experiment::Experiment;

    #[test]
    fn the_oldest_sets_are_removed_unless_in_use_or_foreign() {
        let scratch = std::env::temp_dir().join(format!("holdup-sets-{}", std::process::id()));
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).unwrap();
        let make = |name: &str| {
            let path = scratch.join(format!("{name}.{ENDING}"));
            let set = Set::create(Some(&path), Purpose::Diff, Experiment::default(), None).unwrap();
            fs::create_dir(path.join("run-001.holdup")).unwrap();
            fs::write(path.join("run-001.holdup/samples.parquet"), [0; 5000]).unwrap();
            // Where times are coarse, names decide.
            std::thread::sleep(std::time::Duration::from_millis(20));
            set
        };
        let held = make("a");
        for name in ["b", "c", "d"] {
            drop(make(name));
        }
        fs::write(scratch.join(format!("b.{ENDING}/thesis.txt")), "of the user's").unwrap();
        let names = || -> Vec<String> {
            let name = |set: &KeptSet| set.path.file_stem().unwrap().to_string_lossy().into_owned();
            list(&scratch).iter().map(name).collect()
        };
        assert_eq!(names(), ["d", "c", "b", "a"]);
        let row = list(&scratch)[0].row();
        assert!(row.command.starts_with("diff (0 runs)") && row.bytes > 5000, "{row:?}");
        prune_to(&scratch, 6000);
        assert_eq!(names(), ["d", "b", "a"], "c was the oldest that may go");
        drop(held);
        prune_to(&scratch, 6000);
        assert_eq!(names(), ["d", "b"]);
        fs::remove_dir_all(&scratch).unwrap();
    }
}
