//! The moment for which a flight recorder saved a recording: why the thread that fired did not run.

use std::cmp::Reverse;

use holdup_events::recording::Fired;
use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Timestamp, Trace};
use holdup_findings::Analysis;
use holdup_findings::derive::own_places::{OwnFrames, Places};
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::derive::why::{Facts, Link, What, why};
use holdup_findings::derive::zoom::Zoom;
use serde_json::{Value, json};

use crate::chain::Teller;

/// Slices of a thread that are looked through for the one that fired, the last first.
const LOOK_BACK: usize = 10_000;
/// Links that are told: the cause is at the end of a chain, but who follows more than that looks at the viewer.
const LINKS_MAX: usize = 8;

/// One link of the chain from a pause to its cause.
pub(crate) struct Told {
    link: Link,
    /// What happened, and where in the program.
    pub text: String,
    basis: &'static str,
}

/// Looks at moments of one recording.
pub(crate) struct Moments<'a> {
    trace: &'a Trace,
    analysis: &'a Analysis,
    timelines: Timelines,
    zoom: Zoom,
    own: OwnFrames,
}

impl<'a> Moments<'a> {
    /// Of a recording that a flight recorder saved; others have none.
    pub fn new(trace: &'a Trace, analysis: &'a Analysis) -> Option<Moments<'a>> {
        trace.manifest.fired.iter().find(|fired| fired.tid != 0 && fired.length_ns > 0)?;
        let timelines = Timelines::derive(trace);
        let zoom = Zoom::derive(trace, &timelines, &analysis.derived.roles);
        Some(Moments { trace, analysis, timelines, zoom, own: OwnFrames::new(trace) })
    }

    /// From the pause that fired to its cause; nothing if what fired is no pause, or its slice is not in the recording.
    pub fn chain(&self, fired: &Fired) -> Vec<Told> {
        let Some((thread, row)) = paused(self.trace, fired) else { return Vec::new() };
        let derived = &self.analysis.derived;
        let facts = Facts {
            trace: self.trace,
            timelines: &self.timelines,
            zoom: &self.zoom,
            holders: &derived.holders,
            locks: &derived.occupancy.locks,
        };
        why(facts, thread, row).into_iter().take(LINKS_MAX).map(|link| self.tell(link)).collect()
    }

    fn tell(&self, link: Link) -> Told {
        let (mut text, basis) = Teller { trace: self.trace, analysis: self.analysis }.words(&link);
        if let Some(place) = self.place(&link) {
            text = format!("{text}, in {place}");
        }
        Told { link, text, basis }
    }

    /// The program's own function in which a thread waited.
    fn place(&self, link: &Link) -> Option<String> {
        let (thread, row) = link.thread.zip(link.row.filter(|_| link.what == What::Slice))?;
        let stack = self.trace.slices.at(thread, row).stack;
        let frame = Places::new(self.trace, &self.own).of(stack)?;
        Some(self.trace.frame_name(frame))
    }

    fn to_json(&self, told: &Told) -> Value {
        let since = |at: Timestamp| at.since(self.trace.start()).0;
        let name = |id: ThreadId| holdup_findings::wording::thread(self.trace, id);
        json!({
            "text": told.text,
            "thread": told.link.thread.map(name).unwrap_or_default(),
            "start_ns": since(told.link.start),
            "end_ns": since(told.link.end),
            "basis": told.basis,
        })
    }
}

/// `fired` of JSON: each with its chain, which is empty where it is no pause.
pub(crate) fn to_json(trace: &Trace, analysis: &Analysis) -> Value {
    let moments = Moments::new(trace, analysis);
    let chain = |fired: &Fired| -> Value {
        let moments = moments.iter();
        moments
            .flat_map(|moments| {
                moments.chain(fired).iter().map(|told| moments.to_json(told)).collect::<Vec<_>>()
            })
            .collect()
    };
    let of = |fired: &Fired| {
        let mut value = json!(fired);
        value["why"] = chain(fired);
        value
    };
    trace.manifest.fired.iter().map(of).collect()
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
    let length = |slice: &holdup_events::tables::Slice| slice.end.min(to).since(slice.start.max(from));
    let longest = off.max_by_key(|(row, slice)| (length(slice), Reverse(*row)));
    longest.map(|(row, _)| (thread, row))
}
