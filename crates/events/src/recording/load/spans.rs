//! Reads spans, counters, marks, lanes and their names. Older recordings have none of these tables.

use parquet::errors::Result;

use super::small::next;
use super::{Place, contained};
use crate::recording::parquet::TableReader;
use crate::tables::{CounterRow, Lane, MarkRow, SpanKind, SpanRow, Spans, TellName};
use crate::{ProcessId, ThreadId, Timestamp, Trace};

/// Fills these tables of `trace`. Names of unreadable tables go to `unreadable`.
pub fn read(place: &Place<'_>, trace: &mut Trace, unreadable: &mut Vec<&'static str>) {
    let mut load = |name: &'static str, read: &mut dyn FnMut(&TableReader) -> Result<()>| {
        if place.has(name) && contained(|| read(&place.table(name)?)).is_none() {
            unreadable.push(name);
        }
    };
    load("spans", &mut |table| spans(table).map(|rows| trace.spans = Spans::freeze(rows)));
    load("counters", &mut |table| counters(table).map(|rows| trace.counters = rows));
    load("marks", &mut |table| marks(table).map(|rows| trace.marks = rows));
    load("lanes", &mut |table| lanes(table).map(|rows| trace.lanes = rows));
    load("names", &mut |table| names(table).map(|rows| trace.names = rows));
    trace.counters.sort_by_key(|row| (row.thread, row.at));
    trace.marks.sort_by_key(|row| (row.thread, row.at));
}

fn spans(table: &TableReader) -> Result<Vec<SpanRow>> {
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut lanes = table.all_u32("lane")?.into_iter();
    let mut names = table.all_u32("name")?.into_iter();
    let threads = table.all_u32("thread")?;
    Ok(threads
        .into_iter()
        .map(|thread| SpanRow {
            thread: ThreadId(thread),
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            lane: next(&mut lanes),
            name: next(&mut names),
        })
        .collect())
}

fn counters(table: &TableReader) -> Result<Vec<CounterRow>> {
    let mut times = table.all_u64("at_ns")?.into_iter();
    let mut lanes = table.all_u32("lane")?.into_iter();
    let mut names = table.all_u32("name")?.into_iter();
    let mut values = table.all_u64("value")?.into_iter();
    let threads = table.all_u32("thread")?;
    Ok(threads
        .into_iter()
        .map(|thread| CounterRow {
            thread: ThreadId(thread),
            at: Timestamp(next(&mut times)),
            lane: next(&mut lanes),
            name: next(&mut names),
            value: next(&mut values),
        })
        .collect())
}

fn marks(table: &TableReader) -> Result<Vec<MarkRow>> {
    let mut times = table.all_u64("at_ns")?.into_iter();
    let mut lanes = table.all_u32("lane")?.into_iter();
    let mut names = table.all_u32("name")?.into_iter();
    let mut values = table.all_u64("value")?.into_iter();
    let mut texts = table.all_u32("text")?.into_iter();
    let threads = table.all_u32("thread")?;
    Ok(threads
        .into_iter()
        .map(|thread| MarkRow {
            thread: ThreadId(thread),
            at: Timestamp(next(&mut times)),
            lane: next(&mut lanes),
            name: next(&mut names),
            value: next(&mut values),
            text: next(&mut texts),
        })
        .collect())
}

fn lanes(table: &TableReader) -> Result<Vec<Lane>> {
    let mut processes = table.all_u32("process")?.into_iter();
    let mut numbers = table.all_u32("number")?.into_iter();
    let mut starts = table.all_u64("start_ns")?.into_iter();
    let mut ends = table.all_u64("end_ns")?.into_iter();
    let mut events = table.all_u64("events")?.into_iter();
    let mut matched = table.all_u64("matched")?.into_iter();
    let runtimes = table.all_text("runtime")?;
    Ok(runtimes
        .into_iter()
        .map(|runtime| Lane {
            process: ProcessId(next(&mut processes)),
            runtime,
            number: next(&mut numbers),
            start: Timestamp(next(&mut starts)),
            end: Timestamp(next(&mut ends)),
            events: next(&mut events),
            matched: next(&mut matched),
        })
        .collect())
}

fn names(table: &TableReader) -> Result<Vec<TellName>> {
    let mut kinds = table.all_u32("kind")?.into_iter();
    let texts = table.all_text("text")?;
    Ok(texts
        .into_iter()
        .map(|text| TellName { kind: SpanKind::from_code(next(&mut kinds) as u8).unwrap_or_default(), text })
        .collect())
}
