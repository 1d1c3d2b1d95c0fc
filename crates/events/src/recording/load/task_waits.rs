//! Reading what tasks of runtimes waited for.

use parquet::errors::Result;

use super::small::{next, optional};
use crate::recording::parquet::TableReader;
use crate::tables::{ChannelWait, TaskWaitRow, TaskWindowRow};
use crate::{ProcessId, StackId, ThreadId, Timestamp};

pub(super) fn rows(table: &TableReader) -> Result<Vec<TaskWaitRow>> {
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut objects = table.all_u64("object")?.into_iter();
    let mut stacks = table.all_u32("stack")?.into_iter();
    let mut wakers = table.all_i32("waker")?.into_iter();
    let mut waker_stacks = table.all_u32("waker_stack")?.into_iter();
    let mut channels = channels(table)?.into_iter();
    let row = |thread| TaskWaitRow {
        thread: ThreadId(thread),
        start: Timestamp(next(&mut starts)),
        end: Timestamp(next(&mut ends)),
        object: next(&mut objects),
        stack: StackId(next(&mut stacks)),
        waker: optional(next(&mut wakers)).map(ThreadId),
        waker_stack: StackId(next(&mut waker_stacks)),
        channel: next(&mut channels),
    };
    Ok(table.all_u32("thread")?.into_iter().map(row).collect())
}

/// The channel of each wait. None in recordings of versions that do not know channels.
fn channels(table: &TableReader) -> Result<Vec<Option<ChannelWait>>> {
    if !table.has_column("channel") {
        return Ok(Vec::new());
    }
    let mut tasks = table.all_u64("task")?.into_iter();
    let mut waker_tasks = table.all_u64("waker_task")?.into_iter();
    let mut slots = table.all_u32("slots")?.into_iter();
    let mut item_bytes = table.all_u32("item_bytes")?.into_iter();
    let channel = |code| {
        let channel = ChannelWait {
            sends: code == 1,
            task: next(&mut tasks),
            waker_task: next(&mut waker_tasks),
            slots: next(&mut slots),
            item_bytes: next(&mut item_bytes),
        };
        (code != 0).then_some(channel)
    };
    Ok(table.all_u32("channel")?.into_iter().map(channel).collect())
}

pub(super) fn windows(table: &TableReader) -> Result<Vec<TaskWindowRow>> {
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let row = |process| TaskWindowRow {
        process: ProcessId(process),
        start: Timestamp(next(&mut starts)),
        end: Timestamp(next(&mut ends)),
    };
    Ok(table.all_u32("process")?.into_iter().map(row).collect())
}
