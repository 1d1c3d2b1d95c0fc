//! The moment for which a flight recorder saved a recording: why the thread that fired did not run.

use std::cmp::Reverse;

use holdup_events::recording::Fired;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace};

use crate::analysis::Derived;
use crate::chain::Teller;
use crate::derive::own_places::{OwnFrames, Places};
use crate::derive::timelines::Timelines;
use crate::derive::why::{Facts, Link, What, why};
use crate::derive::zoom::Zoom;

/// Slices of a thread that are looked through for the one that fired, the last first.
const LOOK_BACK: usize = 10_000;
/// Maximum number of printed links. The cause is at the end of the chain. The viewer shows longer chains in
/// full.
const LINKS_MAX: usize = 8;

/// One link of the chain from a pause to its cause.
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// The link itself.
    pub link: Link,
    /// The event, and its place in the program.
    pub text: String,
    /// The program's own function in which the thread waited, if that is known.
    pub place: Option<String>,
    /// How the holder of the awaited object is known. Empty for a slice.
    pub basis: &'static str,
}

/// Explains moments of one recording.
pub struct Moments<'a> {
    trace: &'a Trace,
    derived: &'a Derived,
    timelines: &'a Timelines,
    zoom: Zoom,
    own: OwnFrames,
}

impl<'a> Moments<'a> {
    /// `None` unless a flight recorder saved the recording because of a pause.
    pub fn new(trace: &'a Trace, derived: &'a Derived, timelines: &'a Timelines) -> Option<Moments<'a>> {
        trace.manifest.fired.iter().find(|fired| fired.tid != 0 && fired.length_ns > 0)?;
        let zoom = Zoom::derive(trace, timelines, &derived.roles);
        Some(Moments { trace, derived, timelines, zoom, own: OwnFrames::new(trace) })
    }

    /// The chain from the pause that fired to its cause. Empty if the trigger is no pause, or if its slice is
    /// not in the recording.
    pub fn chain(&self, fired: &Fired) -> Vec<ChainLink> {
        let Some((thread, row)) = paused(self.trace, fired) else { return Vec::new() };
        let facts = Facts {
            trace: self.trace,
            timelines: self.timelines,
            zoom: &self.zoom,
            holders: &self.derived.holders,
            locks: &self.derived.occupancy.locks,
        };
        why(facts, thread, row).into_iter().take(LINKS_MAX).map(|link| self.describe(link)).collect()
    }

    fn describe(&self, link: Link) -> ChainLink {
        let (mut text, basis) = Teller { trace: self.trace, derived: self.derived }.words(&link);
        let place = self.place(&link);
        if let Some(place) = &place {
            text = format!("{text}, in {place}");
        }
        ChainLink { link, text, place, basis }
    }

    /// The program's own function in which a thread waited.
    fn place(&self, link: &Link) -> Option<String> {
        let (thread, row) = link.thread.zip(link.row.filter(|_| link.what == What::Slice))?;
        let stack = self.trace.slices.at(thread, row).stack;
        let frame = Places::new(self.trace, &self.own).nearest_own(stack)?;
        Some(self.trace.frame_name(frame))
    }
}

/// The slice that a pause was: the longest one off the CPU in the time that it took.
fn paused(trace: &Trace, fired: &Fired) -> Option<(ThreadId, usize)> {
    let (from, to) = (Timestamp(fired.at_ns.saturating_sub(fired.length_ns)), Timestamp(fired.at_ns));
    let is_it = |id: &ThreadId| {
        let thread = &trace.threads[id.index()];
        fired.tid != 0 && thread.tid == fired.tid && thread.start <= to && from <= thread.end
    };
    let thread = trace.target_threads().find(is_it)?;
    let rows = trace.slices.rows(thread);
    let last = trace.slices.covering(thread, to).unwrap_or(rows.end.checked_sub(1)?);
    let back = (rows.start..=last).rev().take(LOOK_BACK);
    let inside =
        back.map(|row| (row, trace.slices.at(thread, row))).take_while(|(_, slice)| slice.end > from);
    let off = inside.filter(|(_, slice)| slice.state != ThreadState::Running);
    let length = |slice: &Slice| slice.end.min(to).since(slice.start.max(from));
    let longest = off.max_by_key(|(row, slice)| (length(slice), Reverse(*row)));
    longest.map(|(row, _)| (thread, row))
}
