//! A trace in memory as a recording on disk.

use std::path::Path;

use holdup_events::recording::{RecordingError, RecordingWriter, SmallTables};
use holdup_events::tables::{SliceRow, TableSink};
use holdup_events::{ThreadId, Trace};

/// Writes the tables of `trace` into `dir`, which is made.
///
/// # Errors
/// Those of the file system.
pub fn save(trace: &Trace, dir: &Path) -> Result<(), RecordingError> {
    let failed = |error| RecordingError::Io { path: dir.to_owned(), error };
    std::fs::create_dir_all(dir).map_err(failed)?;
    let mut writer = RecordingWriter::create(dir)?;
    for thread in (0..trace.threads.len() as u32).map(ThreadId) {
        for slice in trace.slices.of_thread(thread) {
            writer.slice(SliceRow {
                thread,
                start: slice.start,
                state: slice.state,
                cpu: slice.cpu,
                wait: slice.wait,
                stack: slice.stack,
                stack_every: slice.stack_every,
            });
        }
    }
    trace.wakeups.iter().for_each(|row| writer.wakeup(*row));
    trace.samples.iter().for_each(|row| writer.sample(*row));
    trace.steals.iter().for_each(|row| writer.steal(*row));
    trace.deadlines.iter().for_each(|row| writer.deadline(*row));
    trace.spans.rows().iter().for_each(|row| writer.span(*row));
    trace.counters.iter().for_each(|row| writer.counter(*row));
    trace.marks.iter().for_each(|row| writer.mark(*row));
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
    writer.finish(&small, &mut trace.manifest.clone())
}
