//! Events → a whole [`Trace`] in memory: for tests, imports and small recordings.

use holdup_events::recording::{Manifest, Rung};
use holdup_events::tables::{Frames, Rows, Slices, Spans, Stacks, Wakeups};
use holdup_events::{Event, ThreadId, Timestamp, Trace};

use crate::states::{Builder, Catalogue};
use crate::symbols::{NoFiles, Symbols};

/// Builds the trace of `events` (in the order of time) for the time that `manifest` gives. Frames get
/// their mapping and offset; nothing is read from disk.
pub fn assemble(events: impl IntoIterator<Item = Event>, manifest: Manifest) -> Trace {
    assemble_named(events, manifest, |catalogue, _| Symbols::new(&NoFiles, "").resolve(catalogue))
}

/// The same, with frames as `name` makes them of the addresses.
pub fn assemble_named(
    events: impl IntoIterator<Item = Event>,
    mut manifest: Manifest,
    name: impl FnOnce(&mut Catalogue, &mut Manifest) -> (Stacks, Frames),
) -> Trace {
    let mut builder = Builder::new(Timestamp(manifest.start_ns), manifest.rung == Rung::Proc, &NoFiles);
    let mut rows = Rows::default();
    for event in events {
        builder.push(event, &mut rows);
    }
    let mut catalogue = builder.finish(Timestamp(manifest.end_ns), &mut rows);
    let (stacks, frames) = name(&mut catalogue, &mut manifest);
    let ends: Vec<Timestamp> = catalogue.threads.iter().map(|thread| thread.end).collect();
    // Events may come from behind the end.
    let is_in_life = |id: ThreadId, at: Timestamp| ends.get(id.index()).is_some_and(|end| at < *end);
    rows.deadlines.retain(|row| is_in_life(row.thread, row.slice_start));
    rows.steals.retain(|row| is_in_life(row.thread, row.slice_start));
    let threads = catalogue.threads.len();
    rows.samples.sort_by_key(|sample| (sample.thread, sample.at));
    rows.counters.sort_by_key(|row| (row.thread, row.at));
    rows.marks.sort_by_key(|row| (row.thread, row.at));
    rows.deadlines.sort_by_key(|row| (row.thread, row.slice_start));
    rows.steals.sort_by_key(|steal| (steal.thread, steal.slice_start));
    Trace {
        manifest,
        slices: Slices::freeze(&[rows.slices], ends),
        wakeups: Wakeups::freeze(rows.wakeups, threads),
        samples: rows.samples,
        steals: rows.steals,
        deadlines: rows.deadlines,
        processes: catalogue.processes,
        threads: catalogue.threads,
        waits: catalogue.waits,
        stacks,
        frames,
        mappings: catalogue.mappings,
        variables: catalogue.variables,
        syscalls: catalogue.syscalls,
        calls: catalogue.calls,
        allocations: catalogue.allocations,
        kernel_counts: catalogue.kernel_counts,
        faults: catalogue.faults,
        watchpoints: catalogue.watchpoints,
        spans: Spans::freeze(rows.spans),
        counters: rows.counters,
        marks: rows.marks,
        lanes: catalogue.lanes,
        names: catalogue.names,
        losses: catalogue.losses,
    }
}
