//! What all threads of the program did together, cell by cell.

use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::tiles::{CELLS, Tile, Tiling};
use super::{Walk, Zoom};
use crate::derive::class::CLASSES;
use crate::derive::ledger::ByClass;
use crate::derive::parallel;

/// Down to this level, tiles are sums of cells that were counted once. Deeper tiles contain few slices.
const COUNTED_LEVEL: u32 = 7;

/// Time by class of all threads of the program, over time.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    tiling: Tiling,
    level: u32,
    /// Every cell of [`Overview::level`].
    cells: Vec<ByClass>,
}

impl Overview {
    /// Counts.
    pub fn derive(trace: &Trace, zoom: &Zoom) -> Overview {
        let tiling = Tiling::new(trace);
        let level = COUNTED_LEVEL.min(tiling.level_max());
        let cell = Duration((tiling.base_ns() >> level) / CELLS as u64);
        let count = (trace.wall().0.max(1).div_ceil(cell.0)) as usize;
        let groups = parallel::thread_groups(trace);
        let mut cells = vec![[0; CLASSES]; count];
        let parts = parallel::map(groups.len(), |group| {
            let threads = groups[group].clone().map(ThreadId);
            count_cells((trace, zoom), threads, (trace.start(), cell), count)
        });
        for part in parts {
            add(&mut cells, &part);
        }
        Overview { tiling, level, cells }
    }

    /// Time (ns) by class in each cell of a tile.
    pub fn tile(&self, trace: &Trace, zoom: &Zoom, tile: &Tile) -> Vec<ByClass> {
        if tile.level > self.level {
            let threads = 0..trace.threads.len() as u32;
            let part = (threads.len() / 16).max(256);
            let parts = parallel::map(threads.len().div_ceil(part), |group| {
                let threads = group * part..((group + 1) * part).min(threads.len());
                let threads = threads.map(|thread| ThreadId(thread as u32));
                count_cells((trace, zoom), threads, (tile.start, tile.cell), CELLS)
            });
            let mut cells = vec![[0; CLASSES]; CELLS];
            parts.iter().for_each(|part| add(&mut cells, part));
            return cells;
        }
        let wide = 1usize << (self.level - tile.level);
        let first = tile.index as usize * CELLS * wide;
        let cells = self.cells.get(first..).unwrap_or(&[]).chunks(wide).take(CELLS);
        let mut out = vec![[0; CLASSES]; CELLS];
        for (sum, cells) in out.iter_mut().zip(cells) {
            cells.iter().for_each(|cell| add(std::slice::from_mut(sum), std::slice::from_ref(cell)));
        }
        out
    }

    /// Tiling of the recording.
    pub fn tiling(&self) -> &Tiling {
        &self.tiling
    }
}

fn add(to: &mut [ByClass], from: &[ByClass]) {
    for (to, from) in to.iter_mut().flatten().zip(from.iter().flatten()) {
        *to += from;
    }
}

/// Time by class of some threads in `count` cells from `start` on.
fn count_cells(
    (trace, zoom): (&Trace, &Zoom),
    threads: impl Iterator<Item = ThreadId>,
    (start, cell): (Timestamp, Duration),
    count: usize,
) -> Vec<ByClass> {
    let mut cells = vec![[0u64; CLASSES]; count];
    // Number of slices that begin or end to cover whole cells at each cell.
    let mut covers = vec![[0i32; CLASSES]; count + 1];
    let end = start + Duration(cell.0.saturating_mul(count as u64));
    for thread in threads.filter(|id| trace.threads[id.index()].target) {
        let walk = Walk::new(zoom, trace, thread);
        let first = walk.starts.partition_point(|begin| *begin <= start).saturating_sub(1);
        for place in first..walk.len() {
            let (from, to) = (walk.start(place).max(start), walk.end(place).min(end));
            if walk.start(place) >= end {
                break;
            }
            let class = usize::from(walk.class(place));
            if from >= to || class >= CLASSES {
                continue;
            }
            let (a, b) = (from.since(start).0, to.since(start).0);
            let (in_first, in_last) = ((a / cell.0) as usize, (b / cell.0) as usize);
            if in_first == in_last {
                cells[in_first][class] += b - a;
                continue;
            }
            cells[in_first][class] += (in_first as u64 + 1) * cell.0 - a;
            covers[in_first + 1][class] += 1;
            covers[in_last][class] -= 1;
            if in_last < count {
                cells[in_last][class] += b - in_last as u64 * cell.0;
            }
        }
    }
    let mut open = [0i32; CLASSES];
    for (cell_sums, change) in cells.iter_mut().zip(&covers) {
        for class in 0..CLASSES {
            open[class] += change[class];
            cell_sums[class] += open[class].max(0) as u64 * cell.0;
        }
    }
    cells
}
