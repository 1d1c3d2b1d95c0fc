//! Slices of a recording by row group, with only three columns, and their threads. Enough for an overview, in
//! a fraction of the time for the whole recording.

use std::path::Path;

use parquet::errors::Result;

use super::{Place, contained, manifest_of, packed, small};
use crate::recording::RecordingError;
use crate::tables::ThreadState;
use crate::{ThreadId, Timestamp, Trace};

/// A recording whose slices are visited, not kept.
pub struct SliceStarts<'a> {
    place: Place<'a>,
    /// Manifest, processes, threads and losses. Every other table is empty.
    pub trace: Trace,
    groups: Vec<usize>,
}

/// Start of a slice. The slice ends at the start of the thread's next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceStart {
    /// The thread. In a damaged recording, this may not be a valid row.
    pub thread: ThreadId,
    /// When it begins.
    pub at: Timestamp,
    /// State of the thread from then on.
    pub state: ThreadState,
}

impl<'a> SliceStarts<'a> {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// It is none, or its slices cannot be read.
    pub fn open(path: &'a Path) -> std::result::Result<SliceStarts<'a>, RecordingError> {
        let place = match path.is_dir() {
            true => Place::Directory(path),
            false => Place::Packed(packed::Packed::open(path)?),
        };
        let mut trace = Trace { manifest: manifest_of(path, &place)?, ..Trace::default() };
        let groups = contained(|| {
            small::read_threads(&place, &mut trace)?;
            Ok(place.table("slices")?.groups())
        });
        let groups = groups
            .ok_or(RecordingError::None { path: path.to_owned(), reason: "its slices cannot be read" })?;
        super::sound::make_threads_sound(&mut trace);
        Ok(SliceStarts { place, trace, groups })
    }

    /// How many groups there are: each thread's slices lie in their order, in the order of the groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Calls `each` for the slices of a group. Returns `false` if the group is not readable, possibly after
    /// some calls.
    pub fn visit(&self, group: usize, mut each: impl FnMut(SliceStart)) -> bool {
        contained(|| self.read(group, &mut each)).is_some()
    }

    fn read(&self, group: usize, each: &mut dyn FnMut(SliceStart)) -> Result<()> {
        let rows = self.groups.get(group).copied().unwrap_or(0);
        let table = self.place.table("slices")?;
        let (mut threads, mut starts, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let (mut of, mut at) = (table.narrow(group, "thread")?, table.wide(group, "start_ns")?);
        let mut codes = table.narrow(group, "state")?;
        let mut left = rows;
        // By pieces that stay in the CPU's cache.
        while left > 0 {
            let count = left.min(1 << 14);
            threads.clear();
            starts.clear();
            states.clear();
            of.read(count, &mut threads)?;
            at.read(count, &mut starts)?;
            codes.read(count, &mut states)?;
            for ((thread, start), state) in threads.iter().zip(&starts).zip(&states) {
                each(SliceStart {
                    thread: ThreadId(*thread as u32),
                    at: Timestamp(*start as u64),
                    state: ThreadState::from_code(*state as u8).unwrap_or_default(),
                });
            }
            left -= count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Manifest, RecordingWriter, SmallTables};
    use crate::tables::{Process, SliceRow, TableSink, Thread};
    use crate::{CpuId, Loss, ProcessId};

    /// A process of one thread that ran and blocked, and a loss.
    fn whole() -> Trace {
        let (start, end) = (Timestamp(1000), Timestamp(5000));
        let manifest = Manifest { start_ns: start.0, end_ns: end.0, ..Manifest::default() };
        let thread = Thread { process: ProcessId(0), target: true, start, end, ..Thread::default() };
        let loss = Loss {
            source: "switches".to_owned(),
            reason: "full".to_owned(),
            cpu: CpuId(1),
            start: Timestamp(2000),
            end: Timestamp(3000),
            events: 17,
        };
        Trace {
            manifest,
            processes: vec![Process { target: true, ..Process::default() }],
            threads: vec![thread],
            losses: vec![loss],
            ..Trace::default()
        }
    }

    fn write(dir: &Path, trace: &Trace) {
        let mut writer = RecordingWriter::create(dir).expect("tables");
        for (start, state) in [(1000, ThreadState::Running), (2500, ThreadState::Blocked)] {
            writer.slice(SliceRow { start: Timestamp(start), state, ..SliceRow::default() });
        }
        let small = SmallTables {
            processes: &trace.processes,
            threads: &trace.threads,
            waits: &trace.waits,
            stacks: &trace.stacks,
            frames: &trace.frames,
            mappings: &trace.mappings,
            variables: &trace.variables,
            syscalls: &trace.syscalls,
            calls: &trace.calls,
            allocations: &trace.allocations,
            kernel_counts: &trace.kernel_counts,
            faults: &trace.faults,
            watchpoints: &trace.watchpoints,
            task_waits: &trace.task_waits,
            lanes: &trace.lanes,
            names: &trace.names,
            losses: &trace.losses,
        };
        writer.finish(&small, &mut trace.manifest.clone()).expect("written");
    }

    #[test]
    fn what_was_lost_is_known_before_slices_are() {
        let dir = std::env::temp_dir().join(format!("holdup-starts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        write(&dir, &whole());
        let (starts, all) = (SliceStarts::open(&dir), crate::recording::open(&dir));
        let starts = starts.expect("it opens");
        let mut seen = Vec::new();
        assert!(
            (0..starts.groups())
                .all(|group| starts.visit(group, |slice| seen.push((slice.at.0, slice.state))))
        );
        assert_eq!(seen, [(1000, ThreadState::Running), (2500, ThreadState::Blocked)]);
        assert_eq!(starts.trace.losses, whole().losses);
        assert_eq!(starts.trace.losses, all.expect("it opens").losses);
        std::fs::write(dir.join("loss.parquet"), "damaged").expect("written");
        assert!(SliceStarts::open(&dir).is_err(), "what was lost is not known, so nothing is shown first");
        let _ = std::fs::remove_dir_all(&dir);
    }
}
