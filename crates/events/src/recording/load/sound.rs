//! Establishes the invariants that every user of a trace relies on. Times lie within the recording, slices
//! tile their thread's life, and ids are valid row numbers. An undamaged recording is unchanged. A damaged
//! one is cut to its valid part, and a loss is added.

use crate::tables::{
    CallPartKind, Frame, SliceRow, Slices, SpanRow, Spans, StackRow, Stacks, Thread, ThreadState, Wakeups,
};
use crate::{CpuId, FrameId, Loss, ProcessId, StackId, ThreadId, Timestamp, Trace, WaitId};

/// Maximum length of a recording (ns: 30 days). A later end is damage, and sums over threads would overflow.
const SPAN_MAX_NS: u64 = 30 * 24 * 3_600_000_000_000;
/// More is no count of events, and no cost in nanoseconds or bytes.
const COUNT_MAX: u64 = 1 << 56;
/// [`CpuId`] numbers no more.
const CPUS_MAX: u32 = u16::MAX as u32;

/// Repairs one table. Returns the number of changes.
type Check = fn(&mut Trace) -> u64;

/// Repairs all tables. Each changed table is reported as a loss.
pub(super) fn make_sound(trace: &mut Trace) {
    manifest(trace);
    let checks: [(&str, Check); 13] = [
        ("processes", processes),
        ("threads", threads),
        ("stacks", stacks),
        ("waits", waits),
        ("slices", slices),
        ("wakeups", wakeups),
        ("samples", samples),
        ("steals", steals),
        ("deadlines", deadlines),
        ("lanes", lanes),
        ("spans", spans),
        ("counters", counters),
        ("marks", marks),
    ];
    for (table, check) in checks {
        if check(trace) > 0 {
            trace.losses.push(Loss {
                source: table.to_owned(),
                reason: "contradictory".to_owned(),
                cpu: CpuId::NONE,
                start: trace.start(),
                end: trace.end(),
                events: 0,
            });
        }
    }
    let processes = trace.processes.len();
    trace.mappings.retain(|mapping| mapping.process.index() < processes);
    trace.variables.retain(|variable| variable.process.index() < processes);
    calls(trace);
    allocations(trace);
    kernel_counts(trace);
    task_waits(trace);
    losses(trace);
}

/// Repairs only processes, threads and losses, without a report of changes.
pub(super) fn make_threads_sound(trace: &mut Trace) {
    manifest(trace);
    processes(trace);
    threads(trace);
    losses(trace);
}

fn losses(trace: &mut Trace) {
    for loss in &mut trace.losses {
        loss.events = loss.events.min(COUNT_MAX);
        loss.end = loss.end.max(loss.start);
    }
}

/// Replaces a value by `mended` of it. Returns 1 if the value changed.
fn mend<T: PartialEq + Copy>(place: &mut T, mended: impl Fn(T) -> T) -> u64 {
    let value = mended(*place);
    let changes = *place != value;
    *place = value;
    u64::from(changes)
}

fn manifest(trace: &mut Trace) {
    let manifest = &mut trace.manifest;
    let end_max = manifest.start_ns.saturating_add(SPAN_MAX_NS);
    manifest.end_ns = manifest.end_ns.clamp(manifest.start_ns, end_max);
    manifest.threads_seen = manifest.threads_seen.min(COUNT_MAX);
    manifest.host.cpus = manifest.host.cpus.min(CPUS_MAX);
    manifest.host.cpus_allowed = manifest.host.cpus_allowed.min(CPUS_MAX);
    manifest.host.places.sort_by_key(|place| place.cpu);
    manifest.host.places.dedup_by_key(|place| place.cpu);
    for source in &mut manifest.sources {
        source.events = source.events.min(COUNT_MAX);
        source.lost = source.lost.min(COUNT_MAX);
    }
    let cost = &mut manifest.cost;
    for figure in [
        &mut cost.recorder_cpu_ns,
        &mut cost.probes_cpu_ns,
        &mut cost.probes_cpu_error_ns,
        &mut cost.stacks_cpu_ns,
        &mut cost.switches,
        &mut cost.bytes,
        &mut cost.recorder_memory_bytes,
    ] {
        *figure = (*figure).min(COUNT_MAX);
    }
}

/// Keeps parts that belong to a row, and valid threads and stacks. Limits values so that sums do not
/// overflow.
fn calls(trace: &mut Trace) {
    let (threads, stacks) = (trace.threads.len(), trace.stacks.rows().len() as u64);
    let calls = &mut trace.calls;
    for row in &mut calls.rows {
        row.thread = row.thread.filter(|thread| thread.index() < threads);
        row.end = row.end.max(row.start);
        for figure in [&mut row.count, &mut row.errors, &mut row.returned, &mut row.time_ns, &mut row.timed] {
            *figure = (*figure).min(COUNT_MAX);
        }
    }
    let rows = calls.rows.len();
    calls.parts.retain(|part| (part.call as usize) < rows);
    calls.parts.retain(|part| part.what != CallPartKind::Stack || part.key < stacks);
    calls.parts.iter_mut().for_each(|part| part.count = part.count.min(COUNT_MAX));
}

/// Keeps rows with valid threads and stacks. Limits byte counts so that sums do not overflow.
fn allocations(trace: &mut Trace) {
    let (threads, stacks) = (trace.threads.len(), trace.stacks.rows().len());
    trace.allocations.retain(|row| row.thread.index() < threads);
    for row in &mut trace.allocations {
        row.stack = if row.stack.index() < stacks { row.stack } else { StackId::NONE };
        row.freed_by = row.freed_by.filter(|thread| thread.index() < threads);
        row.freed = row.freed.map(|freed| freed.max(row.at));
        row.bytes = row.bytes.min(COUNT_MAX);
        row.every_bytes = row.every_bytes.min(COUNT_MAX);
        row.own_bytes = row.own_bytes.min(COUNT_MAX);
    }
}

/// Keeps rows with valid threads and stacks. Limits values so that sums do not overflow.
fn kernel_counts(trace: &mut Trace) {
    let (threads, stacks) = (trace.threads.len(), trace.stacks.rows().len());
    for row in &mut trace.kernel_counts {
        row.thread = row.thread.filter(|thread| thread.index() < threads);
        row.end = row.end.max(row.start);
        row.count = row.count.min(COUNT_MAX);
    }
    trace.faults.retain(|row| row.thread.index() < threads);
    for row in &mut trace.faults {
        row.stack = if row.stack.index() < stacks { row.stack } else { StackId::NONE };
        row.stands_for = row.stands_for.min(COUNT_MAX);
    }
    trace.watchpoints.retain(|row| row.thread.index() < threads);
    for row in &mut trace.watchpoints {
        row.end = row.end.max(row.start);
        row.hits = row.hits.min(COUNT_MAX);
    }
}

/// Keeps rows with valid threads, stacks and processes. A row that ends before it begins gets length 0.
fn task_waits(trace: &mut Trace) {
    let (threads, stacks) = (trace.threads.len(), trace.stacks.rows().len());
    let known = |stack: StackId| if stack.index() < stacks { stack } else { StackId::NONE };
    let all = &mut trace.task_waits;
    all.rows.retain(|row| row.thread.index() < threads);
    for row in &mut all.rows {
        row.waker = row.waker.filter(|thread| thread.index() < threads);
        row.end = row.end.max(row.start);
        (row.stack, row.waker_stack) = (known(row.stack), known(row.waker_stack));
    }
    let processes = trace.processes.len();
    all.windows.retain(|row| row.process.index() < processes);
    all.windows.iter_mut().for_each(|row| row.end = row.end.max(row.start));
}

fn processes(trace: &mut Trace) -> u64 {
    let count = trace.processes.len();
    let mut changed = 0;
    for process in &mut trace.processes {
        changed += mend(&mut process.parent, |parent| parent.filter(|parent| parent.index() < count));
    }
    changed
}

fn threads(trace: &mut Trace) -> u64 {
    let (from, to, count) = (trace.start(), trace.end(), trace.threads.len());
    let mut changed = 0;
    if count > 0 && trace.processes.is_empty() {
        trace.processes.push(Default::default());
        changed += 1;
    }
    let processes = trace.processes.len();
    for thread in &mut trace.threads {
        if thread.process.index() >= processes {
            changed += mend(&mut thread.process, |_| ProcessId(0));
        }
        changed += mend(&mut thread.parent, |parent| parent.filter(|parent| parent.index() < count));
        changed += mend(&mut thread.start, |start| start.clamp(from, to));
        changed += mend(&mut thread.end, |end| end.clamp(thread.start, to));
    }
    changed
}

/// Frames that are rows, and callers that come to an end.
fn stacks(trace: &mut Trace) -> u64 {
    let frames = trace.frames.len();
    let mut rows = trace.stacks.rows().to_vec();
    let is_bad = |row: &StackRow| row.frame.index() >= frames;
    let mut bad: Vec<usize> = (1..rows.len()).filter(|at| rows.get(*at).is_some_and(is_bad)).collect();
    bad.extend(loops(&rows));
    if bad.is_empty() {
        return 0;
    }
    for at in bad {
        let Some(row) = rows.get_mut(at) else { continue };
        row.parent = StackId::NONE;
        row.frame = FrameId(if is_bad(row) { 0 } else { row.frame.0 });
    }
    if frames == 0 {
        trace.frames.push(Frame::default());
    }
    trace.stacks = Stacks::from_rows(rows);
    1
}

/// One row of each circle of callers.
fn loops(rows: &[StackRow]) -> Vec<usize> {
    let mut walked_by = vec![0; rows.len()];
    let mut found = Vec::new();
    for first in 1..rows.len() {
        let mut at = first;
        while at != 0 && walked_by.get(at) == Some(&0) {
            walked_by[at] = first;
            at = rows.get(at).map_or(0, |row| row.parent.index());
        }
        if at != 0 && walked_by.get(at) == Some(&first) {
            found.push(at);
        }
    }
    found
}

fn waits(trace: &mut Trace) -> u64 {
    let processes = trace.processes.len();
    let mut changed = 0;
    for wait in trace.waits.iter_mut().filter(|wait| wait.process.index() >= processes) {
        changed += mend(&mut wait.process, |_| ProcessId(0));
    }
    // Row 0 of an empty table of processes is never used.
    if processes == 0 { 0 } else { changed }
}

fn slices(trace: &mut Trace) -> u64 {
    let (waits, stacks) = (trace.waits.len().max(1), trace.stacks.rows().len());
    let sound = |thread: ThreadId, life: &Thread| {
        let mut at = life.start;
        trace.slices.of_thread(thread).all(|slice| {
            let follows = at <= slice.start && slice.start <= life.end;
            at = slice.start;
            follows && slice.wait.index() < waits && slice.stack.index() < stacks
        })
    };
    let all = || trace.threads.iter().enumerate().map(|(index, life)| (ThreadId(index as u32), life));
    if trace.slices.threads() == trace.threads.len() && all().all(|(thread, life)| sound(thread, life)) {
        return 0;
    }
    let batches: Vec<Vec<SliceRow>> = all()
        .map(|(thread, life)| {
            let mut rows = tiled(trace, thread, life);
            for row in &mut rows {
                row.wait = if row.wait.index() < waits { row.wait } else { WaitId::NONE };
                row.stack = if row.stack.index() < stacks { row.stack } else { StackId::NONE };
            }
            rows
        })
        .collect();
    trace.slices = Slices::freeze(&batches, trace.threads.iter().map(|thread| thread.end).collect());
    1
}

/// The slices of one thread as far as they follow each other within its life. Before the first, and where time goes
/// back, nothing is known.
fn tiled(trace: &Trace, thread: ThreadId, life: &Thread) -> Vec<SliceRow> {
    let unknown = SliceRow { thread, start: life.start, state: ThreadState::Unknown, ..SliceRow::default() };
    let mut rows: Vec<SliceRow> = Vec::new();
    let mut at = life.start;
    for slice in trace.slices.of_thread(thread) {
        if slice.start > life.end {
            break;
        }
        if rows.is_empty() && slice.start > life.start && life.target {
            rows.push(unknown);
        }
        // One that began before the thread did, or before the one in front of it, begins there.
        at = at.max(slice.start);
        rows.push(SliceRow {
            thread,
            start: at,
            state: slice.state,
            cpu: slice.cpu,
            wait: slice.wait,
            stack: slice.stack,
            stack_every: slice.stack_every,
        });
    }
    if rows.is_empty() && life.target && life.end > life.start {
        rows.push(unknown);
    }
    rows
}

fn wakeups(trace: &mut Trace) -> u64 {
    let (from, to, stacks) = (trace.start(), trace.end(), trace.stacks.rows().len());
    let is_sound = |at: Timestamp, stack: StackId| from <= at && at <= to && stack.index() < stacks;
    let in_order = trace.wakeups.iter().is_sorted_by_key(|wakeup| (wakeup.wakee, wakeup.at));
    if in_order && trace.wakeups.iter().all(|wakeup| is_sound(wakeup.at, wakeup.stack)) {
        return 0;
    }
    let kept = trace.wakeups.iter().filter(|wakeup| is_sound(wakeup.at, wakeup.stack)).copied().collect();
    trace.wakeups = Wakeups::freeze(kept, trace.threads.len());
    1
}

fn samples(trace: &mut Trace) -> u64 {
    let (from, to) = (trace.start(), trace.end());
    let (threads, stacks) = (trace.threads.len(), trace.stacks.rows().len());
    let before = trace.samples.len();
    trace.samples.retain(|sample| {
        from <= sample.at
            && sample.at <= to
            && sample.thread.index() < threads
            && sample.stack.index() < stacks
    });
    let in_order = trace.samples.is_sorted_by_key(|sample| (sample.thread, sample.at));
    if !in_order {
        trace.samples.sort_by_key(|sample| (sample.thread, sample.at));
    }
    (before - trace.samples.len()) as u64 + u64::from(!in_order)
}

fn steals(trace: &mut Trace) -> u64 {
    let before = trace.steals.len();
    let mut steals = std::mem::take(&mut trace.steals);
    steals.dedup_by_key(|steal| (steal.thread, steal.slice_start));
    steals.retain(|steal| {
        let row = trace.slices.covering(steal.thread, steal.slice_start);
        let slice = row.map(|row| trace.slices.at(steal.thread, row));
        slice.is_some_and(|slice| {
            slice.start == steal.slice_start
                && slice.state == ThreadState::Running
                && steal.stolen <= slice.duration()
        })
    });
    trace.steals = steals;
    (before - trace.steals.len()) as u64
}

fn deadlines(trace: &mut Trace) -> u64 {
    let before = trace.deadlines.len();
    let mut deadlines = std::mem::take(&mut trace.deadlines);
    deadlines.dedup_by_key(|row| (row.thread, row.slice_start));
    deadlines.retain(|row| {
        let covering = trace.slices.covering(row.thread, row.slice_start);
        let slice = covering.map(|covering| trace.slices.at(row.thread, covering));
        slice.is_some_and(|slice| slice.start == row.slice_start && slice.state == ThreadState::Blocked)
    });
    trace.deadlines = deadlines;
    (before - trace.deadlines.len()) as u64
}

fn lanes(trace: &mut Trace) -> u64 {
    let (from, to, processes) = (trace.start(), trace.end(), trace.processes.len());
    let mut changed = 0;
    for lane in &mut trace.lanes {
        changed += mend(&mut lane.process, |id| if id.index() < processes { id } else { ProcessId(0) });
        changed += mend(&mut lane.start, |at| at.clamp(from, to.max(from)));
        let start = lane.start;
        changed += mend(&mut lane.end, |at| at.clamp(start, to.max(start)));
        changed += mend(&mut lane.events, |events| events.min(COUNT_MAX));
        let events = lane.events;
        changed += mend(&mut lane.matched, |matched| matched.min(events));
    }
    changed
}

fn spans(trace: &mut Trace) -> u64 {
    let (from, to, threads) = (trace.start(), trace.end(), trace.threads.len());
    let (lanes, names) = (trace.lanes.len(), trace.names.len());
    let is_sound = |row: &&SpanRow| {
        from <= row.start
            && row.start <= row.end
            && row.end <= to
            && row.thread.index() < threads
            && (row.lane as usize) < lanes
            && (row.name as usize) < names
    };
    let rows = trace.spans.rows();
    let kept: Vec<SpanRow> = rows.iter().filter(is_sound).copied().collect();
    let lost = rows.len() - kept.len();
    if lost > 0 {
        trace.spans = Spans::freeze(kept);
    }
    lost as u64
}

fn counters(trace: &mut Trace) -> u64 {
    let (from, to, threads) = (trace.start(), trace.end(), trace.threads.len());
    let (lanes, names, before) = (trace.lanes.len(), trace.names.len(), trace.counters.len());
    trace.counters.retain(|row| {
        (from..=to).contains(&row.at)
            && row.thread.index() < threads
            && (row.lane as usize) < lanes
            && (row.name as usize) < names
    });
    (before - trace.counters.len()) as u64
}

fn marks(trace: &mut Trace) -> u64 {
    let (from, to, threads) = (trace.start(), trace.end(), trace.threads.len());
    let (lanes, names, before) = (trace.lanes.len(), trace.names.len(), trace.marks.len());
    trace.marks.retain(|row| {
        (from..=to).contains(&row.at)
            && row.thread.index() < threads
            && (row.lane as usize) < lanes
            && (row.name as usize) < names
            && (row.text as usize) < names
    });
    (before - trace.marks.len()) as u64
}
