//! `api/samples`: ticks in a tile.

use std::collections::BTreeMap;

use holdup_events::tables::SampleRow;
use holdup_events::{FrameId, ThreadId};
use holdup_findings::derive::zoom::{CELLS, Tile};
use serde::Serialize;

use super::lanes::TileHead;
use super::{Ask, Refusal, Viewer, to_text};

/// An answer.
#[derive(Serialize)]
struct Samples {
    #[serde(flatten)]
    head: TileHead,
    names: Vec<String>,
    lanes: Vec<SampleColumns>,
}

/// One thread's samples, by column.
#[derive(Default, Serialize)]
pub(super) struct SampleColumns {
    thread: u32,
    every: usize,
    at: Vec<u64>,
    kernel: Vec<u8>,
    leaf: Vec<u32>,
}

/// Names of functions, each once.
#[derive(Default)]
pub(super) struct Names {
    pub(super) list: Vec<String>,
    index: BTreeMap<String, u32>,
    of_frame: BTreeMap<Option<FrameId>, u32>,
}

impl Names {
    fn number_of(&mut self, viewer: &Viewer, frame: Option<FrameId>) -> u32 {
        if let Some(known) = self.of_frame.get(&frame) {
            return *known;
        }
        let name = frame.map_or_else(|| "(no stack)".to_owned(), |frame| viewer.trace.frame_name(frame));
        let next = self.list.len() as u32;
        let number = *self.index.entry(name.clone()).or_insert(next);
        if number == next {
            self.list.push(name);
        }
        self.of_frame.insert(frame, number);
        number
    }
}

pub(super) fn answer(viewer: &Viewer, ask: &Ask) -> Result<String, Refusal> {
    let tile = viewer.tile(ask)?;
    let Some(threads) = viewer.threads(ask)? else { return Err(Refusal::bad("threads is missing")) };
    let mut names = Names::default();
    let lanes = threads.iter().map(|thread| columns(viewer, *thread, &tile, &mut names)).collect();
    Ok(to_text(&Samples { head: TileHead::new(viewer, &tile), lanes, names: names.list }))
}

/// The samples of a thread, in the order of time.
pub(super) fn of_thread(viewer: &Viewer, thread: ThreadId) -> &[SampleRow] {
    let samples = &viewer.trace.samples;
    let from = samples.partition_point(|sample| sample.thread < thread);
    let behind = samples.partition_point(|sample| sample.thread <= thread);
    samples.get(from..behind).unwrap_or(&[])
}

/// One thread's part of a tile.
pub(super) fn columns(viewer: &Viewer, thread: ThreadId, tile: &Tile, names: &mut Names) -> SampleColumns {
    let samples = of_thread(viewer, thread);
    let from = samples.partition_point(|sample| sample.at < tile.start);
    let behind = samples.partition_point(|sample| sample.at < tile.end);
    let inside = samples.get(from..behind).unwrap_or(&[]);
    let every = inside.len().div_ceil(CELLS).max(1);
    let mut out = SampleColumns { thread: thread.0, every, ..SampleColumns::default() };
    for sample in inside.iter().step_by(every) {
        out.at.push(viewer.since(sample.at));
        out.kernel.push(u8::from(sample.in_kernel));
        out.leaf.push(names.number_of(viewer, viewer.trace.stack_frames(sample.stack).next()));
    }
    out
}
