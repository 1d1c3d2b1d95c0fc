//! Time cut into tiles: at level 0 one tile holds the recording, each further level halves them.

use holdup_events::{Duration, Timestamp, Trace};

/// Number of cells of a tile: about half a screen, so that a few tiles fill a screen and little is fetched in
/// vain.
pub const CELLS: usize = 512;
const CELLS_LOG2: u32 = CELLS.ilog2();

/// Division of a recording into tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiling {
    start: Timestamp,
    wall: Duration,
    /// Length of the tile of level 0 is `1 << base_log2` ns.
    base_log2: u32,
}

/// One tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tile {
    /// Level of the tile.
    pub level: u32,
    /// Number within the level, from the recording's start.
    pub index: u64,
    /// Start.
    pub start: Timestamp,
    /// End. May be after the recording's end.
    pub end: Timestamp,
    /// Length of a cell, at least 1 ns.
    pub cell: Duration,
}

impl Tiling {
    /// Tiling of a recording. The tile of level 0 is the power of two that contains it, with cells of at
    /// least 1 ns.
    pub fn new(trace: &Trace) -> Tiling {
        let wall = trace.wall();
        // 2^62 ns are 146 years: a recording that claims more is damaged.
        let base_log2 = wall.0.clamp(CELLS as u64, 1 << 62).next_power_of_two().ilog2();
        Tiling { start: trace.start(), wall, base_log2 }
    }

    /// Length of the tile of level 0 (ns).
    pub fn base_ns(&self) -> u64 {
        1 << self.base_log2
    }

    /// The last level: its cells are 1 ns.
    pub fn level_max(&self) -> u32 {
        self.base_log2 - CELLS_LOG2
    }

    /// A tile. `None` if there is none with that number, or if it is after the recording's end.
    pub fn tile(&self, level: u32, index: u64) -> Option<Tile> {
        if level > self.level_max() {
            return None;
        }
        let length = self.base_ns() >> level;
        let from = length.checked_mul(index).filter(|from| *from < self.wall.0.max(1))?;
        let start = self.start + Duration(from);
        let end = start + Duration(length);
        Some(Tile { level, index, start, end, cell: Duration(length >> CELLS_LOG2) })
    }

    /// Number of tiles of a level.
    pub fn tiles(&self, level: u32) -> u64 {
        self.wall.0.max(1).div_ceil(self.base_ns() >> level.min(self.level_max()))
    }
}

impl Tile {
    /// The end of the cell that covers `at`.
    pub fn cell_end(&self, at: Timestamp) -> Timestamp {
        let cells = at.since(self.start).0 / self.cell.0 + 1;
        self.start + Duration(self.cell.0.saturating_mul(cells))
    }

    /// Cell that covers `at`. The nearest cell if `at` is outside.
    pub fn cell_of(&self, at: Timestamp) -> usize {
        ((at.since(self.start).0 / self.cell.0) as usize).min(CELLS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wall(wall_ns: u64) -> Tiling {
        let mut trace = Trace::default();
        trace.manifest.start_ns = 1000;
        trace.manifest.end_ns = 1000 + wall_ns;
        Tiling::new(&trace)
    }

    #[test]
    fn tiles_of_each_level_hold_the_recording() {
        for wall_ns in [0, 1, 511, 512, 513, 1_000_000, 12_650_000_000, u64::MAX / 2] {
            let tiling = of_wall(wall_ns);
            assert!(tiling.base_ns() >= wall_ns.min(1 << 62), "{wall_ns}");
            for level in 0..=tiling.level_max() {
                let count = tiling.tiles(level);
                let last = tiling.tile(level, count - 1).expect("the last tile is there");
                assert!(last.end.0 >= 1000 + wall_ns.min(1 << 62), "{wall_ns} {level}");
                assert_eq!(tiling.tile(level, count), None, "{wall_ns} {level}");
                assert!(last.cell.0 >= 1);
            }
            assert_eq!(tiling.tile(tiling.level_max() + 1, 0), None);
            assert_eq!(tiling.tile(0, u64::MAX), None);
        }
    }

    #[test]
    fn cells_tile_a_tile() {
        let tile = of_wall(1 << 20).tile(3, 1).expect("there");
        assert_eq!(tile.cell_end(tile.start), tile.start + tile.cell);
        assert_eq!(tile.cell_of(tile.end - Duration(1)), CELLS - 1);
        assert_eq!(tile.cell_of(tile.start + tile.cell), 1);
    }
}
