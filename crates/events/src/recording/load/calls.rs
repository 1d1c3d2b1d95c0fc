//! Reading syscalls that were all counted.

use parquet::errors::Result;

use super::small::{next, optional};
use crate::recording::parquet::TableReader;
use crate::tables::{CallObject, CallPartKind, CallPartRow, CallRow};
use crate::{ObjectKind, ThreadId, Timestamp};

pub(super) fn rows(table: &TableReader) -> Result<Vec<CallRow>> {
    let mut threads = table.all_i32("thread")?.into_iter();
    let mut ops = table.all_u32("op")?.into_iter();
    let mut kinds = table.all_u32("object_kind")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut objects = table.all_u64("object")?.into_iter();
    let mut counts = table.all_u64("count")?.into_iter();
    let mut errors = table.all_u64("errors")?.into_iter();
    let mut returned = table.all_u64("returned")?.into_iter();
    let mut times = table.all_u64("time_ns")?.into_iter();
    let mut longest = table.all_u64("time_max_ns")?.into_iter();
    let mut timed = table.all_u64("timed")?.into_iter();
    let row = |syscall| CallRow {
        thread: optional(next(&mut threads)).map(ThreadId),
        syscall,
        op: next(&mut ops),
        object_kind: ObjectKind::from_code(next(&mut kinds) as u8).unwrap_or_default(),
        object: next(&mut objects),
        start: Timestamp(next(&mut starts)),
        end: Timestamp(next(&mut ends)),
        count: next(&mut counts),
        errors: next(&mut errors),
        returned: next(&mut returned),
        time_ns: next(&mut times),
        time_max_ns: next(&mut longest),
        timed: next(&mut timed),
    };
    Ok(table.all_i32("syscall")?.into_iter().map(row).collect())
}

pub(super) fn parts(table: &TableReader) -> Result<Vec<CallPartRow>> {
    let mut kinds = table.all_u32("what")?.into_iter();
    let mut keys = table.all_u64("key")?.into_iter();
    let mut counts = table.all_u64("count")?.into_iter();
    let row = |call| CallPartRow {
        call,
        what: CallPartKind::from_code(next(&mut kinds) as u8).unwrap_or_default(),
        key: next(&mut keys),
        count: next(&mut counts),
    };
    Ok(table.all_u32("call")?.into_iter().map(row).collect())
}

pub(super) fn objects(table: &TableReader) -> Result<Vec<CallObject>> {
    let mut kinds = table.all_u32("object_kind")?.into_iter();
    let mut objects = table.all_u64("object")?.into_iter();
    let row = |name| CallObject {
        kind: ObjectKind::from_code(next(&mut kinds) as u8).unwrap_or_default(),
        object: next(&mut objects),
        name,
    };
    let mut rows: Vec<CallObject> = table.all_text("name")?.into_iter().map(row).collect();
    rows.sort();
    Ok(rows)
}
