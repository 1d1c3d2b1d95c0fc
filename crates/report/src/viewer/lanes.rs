//! `api/lanes` and `api/cpus`: one tile of some threads, of some CPUs.

use holdup_events::{CpuId, ThreadId};
use holdup_findings::derive::parallel;
use holdup_findings::derive::zoom::cpus::Ran;
use holdup_findings::derive::zoom::lanes::LaneWhat;
use holdup_findings::derive::zoom::{Tile, cpu_lane, lane};
use serde::Serialize;

use super::{Ask, Refusal, Viewer, to_text};

/// CPUs of an answer.
const CPUS_MAX: usize = 256;

/// Where a tile lies.
#[derive(Serialize)]
pub(super) struct TileHead {
    level: u32,
    tile: u64,
    start_ns: u64,
    end_ns: u64,
    cell_ns: u64,
}

impl TileHead {
    pub(super) fn new(viewer: &Viewer, tile: &Tile) -> TileHead {
        TileHead {
            level: tile.level,
            tile: tile.index,
            start_ns: viewer.since(tile.start),
            end_ns: viewer.since(tile.end),
            cell_ns: tile.cell.0,
        }
    }
}

/// A tile with its content.
#[derive(Serialize)]
struct Answer<T: Serialize> {
    #[serde(flatten)]
    head: TileHead,
    #[serde(flatten)]
    content: T,
}

/// The threads' part.
#[derive(Serialize)]
struct Lanes {
    lanes: Vec<LaneColumns>,
}

/// One thread's rows, by column.
#[derive(Default, Serialize)]
pub(super) struct LaneColumns {
    thread: u32,
    pub(super) complete: bool,
    start: Vec<u64>,
    end: Vec<u64>,
    class: Vec<u8>,
    row: Vec<i64>,
    cpu: Vec<i32>,
    mix: Vec<Option<Vec<u64>>>,
}

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let tile = viewer.tile(ask)?;
    let Some(threads) = viewer.threads(ask)? else { return Err(Refusal::bad("threads is missing")) };
    let lanes = parallel::map(threads.len(), |index| columns(viewer, threads[index], &tile));
    Ok(to_text(&Answer { head: TileHead::new(viewer, &tile), content: Lanes { lanes } }))
}

/// One thread's part of a tile.
pub(super) fn columns(viewer: &Viewer, thread: ThreadId, tile: &Tile) -> LaneColumns {
    let found = lane(&viewer.trace, &viewer.zoom, thread, tile);
    let mut out = LaneColumns { thread: thread.0, complete: found.complete, ..LaneColumns::default() };
    for row in found.rows {
        out.start.push(viewer.since(row.start));
        out.end.push(viewer.since(row.end));
        out.class.push(row.class as u8);
        match row.what {
            LaneWhat::Slice(number) => {
                let cpu = viewer.trace.slices.at(thread, number).cpu;
                out.row.push(number as i64);
                out.cpu.push(cpu_number(cpu));
                out.mix.push(None);
            }
            LaneWhat::Merged(slices, classes) => {
                let mut mix = vec![u64::from(slices)];
                let there = classes.iter().enumerate().filter(|(_, ns)| **ns > 0);
                there.for_each(|(class, ns)| mix.extend([class as u64, *ns]));
                out.row.push(-1);
                out.cpu.push(-1);
                out.mix.push(Some(mix));
            }
        }
    }
    out
}

/// A CPU's number, -1 if there is none.
pub(super) fn cpu_number(cpu: CpuId) -> i32 {
    if cpu == CpuId::NONE { -1 } else { i32::from(cpu.0) }
}

/// The CPUs' part.
#[derive(Serialize)]
struct Cpus {
    cpus: Vec<CpuColumns>,
}

/// One CPU's rows, by column.
#[derive(Default, Serialize)]
pub(super) struct CpuColumns {
    cpu: u16,
    pub(super) complete: bool,
    start: Vec<u64>,
    end: Vec<u64>,
    thread: Vec<i64>,
    mix: Vec<Option<[u64; 3]>>,
}

pub(super) fn answer_cpus(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let tile = viewer.tile(ask)?;
    let cpus: Vec<CpuId> = match ask.numbers("cpus")? {
        Some(cpus) => cpus.into_iter().filter_map(|cpu| u16::try_from(cpu).ok()).map(CpuId).collect(),
        None => viewer.timelines.iter().map(|(cpu, _)| cpu).take(CPUS_MAX).collect(),
    };
    let cpus = parallel::map(cpus.len(), |index| cpu_columns(viewer, cpus[index], &tile));
    Ok(to_text(&Answer { head: TileHead::new(viewer, &tile), content: Cpus { cpus } }))
}

/// One CPU's part of a tile. Without rows for a CPU that ran nothing or does not exist.
pub(super) fn cpu_columns(viewer: &Viewer, cpu: CpuId, tile: &Tile) -> CpuColumns {
    let found = viewer.timelines.of_cpu(cpu).map(|timeline| cpu_lane(timeline, tile));
    let rows = found.as_ref().map_or(&[][..], |lane| &lane.rows);
    let complete = found.as_ref().is_none_or(|lane| lane.complete);
    let mut out = CpuColumns { cpu: cpu.0, complete, ..CpuColumns::default() };
    for row in rows {
        out.start.push(viewer.since(row.start));
        out.end.push(viewer.since(row.end));
        let (thread, mix) = match row.who {
            Ran::Thread(thread) => (i64::from(thread.0), None),
            Ran::Merged(stretches, own, others) => (-1, Some([u64::from(stretches), own, others])),
        };
        out.thread.push(thread);
        out.mix.push(mix);
    }
    out
}
