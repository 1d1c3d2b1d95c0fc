//! Spans, counters and marks reported by a program and its runtime.

use holdup_events::tables::{CounterRow, MarkRow, SpanRow};

use crate::facts::Facts;
use crate::view::{Table, columns, int, non_empty, text};

pub(super) fn spans() -> Table<SpanRow> {
    Table {
        name: "spans",
        meaning: "work or waiting that the program or its runtime reported. Spans of one lane are nested",
        columns: columns! { facts, row: SpanRow;
            Int "thread" "thread on which it began: row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Int "lane" "lane that reported it: row in raw.lanes" = Some(i64::from(row.lane));
            Text "runtime" "name and version of the runtime that reported it" = runtime(facts, row.lane).and_then(non_empty);
            Text "kind" "user, gc-work, gc-wait, idle, stop, gc-concurrent, stops-all or stopped"
                = text(facts.trace.event_name(row.name).kind.name());
            Text "name" "name given by the runtime or the program" = text(&facts.trace.event_name(row.name).text);
            Int "start_ns" "start (ns)" = int(row.start.0);
            Int "end_ns" "end (ns)" = int(row.end.0);
            Int "duration_ns" "length (ns)" = int(row.end.since(row.start).0);
            Real "at_s" "its start, seconds since the recording began" = Some(facts.at_s(row.start));
        },
        places: |facts| facts.trace.spans.len(),
        rows: |facts, places| facts.trace.spans.rows().get(places).unwrap_or(&[]).to_vec(),
    }
}

fn runtime(facts: &Facts, lane: u32) -> Option<&str> {
    facts.trace.lanes.get(lane as usize).map(|lane| lane.runtime.as_str())
}

pub(super) fn counters() -> Table<CounterRow> {
    Table {
        name: "counters",
        meaning: "a value that the program or its runtime reported",
        columns: columns! { facts, row: CounterRow;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Int "lane" "lane that reported it: row in raw.lanes" = Some(i64::from(row.lane));
            Text "runtime" "name and version of the runtime that reported it" = runtime(facts, row.lane).and_then(non_empty);
            Text "name" "name given by the runtime or the program" = text(&facts.trace.event_name(row.name).text);
            Int "at_ns" "time (ns)" = int(row.at.0);
            Real "at_s" "the same, seconds since the recording began" = Some(facts.at_s(row.at));
            Int "value" "value, in the counter's own unit" = int(row.value);
        },
        places: |facts| facts.trace.counters.len(),
        rows: |facts, places| facts.trace.counters.get(places).unwrap_or(&[]).to_vec(),
    }
}

pub(super) fn marks() -> Table<MarkRow> {
    Table {
        name: "marks",
        meaning: "an event that the program or its runtime reported, without a length",
        columns: columns! { facts, row: MarkRow;
            Int "thread" "row in threads" = Some(i64::from(row.thread.0));
            Text "thread_name" "its name" = facts.thread_name(row.thread).and_then(text);
            Int "lane" "lane that reported it: row in raw.lanes" = Some(i64::from(row.lane));
            Text "runtime" "name and version of the runtime that reported it" = runtime(facts, row.lane).and_then(non_empty);
            Text "name" "name given by the runtime or the program" = text(&facts.trace.event_name(row.name).text);
            Int "at_ns" "time (ns)" = int(row.at.0);
            Real "at_s" "the same, seconds since the recording began" = Some(facts.at_s(row.at));
            Int "value" "number reported with it, 0 if none" = Some(row.value as i64);
            Text "text" "text reported with it" = non_empty(&facts.trace.event_name(row.text).text);
        },
        places: |facts| facts.trace.marks.len(),
        rows: |facts, places| facts.trace.marks.get(places).unwrap_or(&[]).to_vec(),
    }
}
