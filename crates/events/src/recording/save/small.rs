//! The small tables: one row group each.

use std::path::Path;

use super::SmallTables;
use super::rows::{narrow, wide};
use crate::CpuId;
use crate::recording::RecordingError;
use crate::recording::parquet::{TableWriter, Values, schema};

/// Writes them all.
pub fn write(dir: &Path, tables: &SmallTables<'_>) -> Result<(), RecordingError> {
    table(dir, "processes", processes(tables))?;
    table(dir, "threads", threads(tables))?;
    table(dir, "waits", waits(tables))?;
    table(dir, "stacks", stacks(tables))?;
    table(dir, "frames", frames(tables))?;
    table(dir, "mappings", mappings(tables))?;
    table(dir, "variables", variables(tables))?;
    table(dir, "syscalls", syscalls(tables))?;
    table(dir, "calls", calls(tables))?;
    table(dir, "call_parts", call_parts(tables))?;
    table(dir, "call_objects", call_objects(tables))?;
    table(dir, "allocations", allocations(tables))?;
    table(dir, "kernel_counts", kernel_counts(tables))?;
    table(dir, "faults", faults(tables))?;
    table(dir, "watchpoints", watchpoints(tables))?;
    table(dir, "task_waits", task_waits(tables))?;
    table(dir, "task_windows", task_windows(tables))?;
    table(dir, "lanes", lanes(tables))?;
    table(dir, "names", names(tables))?;
    table(dir, "loss", losses(tables))
}

fn table(dir: &Path, name: &str, columns: Vec<Values>) -> Result<(), RecordingError> {
    let mut writer = TableWriter::create(dir, schema(name))?;
    writer.group(columns)?;
    writer.finish()
}

fn numbers(count: usize) -> Values {
    Values::Narrow((0..count as i32).collect())
}

fn text<R>(rows: &[R], field: impl Fn(&R) -> &str) -> Values {
    Values::Bytes(rows.iter().map(|row| field(row).as_bytes().to_vec()).collect())
}

fn optional(id: Option<u32>) -> u32 {
    id.unwrap_or(u32::MAX)
}

fn processes(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.processes.as_slice();
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.pid),
        text(rows, |row| &row.name),
        narrow(rows, |row| u32::from(row.target)),
        narrow(rows, |row| optional(row.parent.map(|parent| parent.0))),
    ]
}

fn threads(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.threads.as_slice();
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.tid),
        narrow(rows, |row| row.process.0),
        text(rows, |row| &row.name),
        narrow(rows, |row| u32::from(row.target)),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        narrow(rows, |row| u32::from(row.began_before)),
        narrow(rows, |row| u32::from(row.alive_at_end)),
        narrow(rows, |row| optional(row.parent.map(|parent| parent.0))),
        narrow(rows, |row| row.cpus_allowed),
    ]
}

fn waits(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.waits.as_slice();
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.reason as u32),
        narrow(rows, |row| row.process.0),
        narrow(rows, |row| row.syscall as u32),
        narrow(rows, |row| row.object_kind as u32),
        wide(rows, |row| row.object),
        narrow(rows, |row| row.op),
        narrow(rows, |row| row.owner_tid),
        text(rows, |row| &row.symbol),
        text(rows, |row| &row.module),
    ]
}

fn stacks(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.stacks.rows();
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.frame.0),
        narrow(rows, |row| row.parent.0),
        narrow(rows, |row| row.via as u32),
        narrow(rows, |row| row.end as u32),
    ]
}

fn frames(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.frames.as_slice();
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.kind as u32),
        text(rows, |row| &row.function),
        text(rows, |row| &row.module),
        wide(rows, |row| row.offset),
        wide(rows, |row| row.function_offset),
        text(rows, |row| &row.file),
        narrow(rows, |row| row.line),
        narrow(rows, |row| u32::from(row.inlined)),
        narrow(rows, |row| row.spin as u32),
        text(rows, |row| &row.watches),
    ]
}

fn variables(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.variables;
    vec![
        narrow(rows, |row| row.process.0),
        wide(rows, |row| row.address),
        text(rows, |row| &row.name),
        text(rows, |row| &row.part),
        text(rows, |row| &row.module),
    ]
}

fn mappings(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.mappings;
    vec![
        narrow(rows, |row| row.process.0),
        wide(rows, |row| row.at.0),
        wide(rows, |row| row.start),
        wide(rows, |row| row.end),
        wide(rows, |row| row.file_offset),
        text(rows, |row| &row.path),
        Values::Bytes(rows.iter().map(|row| row.build_id.clone()).collect()),
    ]
}

fn syscalls(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.syscalls;
    vec![
        narrow(rows, |row| optional(row.process.map(|process| process.0))),
        narrow(rows, |row| row.syscall as u32),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.count),
        narrow(rows, |row| row.cost_ns),
    ]
}

fn calls(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = &tables.calls.rows;
    vec![
        narrow(rows, |row| optional(row.thread.map(|thread| thread.0))),
        narrow(rows, |row| row.syscall as u32),
        narrow(rows, |row| row.op),
        narrow(rows, |row| row.object_kind as u32),
        wide(rows, |row| row.object),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.count),
        wide(rows, |row| row.errors),
        wide(rows, |row| row.returned),
        wide(rows, |row| row.time_ns),
        wide(rows, |row| row.time_max_ns),
        wide(rows, |row| row.timed),
    ]
}

fn call_parts(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = &tables.calls.parts;
    vec![
        narrow(rows, |row| row.call),
        narrow(rows, |row| row.what as u32),
        wide(rows, |row| row.key),
        wide(rows, |row| row.count),
    ]
}

fn call_objects(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = &tables.calls.objects;
    vec![narrow(rows, |row| row.kind as u32), wide(rows, |row| row.object), text(rows, |row| &row.name)]
}

fn allocations(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.allocations;
    vec![
        narrow(rows, |row| row.thread.0),
        wide(rows, |row| row.at.0),
        wide(rows, |row| row.address),
        wide(rows, |row| row.bytes),
        wide(rows, |row| row.every_bytes),
        wide(rows, |row| row.own_bytes),
        narrow(rows, |row| row.stack.0),
        narrow(rows, |row| u32::from(row.freed.is_some())),
        wide(rows, |row| row.freed.map_or(0, |at| at.0)),
        narrow(rows, |row| optional(row.freed_by.map(|thread| thread.0))),
    ]
}

fn kernel_counts(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.kernel_counts;
    vec![
        narrow(rows, |row| optional(row.thread.map(|thread| thread.0))),
        narrow(rows, |row| optional((row.cpu != CpuId::NONE).then_some(u32::from(row.cpu.0)))),
        narrow(rows, |row| row.what as u32),
        narrow(rows, |row| row.syscall as u32),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.count),
    ]
}

fn faults(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.faults;
    vec![
        narrow(rows, |row| row.thread.0),
        wide(rows, |row| row.at.0),
        wide(rows, |row| row.address),
        wide(rows, |row| row.stands_for),
        narrow(rows, |row| u32::from(row.major)),
        narrow(rows, |row| u32::from(row.in_kernel)),
        narrow(rows, |row| row.stack.0),
    ]
}

fn watchpoints(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.watchpoints;
    vec![
        narrow(rows, |row| row.thread.0),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.address),
        narrow(rows, |row| row.bytes),
        wide(rows, |row| row.hits),
        wide(rows, |row| row.ran_ns),
    ]
}

fn task_waits(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.task_waits.rows.as_slice();
    vec![
        narrow(rows, |row| row.thread.0),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.object),
        narrow(rows, |row| row.stack.0),
        narrow(rows, |row| optional(row.waker.map(|thread| thread.0))),
        narrow(rows, |row| row.waker_stack.0),
        narrow(rows, |row| row.channel.map_or(0, |channel| if channel.sends { 1 } else { 2 })),
        wide(rows, |row| row.channel.map_or(0, |channel| channel.task)),
        wide(rows, |row| row.channel.map_or(0, |channel| channel.waker_task)),
        narrow(rows, |row| row.channel.map_or(0, |channel| channel.slots)),
        narrow(rows, |row| row.channel.map_or(0, |channel| channel.item_bytes)),
    ]
}

fn task_windows(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.task_waits.windows.as_slice();
    vec![narrow(rows, |row| row.process.0), wide(rows, |row| row.start.0), wide(rows, |row| row.end.0)]
}

fn lanes(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.lanes;
    vec![
        numbers(rows.len()),
        narrow(rows, |row| row.process.0),
        text(rows, |row| &row.runtime),
        narrow(rows, |row| row.number),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.events),
        wide(rows, |row| row.matched),
    ]
}

fn names(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.names;
    vec![numbers(rows.len()), narrow(rows, |row| row.kind as u32), text(rows, |row| &row.text)]
}

fn losses(tables: &SmallTables<'_>) -> Vec<Values> {
    let rows = tables.losses;
    vec![
        text(rows, |row| &row.source),
        text(rows, |row| &row.reason),
        narrow(rows, |row| u32::from(row.cpu.0)),
        wide(rows, |row| row.start.0),
        wide(rows, |row| row.end.0),
        wide(rows, |row| row.events),
    ]
}
