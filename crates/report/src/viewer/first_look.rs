//! `api/first-look`: the preview while a long recording is read. It has the form of a file without a server:
//! a summary, and tiles of the first levels. Its classes are only thread states, not those of the ledger.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::tables::Thread;
use holdup_events::{ThreadId, Trace};
use holdup_findings::derive::zoom::first_look::{ByDoing, Doing, FirstLook, ThreadLook};
use holdup_findings::derive::zoom::{Tile, Tiling};
use serde_json::{Value, json};

use super::{API_VERSION, summary, to_text};

/// More lanes than this fill no screen.
const LANES_MAX: usize = 60;
/// Levels with tiles. If the preview's cells are longer than a tile's, rows are longer, too.
const LEVELS: u32 = 2;

/// Returns the response. `trace` only needs its manifest, processes, threads and losses.
pub fn answer(trace: &Trace, look: &FirstLook) -> String {
    let tiling = Tiling::new(trace);
    let shown = shown(trace, look);
    let mut out: BTreeMap<String, Value> = BTreeMap::new();
    out.insert("api".to_owned(), API_VERSION.into());
    out.insert("summary".to_owned(), summary(trace, look, &shown));
    for level in 0..LEVELS.min(tiling.level_max() + 1) {
        for tile in (0..tiling.tiles(level)).filter_map(|index| tiling.tile(level, index)) {
            for thread in &shown {
                let key = format!("lanes/{thread}/{level}/{}", tile.index);
                out.insert(key, lane(trace, look, *thread, &tile));
            }
            out.insert(format!("counters/{level}/{}", tile.index), counters(trace, look, &tile));
        }
    }
    to_text(&out)
}

/// The program's threads that wanted a CPU longest.
fn shown(trace: &Trace, look: &FirstLook) -> Vec<usize> {
    let wanted = |total: &ByDoing| total[Doing::Running as usize] + total[Doing::RunQueue as usize];
    let own = trace.threads.iter().zip(&look.threads).enumerate().filter(|(_, (thread, _))| thread.target);
    let mut own: Vec<(usize, u64)> = own.map(|(id, (_, look))| (id, wanted(&look.total))).collect();
    own.sort_by_key(|(id, ns)| (Reverse(*ns), *id));
    own.into_iter().take(LANES_MAX).map(|(id, _)| id).collect()
}

/// Unknown values are null. Losses are those that the recorder counted.
fn summary(trace: &Trace, look: &FirstLook, shown: &[usize]) -> Value {
    let own = trace.threads.iter().zip(&look.threads).filter(|(thread, _)| thread.target);
    let mut classes = ByDoing::default();
    own.for_each(|(_, look)| classes.iter_mut().zip(look.total).for_each(|(sum, ns)| *sum += ns));
    let thread = |id: &usize| thread(trace, *id, &look.threads[*id]);
    let mut out = summary::of_recording(trace, &Tiling::new(trace));
    out.extend([
        ("pending", true.into()),
        ("first_look", true.into()),
        ("classes", Doing::ALL.iter().enumerate().map(|(rank, doing)| class(*doing, rank)).collect()),
        (
            "ledger",
            json!({
                "total_ns": classes.iter().sum::<u64>(),
                "classes": classes,
                "run_queue": null,
                "split_error_ns": null,
                "split_known": false,
                "samples": null,
            }),
        ),
        ("threads", shown.iter().map(thread).collect()),
        ("parallelism", Value::Null),
        ("against", Value::Null),
    ]);
    out.extend(["cpus", "findings", "symptoms", "skipped", "thinned"].map(|list| (list, json!([]))));
    json!(out)
}

fn class(doing: Doing, rank: usize) -> Value {
    let (name, kind) = match doing {
        Doing::Running => ("running", "running"),
        Doing::RunQueue => ("run-queue", "queue"),
        Doing::Waiting => ("waiting", "wait"),
        Doing::Unknown => ("unknown", "unknown"),
    };
    json!({"name": name, "kind": kind, "rank": rank})
}

fn thread(trace: &Trace, id: usize, look: &ThreadLook) -> Value {
    let mut out = summary::of_thread(trace, ThreadId(id as u32), look.slices);
    out.insert("classes", json!(look.total));
    json!(out)
}

/// Cells of a tile, as rows: those of one doing that follow each other are one.
fn lane(trace: &Trace, look: &FirstLook, id: usize, tile: &Tile) -> Value {
    let mut rows: Vec<(u64, u64, ByDoing, u64)> = Vec::new();
    for (span, doings, begun) in cells(trace, look, &look.threads[id], tile) {
        let life = of_life(trace, &trace.threads[id], span);
        if doings.iter().all(|ns| *ns == 0) {
            continue;
        }
        match rows.last_mut().filter(|(_, end, before, _)| {
            *end == life.0 && alone(before).is_some_and(|one| alone(&doings) == Some(one))
        }) {
            Some((_, end, sums, slices)) => {
                *end = life.1;
                sums.iter_mut().zip(doings).for_each(|(sum, ns)| *sum += ns);
                *slices += begun;
            }
            None => rows.push((life.0, life.1, doings, begun)),
        }
    }
    let mix = |(_, _, doings, slices): &(u64, u64, ByDoing, u64)| {
        let mut mix = vec![*slices];
        let there = doings.iter().enumerate().filter(|(_, ns)| **ns > 0);
        there.for_each(|(class, ns)| mix.extend([class as u64, *ns]));
        mix
    };
    let most =
        |(_, _, doings, _): &(u64, u64, ByDoing, u64)| (0..doings.len()).rev().max_by_key(|one| doings[*one]);
    json!({
        "thread": id,
        "complete": false,
        "start": rows.iter().map(|row| row.0).collect::<Vec<_>>(),
        "end": rows.iter().map(|row| row.1).collect::<Vec<_>>(),
        "class": rows.iter().map(most).collect::<Vec<_>>(),
        "row": vec![-1; rows.len()],
        "cpu": vec![-1; rows.len()],
        "mix": rows.iter().map(mix).collect::<Vec<_>>(),
    })
}

/// The only state, if there is exactly one.
fn alone(doings: &ByDoing) -> Option<usize> {
    let mut there = (0..doings.len()).filter(|one| doings[*one] > 0);
    there.next().filter(|_| there.next().is_none())
}

/// A cell's part of a thread's life.
fn of_life(trace: &Trace, thread: &Thread, (from, to): (u64, u64)) -> (u64, u64) {
    let (start, end) = (thread.start.since(trace.start()).0, thread.end.since(trace.start()).0);
    (from.clamp(start, end), to.clamp(start, end))
}

/// Sums of a tile's cells, or of the preview's longer cells: time range, time by state, number of slices that
/// begin.
fn cells<'a>(
    trace: &Trace,
    look: &'a FirstLook,
    thread: &'a ThreadLook,
    tile: &Tile,
) -> impl Iterator<Item = ((u64, u64), ByDoing, u64)> + 'a {
    let wide = (tile.cell.0 / look.cell.0).max(1) as usize;
    let (cell_ns, wall) = (look.cell.0, trace.wall().0);
    let first = (tile.start.since(trace.start()).0 / cell_ns) as usize;
    let behind = (tile.end.since(trace.start()).0.div_ceil(cell_ns) as usize).min(thread.cells.len());
    (first..behind).step_by(wide).map(move |from| {
        let to = (from + wide).min(behind);
        let mut sums = ByDoing::default();
        let mut begun = 0;
        for (doings, slices) in &thread.cells[from..to] {
            sums.iter_mut().zip(doings).for_each(|(sum, ns)| *sum += ns);
            begun += u64::from(*slices);
        }
        ((from as u64 * cell_ns, (to as u64 * cell_ns).min(wall)), sums, begun)
    })
}

/// How many threads ran and wanted to.
fn counters(trace: &Trace, look: &FirstLook, tile: &Tile) -> Value {
    let cell_ns = tile.cell.0.max(look.cell.0);
    let mut sums: Vec<(u64, ByDoing)> = Vec::new();
    for thread in &look.threads {
        for (place, ((from, to), doings, _)) in cells(trace, look, thread, tile).enumerate() {
            if sums.len() <= place {
                sums.push((to - from, ByDoing::default()));
            }
            sums[place].1.iter_mut().zip(doings).for_each(|(sum, ns)| *sum += ns);
        }
    }
    let mean = |doing: Doing| -> Vec<f64> {
        let mean = |(length, sum): &(u64, ByDoing)| sum[doing as usize] as f64 / (*length).max(1) as f64;
        sums.iter().map(|cell| (mean(cell) * 1000.0).round() / 1000.0).collect()
    };
    json!({
        "level": tile.level,
        "tile": tile.index,
        "start_ns": tile.start.since(trace.start()).0,
        "end_ns": tile.end.since(trace.start()).0,
        "cell_ns": cell_ns,
        "series": [
            {"name": "running", "unit": "threads", "values": mean(Doing::Running)},
            {"name": "run-queue", "unit": "threads", "values": mean(Doing::RunQueue)},
        ],
    })
}
