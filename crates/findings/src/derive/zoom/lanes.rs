//! One thread in one tile: slices if they can be distinguished, otherwise sums.

use holdup_events::{ThreadId, Timestamp, Trace};

use super::{Tile, Walk, Zoom, class_of, difference};
use crate::derive::class::Class;
use crate::derive::ledger::ByClass;

/// One thread in one tile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// In time order, without overlaps.
    pub rows: Vec<LaneRow>,
    /// Whether no slices were merged.
    pub complete: bool,
}

/// One slice, or several that are too short to distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRow {
    /// Start of the slice, which may be before the tile. For merged slices, the start of the merged time.
    pub start: Timestamp,
    /// End, by the same rule. Merged slices may end in the cell after the one that they began in.
    pub end: Timestamp,
    /// Class of the slice. For merged slices, the class with the most time.
    pub class: Class,
    /// Content of the row.
    pub what: LaneWhat,
}

/// Content of [`LaneRow::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneWhat {
    /// The slice of that row.
    Slice(usize),
    /// Number of merged slices or parts of slices, with their time by class (ns).
    Merged(u32, ByClass),
}

/// Fills a tile: slices at least a cell long are given, shorter ones merged cell by cell.
pub fn lane(trace: &Trace, zoom: &Zoom, thread: ThreadId, tile: &Tile) -> Lane {
    let walk = Walk::new(zoom, trace, thread);
    let mut lane = Lane { rows: Vec::new(), complete: true };
    let mut at = tile.start.max(walk.life.0);
    let to = tile.end.min(walk.life.1);
    // The slice that covers `at` is the last one to begin at or before it.
    let mut place = walk.starts.partition_point(|start| *start <= at).saturating_sub(1);
    let mut sums: Option<(Timestamp, ByClass)> = None;
    while at < to && place < walk.len() {
        if walk.end(place) <= at {
            place += 1;
            continue;
        }
        if walk.end(place).since(walk.start(place)) >= tile.cell {
            lane.push_slice(&walk, place);
            at = walk.end(place);
            place += 1;
            continue;
        }
        // Slices that begin in this cell are merged. The last one may end in the next cell.
        let behind = walk.place_from(place + 1, tile.cell_end(at).min(to));
        let last = behind - 1;
        let is_long = walk.end(last).since(walk.start(last)) >= tile.cell;
        let (end, places) = if is_long { (walk.start(last), last) } else { (walk.end(last).min(to), behind) };
        if places == place + 1 {
            lane.push_slice(&walk, place);
        } else {
            let from = match sums {
                Some((known, sums)) if known == at => sums,
                _ => walk.before(if at > walk.start(place) { place + 1 } else { place }, at),
            };
            let upto = walk.before(places, end);
            lane.push_merged((at, end), (places - place) as u32, difference(&upto, &from));
            sums = Some((end, upto));
        }
        at = end.max(at);
        place = places;
    }
    lane
}

impl Lane {
    fn push_slice(&mut self, walk: &Walk, place: usize) {
        let (start, end) = (walk.start(place), walk.end(place));
        if let Some(class) = class_of(walk.class(place)) {
            self.rows.push(LaneRow { start, end, class, what: LaneWhat::Slice(walk.first + place) });
        }
    }

    fn push_merged(&mut self, (start, end): (Timestamp, Timestamp), slices: u32, classes: ByClass) {
        self.complete = false;
        let most = Class::ALL.into_iter().rev().max_by_key(|class| classes[*class as usize]);
        let Some(class) = most.filter(|class| classes[*class as usize] > 0) else { return };
        self.rows.push(LaneRow { start, end, class, what: LaneWhat::Merged(slices, classes) });
    }
}
