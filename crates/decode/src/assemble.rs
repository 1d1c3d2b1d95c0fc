//! Events → a whole [`Trace`] in memory: for tests, imports and small recordings.

use holdup_events::recording::{Backend, Manifest};
use holdup_events::tables::{Frames, Rows, Slices, Spans, Stacks, Wakeups};
use holdup_events::{Event, Timestamp, Trace};

use crate::states::{Builder, Catalogue};
use crate::symbols::{NoFiles, Symbols};

/// Drops events after `end`. BPF programs are detached one by one, so late events can still arrive. `Loss`
/// events are always kept.
pub fn until(events: impl IntoIterator<Item = Event>, end: Timestamp) -> impl Iterator<Item = Event> {
    events.into_iter().filter(move |event| event.at() <= end || matches!(event, Event::Loss(_)))
}

/// Builds the trace of `events` (in time order) for the interval of `manifest`. Frames get their mapping and
/// offset. Nothing is read from disk.
pub fn assemble(events: impl IntoIterator<Item = Event>, manifest: Manifest) -> Trace {
    assemble_named(events, manifest, |catalogue, _| Symbols::new(&NoFiles, "").resolve(catalogue))
}

/// The same, with frames as `name` makes them of the addresses.
pub fn assemble_named(
    events: impl IntoIterator<Item = Event>,
    mut manifest: Manifest,
    name: impl FnOnce(&mut Catalogue, &mut Manifest) -> (Stacks, Frames),
) -> Trace {
    let span = (Timestamp(manifest.start_ns), Timestamp(manifest.end_ns));
    let mut builder = Builder::new(span, manifest.backend == Backend::Proc, &NoFiles);
    let mut rows = Rows::default();
    for event in until(events, span.1) {
        builder.push(event, &mut rows);
    }
    let mut catalogue = builder.finish(&mut rows);
    let (stacks, frames) = name(&mut catalogue, &mut manifest);
    let ends = catalogue.threads.iter().map(|thread| thread.end).collect();
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
        task_waits: catalogue.task_waits,
        spans: Spans::freeze(rows.spans),
        counters: rows.counters,
        marks: rows.marks,
        lanes: catalogue.lanes,
        names: catalogue.names,
        losses: catalogue.losses,
    }
}
