//! One CPU in one tile: who ran, where that can be told apart; sums where not.

use holdup_events::{ThreadId, Timestamp};

use super::Tile;
use crate::derive::timelines::{Stretch, Timeline};

/// One CPU in one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuLane {
    /// In the order of time, not overlapping. Idle time has none.
    pub rows: Vec<CpuRow>,
    /// Nothing was merged.
    pub complete: bool,
}

/// One stretch, or several that are too short to be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRow {
    /// Its true start, which may lie before the tile; of merged ones that of the first, or the cell's.
    pub start: Timestamp,
    /// Likewise.
    pub end: Timestamp,
    /// Who ran.
    pub who: Ran,
}

/// See [`CpuRow::who`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// That thread.
    Thread(ThreadId),
    /// So many stretches, in which threads of the program and others ran so long (ns).
    Merged(u32, u64, u64),
}

/// Fills a tile: stretches at least a cell long are given, shorter ones merged cell by cell.
pub fn cpu_lane(timeline: &Timeline, tile: &Tile) -> CpuLane {
    let stretches = timeline.between(tile.start, tile.end);
    let mut lane = CpuLane { rows: Vec::new(), complete: true };
    let length = |stretch: &Stretch| stretch.end().since(stretch.start());
    let (mut place, mut cursor) = (0, 0);
    while let Some(stretch) = stretches.get(place) {
        let begins = stretch.start().max(tile.start);
        let limit = tile.cell_end(begins);
        // A long stretch that begins in this cell is the last to do so.
        let begun = stretches[place..].partition_point(|one| one.start() < limit);
        let is_long = stretches[place..].get(begun - 1).is_some_and(|one| length(one) >= tile.cell);
        let merged = if is_long { begun - 1 } else { begun };
        let last = &stretches[place + merged.max(1) - 1];
        if merged <= 1 {
            let who = Ran::Thread(stretch.thread());
            lane.rows.push(CpuRow { start: stretch.start(), end: stretch.end(), who });
        } else {
            let end = last.end().min(tile.end);
            let (own, others) = timeline.ran(begins, end, &mut cursor);
            lane.complete = false;
            lane.rows.push(CpuRow { start: begins, end, who: Ran::Merged(merged as u32, own, others) });
        }
        place += merged.max(1);
    }
    lane
}
