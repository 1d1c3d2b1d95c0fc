//! Writing a recording: rows as they come, the small tables and the manifest in the end.

mod rows;
mod small;

use std::fs;
use std::path::{Path, PathBuf};

use super::journal::JOURNAL;
use super::{FORMAT_VERSION, Manifest, RecordingError};
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
    /// Allocations that were drawn.
    pub allocations: &'a [AllocationRow],
    /// What the kernel counts of threads and CPUs.
    pub kernel_counts: &'a [KernelCountRow],
    /// Page faults that were drawn.
    pub faults: &'a [FaultRow],
    /// What hardware watchpoints saw.
    pub watchpoints: &'a [WatchpointRow],
    /// What tasks of runtimes waited for.
    pub task_waits: &'a TaskWaits,
    /// Who told spans, counters and marks.
    pub lanes: &'a [Lane],
    /// Their names.
    pub names: &'a [TellName],
    /// What is missing.
    pub losses: &'a [Loss],
}

/// Writes the tables of one recording into its directory; memory does not grow with its length.
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

    /// Completes the recording: small tables, then the manifest under its final name, then the journal goes.
    /// `manifest.cost.bytes` is filled in.
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
        write_manifest(&self.dir, manifest)?;
        let journal = self.dir.join(JOURNAL);
        if journal.exists() {
            fs::remove_file(&journal).map_err(RecordingError::io(&journal))?;
        }
        Ok(())
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

fn write_manifest(dir: &Path, manifest: &Manifest) -> Result<(), RecordingError> {
    let path = dir.join(MANIFEST);
    let text = serde_json::to_vec_pretty(manifest)
        .map_err(|error| RecordingError::Manifest { path: path.clone(), reason: error.to_string() })?;
    let temporary = dir.join("manifest.json.new");
    fs::write(&temporary, text).map_err(RecordingError::io(&temporary))?;
    fs::rename(&temporary, &path).map_err(RecordingError::io(&path))
}
