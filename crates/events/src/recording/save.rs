//! Writing a recording: rows as they come, the small tables and the manifest in the end.

mod rows;
mod small;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::journal::JOURNAL;
use super::{FORMAT_VERSION, Manifest, RecordingError, TABLES};
use crate::Loss;
use crate::tables::{
    AllocationRow, Calls, CounterRow, Deadline, FaultRow, Frames, KernelCountRow, Lane, Mapping, MarkRow,
    Processes, SampleRow, SliceRow, SpanRow, Stacks, Steal, SyscallRow, TableSink, TaskWaits, TellName,
    Threads, Variable, Waits, Wakeup, WatchpointRow,
};
use rows::RowTable;

/// Name of the manifest in a recording's directory.
pub const MANIFEST: &str = "manifest.json";

/// The small tables, known only in the end.
pub struct SmallTables<'a> {
    /// Row = process id.
    pub processes: &'a Processes,
    /// Row = thread id.
    pub threads: &'a Threads,
    /// Row = wait id.
    pub waits: &'a Waits,
    /// Row = stack id.
    pub stacks: &'a Stacks,
    /// Row = frame id.
    pub frames: &'a Frames,
    /// Executable memory.
    pub mappings: &'a [Mapping],
    /// Names of shared memory.
    pub variables: &'a [Variable],
    /// Syscalls in short windows.
    pub syscalls: &'a [SyscallRow],
    /// Syscalls that were all counted.
    pub calls: &'a Calls,
    /// Sampled allocations.
    pub allocations: &'a [AllocationRow],
    /// Kernel counts of threads and CPUs.
    pub kernel_counts: &'a [KernelCountRow],
    /// Sampled page faults.
    pub faults: &'a [FaultRow],
    /// Results of hardware watchpoints.
    pub watchpoints: &'a [WatchpointRow],
    /// Waits of runtime tasks.
    pub task_waits: &'a TaskWaits,
    /// Lanes of spans, counters and marks.
    pub lanes: &'a [Lane],
    /// Names of spans, counters and marks.
    pub names: &'a [TellName],
    /// Known losses.
    pub losses: &'a [Loss],
}

/// Writes the tables of a recording into its directory. Memory use is independent of the recording's length.
pub struct RecordingWriter {
    dir: PathBuf,
    slices: RowTable<SliceRow>,
    wakeups: RowTable<Wakeup>,
    samples: RowTable<SampleRow>,
    steals: RowTable<Steal>,
    deadlines: RowTable<Deadline>,
    spans: RowTable<SpanRow>,
    counters: RowTable<CounterRow>,
    marks: RowTable<MarkRow>,
    error: Option<RecordingError>,
}

impl RecordingWriter {
    /// Begins the tables of the recording `dir`, an existing directory.
    pub fn create(dir: &Path) -> Result<RecordingWriter, RecordingError> {
        Ok(RecordingWriter {
            slices: RowTable::create(dir)?,
            wakeups: RowTable::create(dir)?,
            samples: RowTable::create(dir)?,
            steals: RowTable::create(dir)?,
            deadlines: RowTable::create(dir)?,
            spans: RowTable::create(dir)?,
            counters: RowTable::create(dir)?,
            marks: RowTable::create(dir)?,
            dir: dir.to_owned(),
            error: None,
        })
    }

    fn keep(&mut self, result: Result<(), RecordingError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// Completes the recording: small tables, then the manifest under its final name, then the journal goes, once all of that is on the
    /// disk. `manifest.cost.bytes` is filled in.
    ///
    /// # Errors
    /// Those of the file system. There is no manifest then, and the journal is as it was.
    pub fn finish(self, small: &SmallTables<'_>, manifest: &mut Manifest) -> Result<(), RecordingError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.slices.finish()?;
        self.wakeups.finish()?;
        self.samples.finish()?;
        self.steals.finish()?;
        self.deadlines.finish()?;
        self.spans.finish()?;
        self.counters.finish()?;
        self.marks.finish()?;
        small::write(&self.dir, small)?;
        manifest.format = FORMAT_VERSION;
        manifest.cost.bytes = bytes_of(&self.dir, JOURNAL)?;
        // The boot id is not needed any more.
        manifest.boot_id.clear();
        put_in_place(&self.dir, manifest, &sync)
    }
}

impl TableSink for RecordingWriter {
    fn slice(&mut self, row: SliceRow) {
        let result = self.slices.push(row);
        self.keep(result);
    }

    fn wakeup(&mut self, row: Wakeup) {
        let result = self.wakeups.push(row);
        self.keep(result);
    }

    fn sample(&mut self, row: SampleRow) {
        let result = self.samples.push(row);
        self.keep(result);
    }

    fn steal(&mut self, row: Steal) {
        let result = self.steals.push(row);
        self.keep(result);
    }

    fn deadline(&mut self, row: Deadline) {
        let result = self.deadlines.push(row);
        self.keep(result);
    }

    fn span(&mut self, row: SpanRow) {
        let result = self.spans.push(row);
        self.keep(result);
    }

    fn counter(&mut self, row: CounterRow) {
        let result = self.counters.push(row);
        self.keep(result);
    }

    fn mark(&mut self, row: MarkRow) {
        let result = self.marks.push(row);
        self.keep(result);
    }
}

/// Bytes of all files of a recording but the one named `without`.
fn bytes_of(dir: &Path, without: &str) -> Result<u64, RecordingError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(RecordingError::io(dir))? {
        let entry = entry.map_err(RecordingError::io(dir))?;
        if entry.file_name() != without {
            bytes += entry.metadata().map_err(RecordingError::io(dir))?.len();
        }
    }
    Ok(bytes)
}

/// Number of files synced concurrently. The file system then commits its journal once for several files,
/// which takes a tenth of the time.
const SYNCED_AT_ONCE: usize = 4;

/// Puts a file, or the names in a directory, on the disk.
type OntoDisk<'a> = dyn Fn(&Path) -> io::Result<()> + Sync + 'a;

fn sync(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // There are file systems that cannot: no reason to have no recording.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done,
    }
}

/// The manifest gets its name, which makes a recording of the tables. Where a journal is, it goes once all that replaces it is on the disk.
fn put_in_place(dir: &Path, manifest: &Manifest, sync: &OntoDisk<'_>) -> Result<(), RecordingError> {
    let (path, journal) = (dir.join(MANIFEST), dir.join(JOURNAL));
    let temporary = dir.join("manifest.json.new");
    let replaces = journal.exists();
    let text = serde_json::to_vec_pretty(manifest)
        .map_err(|error| RecordingError::Manifest { path: path.clone(), reason: error.to_string() })?;
    let made = fs::write(&temporary, text)
        .map_err(RecordingError::io(&temporary))
        .and_then(|()| if replaces { sync_tables(dir, &temporary, sync) } else { Ok(()) })
        .and_then(|()| fs::rename(&temporary, &path).map_err(RecordingError::io(&path)));
    if made.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    made?;
    // From here on the recording is complete, with or without a journal. Later errors do not invalidate it.
    if replaces && sync(dir).is_ok() {
        let _ = fs::remove_file(&journal);
    }
    Ok(())
}

/// Puts every table and the file `manifest` on the disk.
fn sync_tables(dir: &Path, manifest: &Path, sync: &OntoDisk<'_>) -> Result<(), RecordingError> {
    let tables = TABLES.iter().map(|table| dir.join(format!("{}.parquet", table.name)));
    let files: Vec<PathBuf> = tables.filter(|path| path.exists()).chain([manifest.to_owned()]).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            sync(path).map_err(RecordingError::io(path))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let begin = || std::thread::Builder::new().spawn_scoped(scope, work);
        // Where there can be no more threads, this one does it all.
        let others: Vec<_> = (1..SYNCED_AT_ONCE).map_while(|_| begin().ok()).collect();
        let own = work();
        let ended =
            |result: std::thread::Result<_>| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        others.into_iter().map(|thread| ended(thread.join())).fold(own, |all, result| all.and(result))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A directory with a journal and two tables, and the list of synced files. Syncing `refused` fails.
    fn put(name: &str, refused: &str) -> (PathBuf, bool, Vec<String>) {
        let dir = std::env::temp_dir().join(format!("holdup-save-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for file in [JOURNAL, "slices.parquet", "loss.parquet"] {
            fs::write(dir.join(file), "").unwrap();
        }
        let synced = Mutex::new(Vec::new());
        let sync = |path: &Path| {
            assert!(dir.join(JOURNAL).exists(), "{path:?} comes too late");
            let name = path.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
            // The names are on the disk once the last of them is there.
            assert!(!name.is_empty() || dir.join(MANIFEST).exists());
            let refuses = name == refused;
            synced.lock().unwrap().push(name);
            if refuses { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
        };
        let is_made = put_in_place(&dir, &Manifest::default(), &sync).is_ok();
        let mut synced = synced.into_inner().unwrap();
        synced.sort();
        (dir, is_made, synced)
    }

    #[test]
    fn the_journal_goes_once_what_replaces_it_is_on_the_disk() {
        let (dir, is_made, synced) = put("goes", "-");
        assert!(is_made && dir.join(MANIFEST).exists() && !dir.join(JOURNAL).exists());
        assert_eq!(synced, ["", "loss.parquet", "manifest.json.new", "slices.parquet"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_does_not_get_there_leaves_the_journal() {
        for refused in ["loss.parquet", "manifest.json.new"] {
            let (dir, is_made, _) = put("stays", refused);
            assert!(!is_made && dir.join(JOURNAL).exists(), "{refused}");
            assert!(!dir.join(MANIFEST).exists() && !dir.join("manifest.json.new").exists(), "{refused}");
            fs::remove_dir_all(&dir).unwrap();
        }
        let (dir, is_made, _) = put("names", "");
        assert!(is_made && dir.join(JOURNAL).exists() && dir.join(MANIFEST).exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_journal_that_cannot_be_removed_is_no_failure() {
        let dir = std::env::temp_dir().join(format!("holdup-save-kept-{}", std::process::id()));
        // A directory is nothing that remove_file takes away.
        fs::create_dir_all(dir.join(JOURNAL)).unwrap();
        put_in_place(&dir, &Manifest::default(), &|_| Ok(())).unwrap();
        assert!(dir.join(MANIFEST).exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
