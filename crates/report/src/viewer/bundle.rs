//! `--html`: the page and the answers in one file that opens from disk and loads nothing.
//!
//! What a reader asks first is there whole: summary, tables, flame graphs. Of the timeline, first what surrounds the
//! findings' evidence at every zoom, then level by level as far as the size allows; the summary says what is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use holdup_events::tables::ThreadState;
use holdup_events::{CpuId, Duration, ThreadId, Timestamp};
use holdup_findings::Evidence;
use holdup_findings::derive::zoom::Tile;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::page::{Asset, find};
use super::samples::Names;
use super::{
    API_VERSION, Ask, Viewer, counters, flame, lanes, path, samples, slice, spans, summary, tables, to_text,
};
use crate::numbers::{count, counted, duration};

/// Why no page can be made.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The page's own files are not what was expected.
    #[error("the viewer's page has no {0}: build it again (npm run build in viewer/)")]
    Incomplete(&'static str),
    /// The packing failed.
    #[error("packing the answers")]
    Packing(#[from] std::io::Error),
}

/// From when until when the view of a finding's place has it.
fn shown(row: &Evidence) -> (Timestamp, Timestamp) {
    let half = if row.table == "samples" { Duration(SAMPLE_SPAN.0 / 2) } else { Duration(0) };
    (row.start - half, row.start + row.duration + half)
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The file.
    pub html: String,
    /// What it leaves out, in sentences.
    pub thinned: Vec<String>,
}

/// Threads whose lanes are in the file.
const THREADS_MAX: usize = 1000;
/// Threads whose lanes around a finding's evidence are in the file at every zoom.
const THREADS_AROUND: usize = 64;
/// Occurrences of a finding whose surroundings are.
const EVIDENCE_MAX: usize = 8;
/// A sample is a moment: the view of one shows what lies around it (viewer/src/model/view.ts has the same).
const SAMPLE_SPAN: Duration = Duration(1_000_000);
/// Tiles of a view of one: the page asks for no deeper level.
const TILES_AROUND: u64 = 4;
/// Slices of a thread around such an occurrence that can be asked about.
const SLICES_AROUND: usize = 40;
/// Of each thread, the longest waits can be asked about.
const WAITS_OF_THREAD: usize = 200;
/// Nodes of a flame graph below this share are left out.
const FLAME_SHARE_MIN: &str = "0.001";

/// The page with the answers, at most about `bytes_max` long.
///
/// # Errors
/// [`PageError`]
pub fn page(viewer: &Viewer, assets: &[Asset], bytes_max: u64) -> Result<Page, PageError> {
    // Base64 makes four bytes of three.
    let own: usize = assets.iter().map(|asset| asset.bytes.len()).sum();
    let room = (bytes_max.saturating_sub(own as u64) / 4 * 3) as usize;
    let mut packer = Packer::new(viewer, room)?;
    packer.whole()?;
    packer.around_findings()?;
    packer.levels()?;
    packer.waits()?;
    let (packed, thinned) = packer.finish()?;
    Ok(Page { html: assemble(assets, &STANDARD.encode(packed))?, thinned })
}

/// Writes answers while there is room.
struct Packer<'a> {
    viewer: &'a Viewer,
    out: GzEncoder<Vec<u8>>,
    room: usize,
    done: BTreeSet<String>,
    /// Lanes that are told, and whether nothing was merged in them.
    lanes: BTreeMap<(ThreadId, u32, u64), bool>,
    cpu_lanes: BTreeMap<(CpuId, u32, u64), bool>,
    threads: Vec<ThreadId>,
    cpus: Vec<CpuId>,
    thinned: Vec<String>,
}

impl<'a> Packer<'a> {
    fn new(viewer: &'a Viewer, room: usize) -> std::io::Result<Packer<'a>> {
        let mut threads = summary::ranked_threads(viewer);
        let mut thinned = Vec::new();
        if threads.len() > THREADS_MAX {
            let left = count((threads.len() - THREADS_MAX) as u64);
            thinned.push(format!("This file has no lanes of {left} of the program's threads."));
            threads.truncate(THREADS_MAX);
        }
        let cpus = viewer.timelines.iter().map(|(cpu, _)| cpu).collect();
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        write!(out, "{{\"api\":{API_VERSION}")?;
        Ok(Packer {
            viewer,
            out,
            room,
            done: BTreeSet::new(),
            lanes: BTreeMap::new(),
            cpu_lanes: BTreeMap::new(),
            threads,
            cpus,
            thinned,
        })
    }

    fn has_room(&self) -> bool {
        self.out.get_ref().len() < self.room
    }

    /// Adds an answer under its key, once.
    fn put(&mut self, key: String, answer: impl FnOnce() -> String) -> std::io::Result<()> {
        if self.done.contains(&key) {
            return Ok(());
        }
        write!(self.out, ",\"{key}\":{}", answer())?;
        self.done.insert(key);
        Ok(())
    }

    /// Tables, flame graphs and the critical path of the whole run.
    fn whole(&mut self) -> std::io::Result<()> {
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

    /// A lane with its samples and spans; whether it is complete.
    fn lane(&mut self, thread: ThreadId, tile: &Tile) -> std::io::Result<bool> {
        let place = (thread, tile.level, tile.index);
        if let Some(complete) = self.lanes.get(&place) {
            return Ok(*complete);
        }
        let columns = lanes::columns(self.viewer, thread, tile);
        let key = format!("{}/{}/{}", thread.0, tile.level, tile.index);
        self.put(format!("lanes/{key}"), || to_text(&columns))?;
        let mut names = Names::default();
        let ticks = samples::columns(self.viewer, thread, tile, &mut names);
        let answer = json!({"names": names.list, "lane": ticks});
        self.put(format!("samples/{key}"), || to_text(&answer))?;
        let spans = spans::of(self.viewer, &[thread], tile);
        if !spans.is_empty() {
            self.put(format!("spans/{key}"), || to_text(&spans))?;
        }
        let complete = columns.complete && spans.is_complete();
        self.lanes.insert(place, complete);
        Ok(complete)
    }

    fn cpu(&mut self, cpu: CpuId, tile: &Tile) -> std::io::Result<bool> {
        let place = (cpu, tile.level, tile.index);
        if let Some(complete) = self.cpu_lanes.get(&place) {
            return Ok(*complete);
        }
        let columns = lanes::cpu_columns(self.viewer, cpu, tile);
        let key = format!("cpus/{}/{}/{}", cpu.0, tile.level, tile.index);
        self.put(key, || to_text(&columns))?;
        self.cpu_lanes.insert(place, columns.complete);
        Ok(columns.complete)
    }

    fn counters(&mut self, tile: &Tile) -> std::io::Result<()> {
        let viewer = self.viewer;
        self.put(format!("counters/{}/{}", tile.level, tile.index), || to_text(&counters::of(viewer, tile)))
    }

    /// A slice, and those that its chain leads to.
    fn slice(&mut self, thread: ThreadId, row: usize) -> std::io::Result<()> {
        for (thread, row) in slice::chain(self.viewer, thread, row) {
            let viewer = self.viewer;
            self.put(format!("slices/{}/{row}", thread.0), || to_text(&slice::of(viewer, thread, row)))?;
        }
        Ok(())
    }

    /// All zooms down to where the evidence of each finding fills the view.
    fn around_findings(&mut self) -> std::io::Result<()> {
        let viewer = self.viewer;
        for round in 0..EVIDENCE_MAX {
            for finding in &viewer.analysis().findings {
                let Some(row) = finding.evidence.get(round).filter(|_| self.has_room()) else { continue };
                let (from, to) = shown(row);
                let margin = Duration(to.since(from).0.max(1000) * 2);
                self.around(row.thread, (from - margin, to + margin))?;
                if let Some((slice, ..)) = row.slice(&viewer.trace) {
                    self.slice(row.thread, slice)?;
                }
            }
        }
        Ok(())
    }

    fn around(&mut self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> std::io::Result<()> {
        let viewer = self.viewer;
        let from = from.max(viewer.trace.start());
        let (mut threads, mut cpus) = (self.threads.clone(), self.cpus.clone());
        threads.truncate(THREADS_AROUND);
        for level in 0..=viewer.tiling.level_max() {
            let length = viewer.tiling.base_ns() >> level;
            let (first, last) = (viewer.since(from) / length, viewer.since(to) / length);
            let is_deeper_than_asked = last > first + TILES_AROUND;
            if is_deeper_than_asked || !self.has_room() || threads.is_empty() && cpus.is_empty() {
                break;
            }
            let tiles: Vec<Tile> =
                (first..=last).filter_map(|index| viewer.tiling.tile(level, index)).collect();
            let (lanes, cpu_lanes) = (std::mem::take(&mut threads), std::mem::take(&mut cpus));
            for thread in lanes {
                if !self.all(&tiles, |packer, tile| packer.lane(thread, tile))? {
                    threads.push(thread);
                }
            }
            for cpu in cpu_lanes {
                if !self.all(&tiles, |packer, tile| packer.cpu(cpu, tile))? {
                    cpus.push(cpu);
                }
            }
            for tile in &tiles {
                self.counters(tile)?;
            }
        }
        self.slices_around(thread, (from, to))
    }

    /// Adds something of each tile; whether all of it is complete.
    fn all(
        &mut self,
        tiles: &[Tile],
        mut add: impl FnMut(&mut Self, &Tile) -> std::io::Result<bool>,
    ) -> std::io::Result<bool> {
        let mut complete = true;
        for tile in tiles {
            complete &= add(self, tile)?;
        }
        Ok(complete)
    }

    /// The slices that a reader will ask about: what this thread, and who ended its waits, did there.
    fn slices_around(&mut self, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> std::io::Result<()> {
        let trace = &self.viewer.trace;
        let mut threads = vec![thread];
        let wakers = trace.wakeups.of(thread).iter().filter(|row| from <= row.at && row.at <= to);
        threads.extend(wakers.map(|row| row.waker).take(SLICES_AROUND));
        threads.sort();
        threads.dedup();
        for thread in threads {
            let rows = trace.slices.rows(thread);
            let first = trace.slices.covering(thread, from).unwrap_or(rows.start);
            let inside = (first..rows.end).take_while(|row| trace.slices.at(thread, *row).start < to);
            for row in inside.take(SLICES_AROUND).collect::<Vec<_>>() {
                self.slice(thread, row)?;
            }
        }
        Ok(())
    }

    /// Every lane, level by level, until all is told or the room is used up.
    fn levels(&mut self) -> std::io::Result<()> {
        let viewer = self.viewer;
        let mut open: BTreeMap<u64, (Vec<ThreadId>, Vec<CpuId>)> =
            BTreeMap::from([(0, (self.threads.clone(), self.cpus.clone()))]);
        for level in 0..=viewer.tiling.level_max() {
            let mut next: BTreeMap<u64, (Vec<ThreadId>, Vec<CpuId>)> = BTreeMap::new();
            for (index, (threads, cpus)) in std::mem::take(&mut open) {
                let Some(tile) = viewer.tiling.tile(level, index) else { continue };
                if !self.has_room() {
                    self.thin(Duration(tile.cell.0 * 2));
                    return Ok(());
                }
                let (mut lanes_on, mut cpus_on) = (Vec::new(), Vec::new());
                for thread in threads {
                    if !self.lane(thread, &tile)? {
                        lanes_on.push(thread);
                    }
                }
                for cpu in cpus {
                    if !self.cpu(cpu, &tile)? {
                        cpus_on.push(cpu);
                    }
                }
                self.counters(&tile)?;
                if !lanes_on.is_empty() || !cpus_on.is_empty() {
                    next.insert(index * 2, (lanes_on.clone(), cpus_on.clone()));
                    next.insert(index * 2 + 1, (lanes_on, cpus_on));
                }
            }
            open = next;
        }
        Ok(())
    }

    fn thin(&mut self, shortest: Duration) {
        let shortest = duration(shortest.0);
        self.thinned.push(format!(
            "To stay small, this file shows what is shorter than {shortest} one by one only around the findings."
        ));
    }

    /// The longest waits of every thread.
    fn waits(&mut self) -> std::io::Result<()> {
        let trace = &self.viewer.trace;
        let mut all: Vec<(Duration, ThreadId, usize)> = Vec::new();
        for thread in self.threads.clone() {
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
                "Why a thread waited can be asked about {}, the longest and those around the findings; \
                 `holdup view RECORDING` answers for all.",
                counted(told, "slice")
            ));
        }
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<(Vec<u8>, Vec<String>)> {
        let summary = to_text(&summary::of(self.viewer, &self.thinned));
        self.put("summary".to_owned(), || summary)?;
        write!(self.out, "}}")?;
        Ok((self.out.finish()?, self.thinned))
    }
}

/// The page with its script and style inside, allowed by hash, and the answers.
fn assemble(assets: &[Asset], answers: &str) -> Result<String, PageError> {
    let text = |path: &'static str| match find(assets, path) {
        Some(asset) => Ok(String::from_utf8_lossy(&asset.bytes).into_owned()),
        None => Err(PageError::Incomplete(path)),
    };
    // What ends the element would end it inside a string too.
    let script = text("viewer.js")?.replace("</script", "<\\/script").replace("<!--", "<\\!--");
    let style = text("viewer.css")?.replace("</style", "<\\/style");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(&style)
    );
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>holdup</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <div id=\"app\">Loading the recording …</div>\n\
         <noscript>The viewer needs JavaScript. `holdup report` says the same in words.</noscript>\n\
         <script type=\"application/octet-stream\" id=\"holdup-bundle\">{answers}</script>\n\
         <script>{script}</script>\n</body>\n</html>\n"
    ))
}

fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
