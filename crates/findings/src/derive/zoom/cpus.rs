//! One CPU in one tile: the running threads if they can be distinguished, otherwise sums.

use holdup_events::{ThreadId, Timestamp};

use super::Tile;
use crate::derive::timelines::{Stretch, Timeline};

/// One CPU in one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuLane {
    /// In time order, without overlaps. Idle time has no rows.
    pub rows: Vec<CpuRow>,
    /// Whether no stretches were merged.
    pub complete: bool,
}

/// One stretch, or several that are too short to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRow {
    /// Start of the stretch, which may be before the tile. For merged stretches, the start of the first one
    /// or of the cell.
    pub start: Timestamp,
    /// End of the stretch, by the same rule.
    pub end: Timestamp,
    /// Running thread or threads.
    pub who: Ran,
}

/// Content of [`CpuRow::who`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// A single thread.
    Thread(ThreadId),
    /// Number of merged stretches, and running time of the program's threads and of others (ns).
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
        // A long stretch that begins in this cell is the last one to begin there.
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
