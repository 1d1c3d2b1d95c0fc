//! Reading the long tables, column by column into their places: a group's rows of one thread are
//! one run, copied as a whole.

use parquet::data_type::DataType;
use parquet::errors::Result;

use super::small::context;
use super::{Place, contained};
use crate::recording::parquet::TableReader;
use crate::tables::{AccessKind, Deadline, SampleRow, Slices, Steal, ThreadState, Wakeup, Wakeups};
use crate::{CpuId, Duration, StackId, ThreadId, Timestamp, Trace, WaitId};

/// Fills the long tables of `trace`, whose threads are known. Names of unreadable tables go to `unreadable`.
pub fn read(place: &Place<'_>, trace: &mut Trace, unreadable: &mut Vec<&'static str>) {
    let threads = trace.threads.len();
    let ends: Vec<Timestamp> = trace.threads.iter().map(|thread| thread.end).collect();
    let ends_too = ends.clone();
    let (slices, wakeups) = std::thread::scope(|scope| {
        let slices = scope.spawn(|| contained(|| slices(&|| place.table("slices"), ends)));
        let wakeups = contained(|| wakeups(&place.table("wakeups")?, threads));
        (slices.join().ok().flatten(), wakeups)
    });
    let mut or_note = |name: &'static str, missing: bool| {
        if missing {
            unreadable.push(name);
        }
    };
    or_note("slices", slices.is_none());
    or_note("wakeups", wakeups.is_none());
    trace.slices = slices.unwrap_or_else(|| Slices::freeze(&[], ends_too));
    trace.wakeups = wakeups.unwrap_or_else(|| Wakeups::freeze(Vec::new(), threads));
    let samples = contained(|| samples(&place.table("samples")?, threads));
    or_note("samples", samples.is_none());
    trace.samples = samples.unwrap_or_default();
    let steals = contained(|| steals(&place.table("steals")?));
    or_note("steals", steals.is_none());
    trace.steals = steals.unwrap_or_default();
    // Recordings of version 0.1 lack them.
    if place.has("deadlines") {
        let deadlines = contained(|| deadlines(&place.table("deadlines")?));
        or_note("deadlines", deadlines.is_none());
        trace.deadlines = deadlines.unwrap_or_default();
    }
}

/// Rows of one thread that stand together in one group, and where they go.
struct Run {
    group: usize,
    rows: usize,
    to: usize,
}

/// Where each run of a table goes so that all rows of a thread stand together, and the threads' bounds.
fn runs(table: &TableReader, column: &str, threads: usize) -> Result<(Vec<Run>, Vec<u32>)> {
    let mut runs = Vec::new();
    let mut owners = Vec::new();
    let mut bounds = vec![0u32; threads + 1];
    let mut values = Vec::new();
    for (group, rows) in table.groups().into_iter().enumerate() {
        values.clear();
        table.narrow(group, column)?.read(rows, &mut values)?;
        for chunk in values.chunk_by(|a, b| a == b) {
            let thread = chunk.first().map_or(0, |thread| *thread as u32 as usize);
            let bound = bounds
                .get_mut(thread + 1)
                .ok_or_else(|| parquet::errors::ParquetError::General(format!("no thread {thread}")))?;
            *bound += chunk.len() as u32;
            runs.push(Run { group, rows: chunk.len(), to: 0 });
            owners.push(thread);
        }
    }
    for thread in 0..threads {
        bounds[thread + 1] += bounds[thread];
    }
    let mut next = bounds.clone();
    for (run, thread) in runs.iter_mut().zip(owners) {
        run.to = next[thread] as usize;
        next[thread] += run.rows as u32;
    }
    Ok((runs, bounds))
}

/// One column of a table into its places.
fn place_column<T: DataType, V: Clone>(
    runs: &[Run],
    rows: usize,
    empty: V,
    open: impl Fn(usize) -> Result<super::super::parquet::ColumnBatches<T>>,
    convert: impl Fn(&T::T) -> V,
) -> Result<Vec<V>> {
    let mut column = vec![empty; rows];
    let mut values = Vec::new();
    for group_runs in runs.chunk_by(|a, b| a.group == b.group) {
        let Some(group) = group_runs.first().map(|run| run.group) else { continue };
        let mut batches = open(group)?;
        for run in group_runs {
            values.clear();
            batches.read(run.rows, &mut values)?;
            let places = column.get_mut(run.to..run.to + run.rows).unwrap_or_default();
            for (place, value) in places.iter_mut().zip(&values) {
                *place = convert(value);
            }
        }
    }
    Ok(column)
}

fn slices(open: &(dyn Fn() -> Result<TableReader> + Sync), ends: Vec<Timestamp>) -> Result<Slices> {
    let table = open()?;
    let (runs, bounds) = runs(&table, "thread", ends.len())?;
    let rows = bounds.last().map_or(0, |rows| *rows as usize);
    let start = place_column(
        &runs,
        rows,
        Timestamp(0),
        |group| table.wide(group, "start_ns"),
        |value| Timestamp(*value as u64),
    )?;
    let state = place_column(
        &runs,
        rows,
        ThreadState::Unknown,
        |group| table.narrow(group, "state"),
        |value| ThreadState::from_code(*value as u8).unwrap_or_default(),
    )?;
    let cpu = place_column(
        &runs,
        rows,
        CpuId::NONE,
        |group| table.narrow(group, "cpu"),
        |value| CpuId(*value as u16),
    )?;
    let wait = place_column(
        &runs,
        rows,
        WaitId::NONE,
        |group| table.narrow(group, "wait"),
        |value| WaitId(*value as u32),
    )?;
    let stack = place_column(
        &runs,
        rows,
        StackId::NONE,
        |group| table.narrow(group, "stack"),
        |value| StackId(*value as u32),
    )?;
    let every =
        place_column(&runs, rows, 0u16, |group| table.narrow(group, "stack_every"), |value| *value as u16)?;
    Ok(Slices::from_columns(bounds, (start, state, cpu), (wait, stack, every), ends))
}

fn wakeups(table: &TableReader, threads: usize) -> Result<Wakeups> {
    let (runs, bounds) = runs(table, "wakee", threads)?;
    let rows = bounds.last().map_or(0, |rows| *rows as usize);
    let mut wakeups = vec![Wakeup::default(); rows];
    for (thread, range) in bounds.windows(2).enumerate() {
        for wakeup in wakeups.get_mut(range[0] as usize..range[1] as usize).unwrap_or_default() {
            wakeup.wakee = ThreadId(thread as u32);
        }
    }
    fill_wide(
        &runs,
        &mut wakeups,
        |group| table.wide(group, "at_ns"),
        |row, value| row.at = Timestamp(value),
    )?;
    fill_wide(
        &runs,
        &mut wakeups,
        |group| table.wide(group, "waker_object"),
        |row, value| row.waker_object = value,
    )?;
    let narrow = |name: &'static str| move |group| table.narrow(group, name);
    fill_narrow(&runs, &mut wakeups, narrow("waker"), |row, value| row.waker = ThreadId(value))?;
    fill_narrow(&runs, &mut wakeups, narrow("cpu"), |row, value| row.cpu = CpuId(value as u16))?;
    fill_narrow(&runs, &mut wakeups, narrow("context"), |row, value| row.context = context(value as i32))?;
    fill_narrow(&runs, &mut wakeups, narrow("stack"), |row, value| row.stack = StackId(value))?;
    if table.has_column("stack_every") {
        fill_narrow(&runs, &mut wakeups, narrow("stack_every"), |row, value| row.stack_every = value as u16)?;
    } // Recordings before there were stacks of wakers: none was wanted.
    Ok(Wakeups::from_sorted(wakeups, bounds))
}

fn fill_wide<R>(
    runs: &[Run],
    rows: &mut [R],
    open: impl Fn(usize) -> Result<super::super::parquet::ColumnBatches<parquet::data_type::Int64Type>>,
    set: impl Fn(&mut R, u64),
) -> Result<()> {
    fill(runs, rows, open, |row, value| set(row, *value as u64))
}

fn fill_narrow<R>(
    runs: &[Run],
    rows: &mut [R],
    open: impl Fn(usize) -> Result<super::super::parquet::ColumnBatches<parquet::data_type::Int32Type>>,
    set: impl Fn(&mut R, u32),
) -> Result<()> {
    fill(runs, rows, open, |row, value| set(row, *value as u32))
}

/// One column of a table of whole rows into its places.
fn fill<T: DataType, R>(
    runs: &[Run],
    rows: &mut [R],
    open: impl Fn(usize) -> Result<super::super::parquet::ColumnBatches<T>>,
    set: impl Fn(&mut R, &T::T),
) -> Result<()> {
    let mut values = Vec::new();
    for group_runs in runs.chunk_by(|a, b| a.group == b.group) {
        let Some(group) = group_runs.first().map(|run| run.group) else { continue };
        let mut batches = open(group)?;
        for run in group_runs {
            values.clear();
            batches.read(run.rows, &mut values)?;
            let places = rows.get_mut(run.to..run.to + run.rows).unwrap_or_default();
            places.iter_mut().zip(&values).for_each(|(row, value)| set(row, value));
        }
    }
    Ok(())
}

fn samples(table: &TableReader, threads: usize) -> Result<Vec<SampleRow>> {
    let (runs, bounds) = runs(table, "thread", threads)?;
    let rows = bounds.last().map_or(0, |rows| *rows as usize);
    let mut samples = vec![SampleRow::default(); rows];
    let narrow = |name: &'static str| move |group| table.narrow(group, name);
    fill_wide(
        &runs,
        &mut samples,
        |group| table.wide(group, "at_ns"),
        |row, value| row.at = Timestamp(value),
    )?;
    fill_narrow(&runs, &mut samples, narrow("thread"), |row, value| row.thread = ThreadId(value))?;
    fill_narrow(&runs, &mut samples, narrow("cpu"), |row, value| row.cpu = CpuId(value as u16))?;
    fill_narrow(&runs, &mut samples, narrow("in_kernel"), |row, value| row.in_kernel = value != 0)?;
    fill_narrow(&runs, &mut samples, narrow("syscall"), |row, value| row.syscall = value as i32)?;
    fill_narrow(&runs, &mut samples, narrow("stack"), |row, value| row.stack = StackId(value))?;
    fill_wide(
        &runs,
        &mut samples,
        |group| table.wide(group, "data_address"),
        |row, value| row.data.address = value,
    )?;
    fill_narrow(&runs, &mut samples, narrow("data_access"), |row, value| {
        row.data.kind = u8::try_from(value).ok().and_then(AccessKind::from_code).unwrap_or_default();
    })?;
    fill_narrow(&runs, &mut samples, narrow("data_bytes"), |row, value| row.data.bytes = value as u8)?;
    if table.has_column("counter") {
        fill_narrow(&runs, &mut samples, narrow("counter"), |row, value| row.counter.register = value as u8)?;
        let wide = |group| table.wide(group, "count");
        fill_wide(&runs, &mut samples, wide, |row, value| row.counter.value = value)?;
    }
    Ok(samples)
}

fn steals(table: &TableReader) -> Result<Vec<Steal>> {
    let threads = table.all_u32("thread")?;
    let starts = table.all_u64("slice_start_ns")?;
    let stolen = table.all_u64("stolen_ns")?;
    let mut steals: Vec<Steal> = threads
        .into_iter()
        .zip(starts)
        .zip(stolen)
        .map(|((thread, start), stolen)| Steal {
            thread: ThreadId(thread),
            slice_start: Timestamp(start),
            stolen: Duration(stolen),
        })
        .collect();
    steals.sort_by_key(|steal| (steal.thread, steal.slice_start));
    Ok(steals)
}

fn deadlines(table: &TableReader) -> Result<Vec<Deadline>> {
    let threads = table.all_u32("thread")?;
    let starts = table.all_u64("slice_start_ns")?;
    let dues = table.all_u64("due_ns")?;
    let mut deadlines: Vec<Deadline> = threads
        .into_iter()
        .zip(starts)
        .zip(dues)
        .map(|((thread, start), due)| Deadline {
            thread: ThreadId(thread),
            slice_start: Timestamp(start),
            due: Timestamp(due),
        })
        .collect();
    deadlines.sort_by_key(|row| (row.thread, row.slice_start));
    Ok(deadlines)
}
