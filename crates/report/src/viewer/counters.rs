//! `api/counters`: what all threads did together, cell by cell.

use holdup_events::{Duration, Timestamp};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger::{ByClass, on_cpu_ns};
use holdup_findings::derive::zoom::{CELLS, Tile};
use serde_json::{Value, json};

use super::{Ask, Refusal, Viewer, to_text};

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    Ok(to_text(&to_json(viewer, &viewer.tile(ask)?)))
}

pub(super) fn to_json(viewer: &Viewer, tile: &Tile) -> Value {
    let cells = viewer.overview.tile(&viewer.trace, &viewer.zoom, tile);
    let lengths = cell_lengths(viewer, tile);
    let mean = |of: &dyn Fn(&ByClass) -> u64| -> Vec<f64> {
        let cells = lengths.iter().zip(&cells);
        cells.map(|(length, cell)| rounded(of(cell) as f64 / *length as f64)).collect()
    };
    let mut series = vec![
        json!({"name": "running", "unit": "threads", "values": mean(&on_cpu_ns)}),
        json!({"name": "run-queue", "unit": "threads", "values": mean(&|cell| cell[Class::RunQueue as usize])}),
        json!({"name": "cpu-others", "unit": "cpus", "values": other_program_cpus(viewer, tile, &lengths)}),
    ];
    for class in Class::ALL.into_iter().filter(|class| cells.iter().any(|cell| cell[*class as usize] > 0)) {
        let values = mean(&|cell| cell[class as usize]);
        series.push(json!({"name": format!("class/{}", class.name()), "unit": "threads", "values": values}));
    }
    let ends: Vec<Timestamp> =
        (1..=lengths.len() as u64).map(|cell| tile.start + Duration(tile.cell.0 * cell)).collect();
    for (name, values) in viewer.counters.at(&ends) {
        let name = format!("runtime/{}", viewer.trace.event_name(name).text);
        series.push(json!({"name": name, "unit": "", "values": values}));
    }
    json!({
        "level": tile.level,
        "tile": tile.index,
        "start_ns": viewer.since(tile.start),
        "end_ns": viewer.since(tile.end),
        "cell_ns": tile.cell.0,
        "series": series,
    })
}

/// The recorded part of each cell (ns). Cells after the end are left out.
fn cell_lengths(viewer: &Viewer, tile: &Tile) -> Vec<u64> {
    let held = tile.end.min(viewer.trace.end()).since(tile.start).0;
    let length = |cell: u64| held.saturating_sub(cell * tile.cell.0).min(tile.cell.0);
    (0..CELLS as u64).map(length).take_while(|length| *length > 0).collect()
}

/// How many CPUs ran others.
fn other_program_cpus(viewer: &Viewer, tile: &Tile, lengths: &[u64]) -> Vec<f64> {
    let mut sums = vec![0u64; lengths.len()];
    for (_, timeline) in viewer.timelines.iter() {
        let mut cursor = 0;
        let mut at = tile.start;
        for (sum, length) in sums.iter_mut().zip(lengths) {
            let end = at + Duration(*length);
            *sum += timeline.ran(at, end, &mut cursor).1;
            at = end;
        }
    }
    sums.iter().zip(lengths).map(|(ns, length)| rounded(*ns as f64 / *length as f64)).collect()
}

/// To a thousandth: what a picture can show.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
