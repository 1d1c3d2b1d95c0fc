//! Any range of a recording at any zoom, without a walk over its content.
//!
//! Prefix sums are stored before each [`STRIDE`]th slice of a thread. A thread's activity in a range is the
//! difference of two sums, each completed by a walk over fewer than [`STRIDE`] slices. No level of detail is
//! stored. Each level is exact, at a cost independent of the range.
//!
//! [`tiles`] cuts time into tiles and cells. [`lanes`], [`cpus`], [`spans`] and [`overview`] fill them.
//! [`first_look`] works without a whole trace.

pub mod cpus;
pub mod first_look;
mod index;
pub mod lanes;
pub mod overview;
pub mod range;
pub mod spans;
pub mod tiles;

pub use cpus::{CpuLane, CpuRow, cpu_lane};
pub use lanes::{Lane, LaneRow, lane};
pub use overview::Overview;
pub use range::{RangeLedger, range_ledger};
pub use spans::{CounterIndex, SpanIndex, SpanLane, SpanLaneRow};
pub use tiles::{CELLS, Tile, Tiling};

use holdup_events::{ThreadId, Timestamp, Trace};

use super::class::{CLASSES, Class};
use super::ledger::{ByClass, RunQueueSplit};
use super::roles::Roles;
use super::timelines::Timelines;

/// Number of slices between two prefix sums: a compromise between memory and steps per query.
const STRIDE: usize = 64;

/// Code of a slice that belongs to no class: a thread of others while it does not run.
const NO_CLASS: u8 = 0x7f;
/// Flag in the code of a slice that ran but has the colour of a wait: it spun at a collector's barrier.
const AWAKE: u8 = 0x80;

/// The class of each slice, and sums of them.
#[derive(Clone, Debug, Default)]
pub struct Zoom {
    /// By row of the slices: [`NO_CLASS`] or a `Class as u8`, with or without [`AWAKE`].
    class: Vec<u8>,
    /// First mark of each thread.
    marks_of_thread: Vec<u32>,
    marks: Vec<Mark>,
    /// Total steal time before each row of the steals (ns), with one more entry for the total.
    stolen_before: Vec<u64>,
}

/// Activity of a thread before its [`STRIDE`]th, twice [`STRIDE`]th, … slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    classes: ByClass,
    /// Part of `classes` (ns): running slices with the colour of a wait.
    awake_ns: u64,
    queued: RunQueueSplit,
}

impl Zoom {
    /// Derives it.
    pub fn derive(trace: &Trace, timelines: &Timelines, roles: &Roles) -> Zoom {
        index::derive(trace, timelines, roles)
    }

    /// Class of a slice, `None` if it has none. The class of a running slice is `Stolen` if most of it was
    /// steal time. Otherwise it is the class that the runtime reported for most of it, or the class of most
    /// samples in it. It is only a colour and does not affect the ledger.
    pub fn class(&self, row: usize) -> Option<Class> {
        self.class.get(row).and_then(|code| class_of(*code & !AWAKE))
    }

    /// Time (ns) by class, as slices are coloured, of a thread in `from..to`.
    pub fn between(&self, trace: &Trace, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> ByClass {
        let walk = Walk::new(self, trace, thread);
        difference(&walk.before(walk.place(to), to), &walk.before(walk.place(from), from))
    }
}

/// One thread's slices, by their place among them.
struct Walk<'a> {
    starts: &'a [Timestamp],
    class: &'a [u8],
    marks: &'a [Mark],
    /// The row of the first.
    first: usize,
    life: (Timestamp, Timestamp),
}

impl<'a> Walk<'a> {
    fn new(zoom: &'a Zoom, trace: &'a Trace, thread: ThreadId) -> Walk<'a> {
        let rows = trace.slices.rows(thread);
        let life = trace.threads.get(thread.index()).map(|thread| (thread.start, thread.end));
        let marks = zoom.marks_of_thread.get(thread.index()..thread.index() + 2);
        let marks = marks.and_then(|range| zoom.marks.get(range[0] as usize..range[1] as usize));
        Walk {
            starts: trace.slices.starts(thread),
            class: zoom.class.get(rows.clone()).unwrap_or(&[]),
            marks: marks.unwrap_or(&[]),
            first: rows.start,
            life: life.unwrap_or_default(),
        }
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    /// Number of slices that begin before `at`.
    fn place(&self, at: Timestamp) -> usize {
        self.starts.partition_point(|start| *start < at)
    }

    /// The same, searched from `from` upwards. At least `from` slices must begin before `at`.
    fn place_from(&self, from: usize, at: Timestamp) -> usize {
        let (mut low, mut step) = (from, 1);
        while low + step <= self.len() && self.starts[low + step - 1] < at {
            low += step;
            step *= 2;
        }
        let high = (low + step).min(self.len());
        low + self.starts[low..high].partition_point(|start| *start < at)
    }

    /// A thread's slices are clamped to its life, because a damaged recording may contain others.
    fn start(&self, place: usize) -> Timestamp {
        self.starts[place].max(self.life.0)
    }

    fn end(&self, place: usize) -> Timestamp {
        self.starts.get(place + 1).copied().unwrap_or(self.life.1).min(self.life.1).max(self.start(place))
    }

    fn class(&self, place: usize) -> u8 {
        self.class.get(place).map_or(NO_CLASS, |code| *code & !AWAKE)
    }

    /// Whether the slice ran with the colour of a wait.
    fn is_awake(&self, place: usize) -> bool {
        self.class.get(place).is_some_and(|code| *code & AWAKE != 0)
    }

    /// Time (ns) by class in the first `places` slices, the last of them cut at `at`.
    fn before(&self, places: usize, at: Timestamp) -> ByClass {
        let strides = places / STRIDE;
        let mut sums = match strides.checked_sub(1) {
            Some(mark) => self.marks.get(mark).map_or([0; CLASSES], |mark| mark.classes),
            None => [0; CLASSES],
        };
        for place in strides * STRIDE..places {
            if let Some(sum) = sums.get_mut(usize::from(self.class(place))) {
                *sum += self.end(place).min(at).since(self.start(place)).0;
            }
        }
        // A mark covers whole slices. The part of the last slice after `at` is subtracted.
        if let Some(last) = places.checked_sub(1).filter(|last| last / STRIDE < strides)
            && let Some(sum) = sums.get_mut(usize::from(self.class(last)))
        {
            *sum -= self.end(last).since(at.max(self.start(last))).0;
        }
        sums
    }
}

/// Class of a code. `None` for [`NO_CLASS`].
fn class_of(code: u8) -> Option<Class> {
    const BY_CODE: [Class; CLASSES] = {
        let mut table = [Class::Unknown; CLASSES];
        let mut index = 0;
        while index < CLASSES {
            table[Class::ALL[index] as usize] = Class::ALL[index];
            index += 1;
        }
        table
    };
    BY_CODE.get(usize::from(code)).copied()
}

fn difference(later: &ByClass, earlier: &ByClass) -> ByClass {
    let mut out = [0; CLASSES];
    for ((out, later), earlier) in out.iter_mut().zip(later).zip(earlier) {
        *out = later.saturating_sub(*earlier);
    }
    out
}
