//! Spans in one tile by depth: single spans if they can be distinguished, otherwise counts. Also counters
//! over time.

use std::collections::BTreeMap;

use holdup_events::tables::{CounterRow, HARDWARE, SpanRow};
use holdup_events::{ThreadId, Timestamp, Trace};

use super::Tile;

/// Spans of each thread by nesting depth. Spans of one depth do not overlap.
#[derive(Clone, Debug, Default)]
pub struct SpanIndex {
    /// By thread, then depth: rows of the trace's spans, in the order of time.
    by_depth: BTreeMap<ThreadId, Vec<Vec<u32>>>,
}

/// One thread's spans in one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanLane {
    /// By depth, then time. Rows of one depth do not overlap.
    pub rows: Vec<SpanLaneRow>,
    /// Whether no spans were merged.
    pub complete: bool,
}

/// One span, or several that are too short to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLaneRow {
    /// Number of spans around it.
    pub depth: u32,
    /// Start of the span, which may be before the tile. For merged spans, the start of the first one.
    pub start: Timestamp,
    /// End of the span. For merged spans, the end of the last one.
    pub end: Timestamp,
    /// Row of the trace's names. `None` for merged spans.
    pub name: Option<u32>,
    /// Number of spans in the row.
    pub count: u32,
}

/// Maximum depth. Deeper spans are not shown, because they only occur if a runtime does not end its spans.
const DEPTH_MAX: usize = 64;

impl SpanIndex {
    /// Sorts all spans by depth.
    pub fn derive(trace: &Trace) -> SpanIndex {
        let mut index = SpanIndex::default();
        let mut open: Vec<Timestamp> = Vec::new();
        let mut last = None;
        for (row, span) in trace.spans.rows().iter().enumerate() {
            if last != Some(span.thread) {
                open.clear();
                last = Some(span.thread);
            }
            while open.last().is_some_and(|end| *end <= span.start) {
                open.pop();
            }
            let depth = open.len();
            open.push(span.end.max(span.start));
            if depth < DEPTH_MAX {
                let depths = index.by_depth.entry(span.thread).or_default();
                depths.resize_with(depths.len().max(depth + 1), Vec::new);
                depths[depth].push(row as u32);
            }
        }
        index
    }

    /// Fills a tile: spans at least a cell long are given, shorter ones merged cell by cell.
    pub fn lane(&self, trace: &Trace, thread: ThreadId, tile: &Tile) -> SpanLane {
        let mut lane = SpanLane { rows: Vec::new(), complete: true };
        let rows = trace.spans.rows();
        let depths = self.by_depth.get(&thread).map_or(&[][..], Vec::as_slice);
        for (depth, spans) in depths.iter().enumerate() {
            let span = |place: usize| rows.get(spans[place] as usize).copied().unwrap_or_default();
            let mut place = spans.partition_point(|row| rows[*row as usize].end <= tile.start);
            while place < spans.len() && span(place).start < tile.end {
                let first = span(place);
                let limit = tile.cell_end(first.start.max(tile.start));
                let begun = place + spans[place..].partition_point(|row| rows[*row as usize].start < limit);
                let is_long = |one: SpanRow| one.end.since(one.start) >= tile.cell;
                let behind = if is_long(span(begun - 1)) { begun - 1 } else { begun };
                let count = behind.saturating_sub(place).max(1);
                let name = (count == 1).then_some(first.name);
                lane.complete &= count == 1;
                let (start, end) = (first.start, span(place + count - 1).end.max(first.start));
                lane.rows.push(SpanLaneRow { depth: depth as u32, start, end, name, count: count as u32 });
                place += count;
            }
        }
        lane
    }
}

/// Values of each counter, lane by lane, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct CounterIndex {
    /// By name, then lane: when, and the value from then on.
    by_name: BTreeMap<u32, BTreeMap<u32, Vec<(Timestamp, u64)>>>,
}

impl CounterIndex {
    /// Sorts all values. What hardware counted is not a value that lasts, but of the time before it.
    pub fn derive(trace: &Trace) -> CounterIndex {
        let mut index = CounterIndex::default();
        let lasts = |row: &&CounterRow| {
            trace.lanes.get(row.lane as usize).is_none_or(|lane| lane.runtime != HARDWARE)
        };
        for CounterRow { at, lane, name, value, .. } in trace.counters.iter().filter(lasts) {
            let values = index.by_name.entry(*name).or_default().entry(*lane).or_default();
            values.push((*at, *value));
        }
        index.by_name.values_mut().flat_map(BTreeMap::values_mut).for_each(|values| values.sort());
        index
    }

    /// Name of every counter (row of the trace's names), with the sum of its lanes' last values at each of
    /// `moments`. `moments` must be in time order.
    pub fn at<'a>(&'a self, moments: &'a [Timestamp]) -> impl Iterator<Item = (u32, Vec<u64>)> + 'a {
        self.by_name.iter().map(move |(name, lanes)| {
            let mut sums = vec![0u64; moments.len()];
            for values in lanes.values() {
                for (sum, moment) in sums.iter_mut().zip(moments) {
                    let told = values.partition_point(|(at, _)| at <= moment);
                    *sum = sum.saturating_add(told.checked_sub(1).map_or(0, |last| values[last].1));
                }
            }
            (*name, sums)
        })
    }
}
