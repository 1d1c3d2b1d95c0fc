//! `api/spans`: work named by the program or its runtime, in a tile.

use std::collections::BTreeMap;

use holdup_events::ThreadId;
use holdup_findings::derive::zoom::Tile;
use serde::Serialize;

use super::lanes::TileHead;
use super::{Ask, Refusal, Viewer, to_text};

/// An answer.
#[derive(Serialize)]
struct Spans {
    #[serde(flatten)]
    head: TileHead,
    #[serde(flatten)]
    content: SpanLanes,
}

/// Lanes, and the names that they share.
#[derive(Default, Serialize)]
pub(super) struct SpanLanes {
    names: Vec<String>,
    kinds: Vec<&'static str>,
    lanes: Vec<SpanColumns>,
}

/// One thread's spans, by column.
#[derive(Default, Serialize)]
struct SpanColumns {
    thread: u32,
    complete: bool,
    start: Vec<u64>,
    end: Vec<u64>,
    name: Vec<i64>,
    depth: Vec<u32>,
    count: Vec<u32>,
}

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let tile = viewer.tile(ask)?;
    let Some(threads) = viewer.threads(ask)? else { return Err(Refusal::bad("threads is missing")) };
    Ok(to_text(&Spans { head: TileHead::new(viewer, &tile), content: in_tile(viewer, &threads, &tile) }))
}

/// The spans of some threads in a tile.
pub(super) fn in_tile(viewer: &Viewer, threads: &[ThreadId], tile: &Tile) -> SpanLanes {
    let mut out = SpanLanes::default();
    let mut known: BTreeMap<u32, usize> = BTreeMap::new();
    for thread in threads {
        let lane = viewer.spans.lane(&viewer.trace, *thread, tile);
        let mut columns = SpanColumns { thread: thread.0, complete: lane.complete, ..SpanColumns::default() };
        for row in lane.rows {
            let name = row.name.map_or(-1, |name| {
                *known.entry(name).or_insert_with(|| {
                    let told = viewer.trace.event_name(name);
                    out.names.push(told.text.clone());
                    out.kinds.push(told.kind.name());
                    out.names.len() - 1
                }) as i64
            });
            columns.start.push(viewer.since(row.start));
            columns.end.push(viewer.since(row.end));
            columns.name.push(name);
            columns.depth.push(row.depth);
            columns.count.push(row.count);
        }
        out.lanes.push(columns);
    }
    out
}

impl SpanLanes {
    /// Whether no span was recorded here.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.start.is_empty())
    }

    /// Nothing was merged.
    pub(super) fn is_complete(&self) -> bool {
        self.lanes.iter().all(|lane| lane.complete)
    }
}
