//! Writes responses into a file while there is room, the most useful ones first, and lists the omissions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Duration, ThreadId, Timestamp};
use holdup_findings::Evidence;
use holdup_findings::derive::zoom::Tile;
use serde_json::json;

use super::super::samples::Names;
use super::super::{
    API_VERSION, Ask, Viewer, counters, flame, lanes, path, samples, slice, spans, summary, tables, to_text,
};
use crate::numbers::{count, counted, duration};

/// Threads whose lanes are in the file.
const THREADS_MAX: usize = 1000;
/// Threads whose lanes around a finding's evidence are in the file at every zoom.
const THREADS_AROUND: usize = 64;
/// Occurrences of a finding whose surroundings are.
const EVIDENCE_MAX: usize = 8;
/// A sample has no duration: the view of a sample shows its surroundings (viewer/src/model/view.ts has the
/// same constant).
const SAMPLE_SPAN: Duration = Duration(1_000_000);
/// Tiles of a view of one: the page asks for no deeper level.
const TILES_AROUND: u64 = 4;
/// Slices of a thread around such an occurrence that can be asked about.
const SLICES_AROUND: usize = 40;
/// Number of longest waits per thread with details.
const WAITS_OF_THREAD: usize = 200;
/// The coarsest level of the whole run gets 1/2 of the room, before all other parts of the timeline.
const COARSEST_PART: usize = 2;
/// The answers are one text in the page, and browsers have no longer ones than 2^29 - 24 characters.
const TEXT_MAX: u64 = 400 << 20;
/// Nodes of a flame graph below this share are left out.
const FLAME_SHARE_MIN: &str = "0.001";

/// From when until when the view of a finding's place has it.
fn shown(row: &Evidence) -> (Timestamp, Timestamp) {
    let half = if row.table == "samples" { Duration(SAMPLE_SPAN.0 / 2) } else { Duration(0) };
    (row.start - half, row.start + row.duration + half)
}

/// Lanes of a tile.
#[derive(Clone, Default)]
struct Lanes {
    threads: Vec<ThreadId>,
    cpus: Vec<CpuId>,
}

/// Writes answers while there is room.
pub(super) struct Packer<'a> {
    viewer: &'a Viewer,
    out: GzEncoder<Vec<u8>>,
    room: usize,
    /// Bytes that were written, before they were packed.
    text: u64,
    done: BTreeSet<String>,
    /// Written lanes, and whether nothing was merged in them.
    lanes: BTreeMap<(ThreadId, u32, u64), bool>,
    cpu_lanes: BTreeMap<(CpuId, u32, u64), bool>,
    /// Lanes that the file is to have.
    wanted: Lanes,
    /// The room ended before all places of findings had their surroundings.
    some_around: bool,
    thinned: Vec<String>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(viewer: &'a Viewer, room: usize) -> std::io::Result<Packer<'a>> {
        let mut threads = summary::ranked_threads(viewer);
        threads.truncate(THREADS_MAX);
        let cpus = viewer.timelines.iter().map(|(cpu, _)| cpu).collect();
        // The summary is written last, because it lists the omissions. Its space is reserved first.
        let mut last = GzEncoder::new(Vec::new(), Compression::default());
        write!(last, "{}", to_text(&summary::to_json(viewer, &[])))?;
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        write!(out, "{{\"api\":{API_VERSION}")?;
        Ok(Packer {
            viewer,
            out,
            room: room.saturating_sub(last.finish()?.len()),
            text: 0,
            done: BTreeSet::new(),
            lanes: BTreeMap::new(),
            cpu_lanes: BTreeMap::new(),
            wanted: Lanes { threads, cpus },
            some_around: false,
            thinned: Vec::new(),
        })
    }

    fn used(&self) -> usize {
        self.out.get_ref().len()
    }

    fn has_room(&self) -> bool {
        self.used() < self.room && self.text < TEXT_MAX
    }

    /// Adds an answer under its key, once.
    fn put(&mut self, key: String, answer: impl FnOnce() -> String) -> std::io::Result<()> {
        if self.done.contains(&key) {
            return Ok(());
        }
        let answer = answer();
        self.text += (key.len() + answer.len()) as u64;
        write!(self.out, ",\"{key}\":{answer}")?;
        self.done.insert(key);
        Ok(())
    }

    /// Tables, flame graphs and the critical path of the whole run.
    pub(super) fn whole(&mut self) -> std::io::Result<()> {
        for name in tables::names() {
            if let Ok(answer) = tables::answer(self.viewer, name) {
                self.put(format!("tables/{name}"), || answer)?;
            }
        }
        for kind in flame::kinds() {
            for (reverse, key) in [("0", format!("flames/{kind}")), ("1", format!("flames/{kind}/reverse"))] {
                let against = u8::from(self.viewer.against.is_some());
                let query = format!("kind={kind}&reverse={reverse}&against={against}&min={FLAME_SHARE_MIN}");
                let ask = Ask::parse(&query, flame::PARAMETERS);
                if let Ok(answer) = ask.and_then(|ask| flame::answer(self.viewer, &ask)) {
                    self.put(key, || answer)?;
                }
            }
        }
        if let Ok(answer) = Ask::parse("", &[]).and_then(|ask| path::answer(self.viewer, &ask)) {
            self.put("path".to_owned(), || answer)?;
        }
        Ok(())
    }

    /// Writes a lane with its samples and spans. Returns whether it is complete. `None` if there is no room.
    fn lane(&mut self, thread: ThreadId, tile: &Tile) -> std::io::Result<Option<bool>> {
        let place = (thread, tile.level, tile.index);
        if self.lanes.contains_key(&place) || !self.has_room() {
            return Ok(self.lanes.get(&place).copied());
        }
        let columns = lanes::columns(self.viewer, thread, tile);
        let key = format!("{}/{}/{}", thread.0, tile.level, tile.index);
        self.put(format!("lanes/{key}"), || to_text(&columns))?;
        let mut names = Names::default();
        let ticks = samples::columns(self.viewer, thread, tile, &mut names);
        let answer = json!({"names": names.list, "lane": ticks});
        self.put(format!("samples/{key}"), || to_text(&answer))?;
        let spans = spans::in_tile(self.viewer, &[thread], tile);
        if !spans.is_empty() {
            self.put(format!("spans/{key}"), || to_text(&spans))?;
        }
        let complete = columns.complete && spans.is_complete();
        self.lanes.insert(place, complete);
        Ok(Some(complete))
    }

    fn cpu(&mut self, cpu: CpuId, tile: &Tile) -> std::io::Result<Option<bool>> {
        let place = (cpu, tile.level, tile.index);
        if self.cpu_lanes.contains_key(&place) || !self.has_room() {
            return Ok(self.cpu_lanes.get(&place).copied());
        }
        let columns = lanes::cpu_columns(self.viewer, cpu, tile);
        let key = format!("cpus/{}/{}/{}", cpu.0, tile.level, tile.index);
        self.put(key, || to_text(&columns))?;
        self.cpu_lanes.insert(place, columns.complete);
        Ok(Some(columns.complete))
    }

    fn counters(&mut self, tile: &Tile) -> std::io::Result<()> {
        let viewer = self.viewer;
        self.put(format!("counters/{}/{}", tile.level, tile.index), || {
            to_text(&counters::to_json(viewer, tile))
        })
    }

    /// Writes the lanes of a tile. Returns the lanes with more detail in deeper tiles. `None` if the room did
    /// not suffice for all.
    fn tile(&mut self, tile: &Tile, lanes: &Lanes) -> std::io::Result<Option<Lanes>> {
        self.counters(tile)?;
        let mut on = Lanes::default();
        for cpu in &lanes.cpus {
            match self.cpu(*cpu, tile)? {
                None => return Ok(None),
                Some(true) => {}
                Some(false) => on.cpus.push(*cpu),
            }
        }
        for thread in &lanes.threads {
            match self.lane(*thread, tile)? {
                None => return Ok(None),
                Some(true) => {}
                Some(false) => on.threads.push(*thread),
            }
        }
        Ok(Some(on))
    }

    /// The whole run as coarsely as can be: a lane without it is empty wherever one looks.
    pub(super) fn coarsest(&mut self) -> std::io::Result<()> {
        let Some(tile) = self.viewer.tiling.tile(0, 0) else { return Ok(()) };
        let room = self.room;
        self.room = self.used() + room.saturating_sub(self.used()) / COARSEST_PART;
        self.tile(&tile, &self.wanted.clone())?;
        self.room = room;
        Ok(())
    }

    /// A slice, and those that its chain leads to.
    fn slice(&mut self, thread: ThreadId, row: usize) -> std::io::Result<()> {
        for (thread, row) in slice::chain(self.viewer, thread, row) {
            let viewer = self.viewer;
            self.put(format!("slices/{}/{row}", thread.0), || to_text(&slice::to_json(viewer, thread, row)))?;
        }
        Ok(())
    }

    /// All zooms down to where the evidence of each finding fills the view.
    pub(super) fn around_findings(&mut self) -> std::io::Result<()> {
        let viewer = self.viewer;
        for round in 0..EVIDENCE_MAX {
            for finding in &viewer.analysis().findings {
                let Some(row) = finding.evidence.get(round) else { continue };
                if !self.has_room() {
                    self.some_around = true;
                    return Ok(());
                }
                if let Some((slice, ..)) = row.slice(&viewer.trace) {
                    self.slice(row.thread, slice)?;
                }
                let (from, to) = shown(row);
                let margin = Duration(to.since(from).0.max(1000) * 2);
                let range = ((from - margin).max(viewer.trace.start()), to + margin);
                self.some_around |= !self.around(range)?;
                self.slices_around(row.thread, range)?;
            }
        }
        Ok(())
    }

    /// Whether there was room for all of it.
    fn around(&mut self, (from, to): (Timestamp, Timestamp)) -> std::io::Result<bool> {
        let viewer = self.viewer;
        let mut open = self.wanted.clone();
        open.threads.truncate(THREADS_AROUND);
        for level in 0..=viewer.tiling.level_max() {
            let length = viewer.tiling.base_ns() >> level;
            let (first, last) = (viewer.since(from) / length, viewer.since(to) / length);
            let is_deeper_than_asked = last > first + TILES_AROUND;
            if is_deeper_than_asked || open.threads.is_empty() && open.cpus.is_empty() {
                break;
            }
            let (mut threads, mut cpus) = (BTreeSet::new(), BTreeSet::new());
            for tile in (first..=last).filter_map(|index| viewer.tiling.tile(level, index)) {
                let Some(on) = self.tile(&tile, &open)? else { return Ok(false) };
                threads.extend(on.threads);
                cpus.extend(on.cpus);
            }
            open.threads.retain(|thread| threads.contains(thread));
            open.cpus.retain(|cpu| cpus.contains(cpu));
        }
        Ok(true)
    }

    /// Writes the slices that readers are likely to select: those of this thread and of its wakers.
    fn slices_around(&mut self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> std::io::Result<()> {
        let trace = &self.viewer.trace;
        let mut threads = vec![thread];
        let wakers = trace.wakeups.of_thread(thread).iter().filter(|row| from <= row.at && row.at <= to);
        threads.extend(wakers.map(|row| row.waker).take(SLICES_AROUND));
        threads.sort();
        threads.dedup();
        for thread in threads {
            let rows = trace.slices.rows(thread);
            let first = trace.slices.covering(thread, from).unwrap_or(rows.start);
            let inside = (first..rows.end).take_while(|row| trace.slices.at(thread, *row).start < to);
            for row in inside.take(SLICES_AROUND).collect::<Vec<_>>() {
                if !self.has_room() {
                    return Ok(());
                }
                self.slice(thread, row)?;
            }
        }
        Ok(())
    }

    /// Writes every lane, level by level, until all are complete or the room is used up.
    pub(super) fn levels(&mut self) -> std::io::Result<()> {
        let viewer = self.viewer;
        let mut open = BTreeMap::from([(0, self.wanted.clone())]);
        for level in 0..=viewer.tiling.level_max() {
            let mut next: BTreeMap<u64, Lanes> = BTreeMap::new();
            for (index, lanes) in std::mem::take(&mut open) {
                let Some(tile) = viewer.tiling.tile(level, index) else { continue };
                let Some(on) = self.tile(&tile, &lanes)? else {
                    self.thin(&tile);
                    return Ok(());
                };
                if !on.threads.is_empty() || !on.cpus.is_empty() {
                    next.insert(index * 2, on.clone());
                    next.insert(index * 2 + 1, on);
                }
            }
            open = next;
        }
        Ok(())
    }

    /// The room ended in this tile.
    fn thin(&mut self, tile: &Tile) {
        // The level above is complete, with every slice that is at least a cell long. The first level has
        // none above, and the sentence is about its written lanes.
        let shortest = duration(if tile.level == 0 { tile.cell.0 } else { tile.cell.0 * 2 });
        let places = if self.some_around { "some of the worst places" } else { "the worst places" };
        self.thinned.push(format!(
            "To stay small, this file shows slices shorter than {shortest} one by one only around {places} of the findings."
        ));
    }

    /// Which lanes the file does not have at all.
    fn missing(&mut self) {
        let viewer = self.viewer;
        let all = viewer.totals.threads.len();
        let told = self.lanes.keys().filter(|(_, level, _)| *level == 0).count();
        if told < all {
            let left = count((all - told) as u64);
            self.thinned.push(format!("This file has no lanes of {left} of the program's threads."));
        }
        let told = self.cpu_lanes.keys().filter(|(_, level, _)| *level == 0).count();
        if told < self.wanted.cpus.len() {
            let left = count((self.wanted.cpus.len() - told) as u64);
            self.thinned.push(format!("This file has no lanes of {left} of the CPUs."));
        }
        let threads = (0..viewer.trace.threads.len() as u32).map(ThreadId);
        let mut others = threads.filter(|id| !viewer.trace.threads[id.index()].target);
        if others.any(|id| !viewer.trace.slices.rows(id).is_empty()) {
            let sentence = "Threads of other programs have no lanes in this file: see the lanes of the CPUs for their times.";
            self.thinned.push(sentence.to_owned());
        }
    }

    /// The longest waits of every thread.
    pub(super) fn waits(&mut self) -> std::io::Result<()> {
        let trace = &self.viewer.trace;
        let mut all: Vec<(Duration, ThreadId, usize)> = Vec::new();
        for thread in self.wanted.threads.clone() {
            let is_off = |state: ThreadState| state == ThreadState::Blocked || state.waits_for_cpu();
            let slices = trace.slices.rows(thread).map(|row| (row, trace.slices.at(thread, row)));
            let mut waits: Vec<(Duration, ThreadId, usize)> = slices
                .filter(|(_, slice)| is_off(slice.state))
                .map(|(row, slice)| (slice.duration(), thread, row))
                .collect();
            waits.sort_by_key(|(length, _, row)| (std::cmp::Reverse(*length), *row));
            waits.truncate(WAITS_OF_THREAD);
            all.extend(waits);
        }
        all.sort_by_key(|(length, thread, row)| (std::cmp::Reverse(*length), *thread, *row));
        for (_, thread, row) in all {
            if !self.has_room() {
                break;
            }
            self.slice(thread, row)?;
        }
        let told = self.done.iter().filter(|key| key.starts_with("slices/")).count() as u64;
        if told < trace.slices.len() as u64 {
            self.thinned.push(format!(
                "This file explains {}, the longest and those around the findings. `holdup view RECORDING` explains all waits.",
                counted(told, "slice")
            ));
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> std::io::Result<(Vec<u8>, Vec<String>)> {
        self.missing();
        let summary = to_text(&summary::to_json(self.viewer, &self.thinned));
        self.put("summary".to_owned(), || summary)?;
        write!(self.out, "}}")?;
        Ok((self.out.finish()?, self.thinned))
    }
}
