//! Why a thread did not run: from its wait to who ended it, what that thread did meanwhile, and so on to the cause.
//!
//! One chain for one slice, asked for when somebody looks at it. It follows who *ended* each wait (exact), and then the
//! longest wait of that thread inside the first; who had a CPU comes from what ran there.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, ThreadId, Timestamp, Trace};

use super::ledger::ByClass;
use super::timelines::Timelines;
use super::zoom::Zoom;

/// One link: what the one before it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who; `None` where it was no thread, or is not known.
    pub thread: Option<ThreadId>,
    /// The time that is meant: a slice's, or the part of it during which the first one waited.
    pub start: Timestamp,
    /// Its end.
    pub end: Timestamp,
    /// The slice to look at, a row of the slices.
    pub row: Option<usize>,
    /// What it is.
    pub what: What,
}

/// What a [`Link`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The slice that was asked about, or the longest wait of the thread before it.
    Slice,
    /// This thread ended the wait; what it did until then (ns by class, as slices are coloured).
    Ended(ByClass),
    /// This thread had the CPU for the longest time meanwhile, so long in all.
    HadCpu(Duration),
    /// An interrupt ended the wait.
    Interrupt(WakeContext),
    /// The CPU was idle, or it is not known who ran there.
    CpuIdle,
    /// Its group's CPU bandwidth was used up.
    Throttled,
    /// The recording ended first.
    RecordingEnded,
    /// It is not known who ended it.
    NotKnown,
}

/// No chain is longer: waits that lead on and on say no more.
const LINKS_MAX: usize = 24;
/// Slices of a waker that are looked through for its longest wait, the last first.
const LOOK_BACK: usize = 10_000;
/// A waker that was off the CPU for less than this share of the wait was busy: the chain ends there.
const OFF_CPU_SHARE_MIN: f64 = 0.2;

/// The chain of a slice of `thread`; `row` must be one of its rows.
pub fn why((trace, timelines, zoom): (&Trace, &Timelines, &Zoom), thread: ThreadId, row: usize) -> Vec<Link> {
    let mut links = Vec::new();
    let mut next = Some((thread, row));
    let mut seen = Vec::new();
    while let Some((thread, row)) = next.take().filter(|one| !seen.contains(one)) {
        seen.push((thread, row));
        let slice = trace.slices.at(thread, row);
        links.push(Link {
            thread: Some(thread),
            start: slice.start,
            end: slice.end,
            row: Some(row),
            what: What::Slice,
        });
        if slice.state.waits_for_cpu() {
            links.push(had_cpu(trace, timelines, &slice));
        } else if slice.state == ThreadState::Blocked {
            let (link, goes_on) = ended(trace, zoom, &slice);
            links.push(link);
            next = goes_on;
        }
        if links.len() >= LINKS_MAX {
            break;
        }
    }
    links
}

/// Who ran on a CPU in a stretch of time, the longest first.
pub fn occupants(timelines: &Timelines, slice: &Slice) -> Vec<(ThreadId, Duration)> {
    let mut sums: BTreeMap<ThreadId, Duration> = BTreeMap::new();
    let timeline = timelines.of(slice.cpu);
    for stretch in timeline.map_or(&[][..], |timeline| timeline.between(slice.start, slice.end)) {
        let length = stretch.end().min(slice.end).since(stretch.start().max(slice.start));
        *sums.entry(stretch.thread()).or_default() += length;
    }
    let mut ranked: Vec<_> = sums.into_iter().filter(|(_, length)| *length > Duration::ZERO).collect();
    ranked.sort_by_key(|(thread, length)| (Reverse(*length), *thread));
    ranked
}

fn had_cpu(trace: &Trace, timelines: &Timelines, slice: &Slice) -> Link {
    let (start, end) = (slice.start, slice.end);
    let nobody = |what| Link { thread: None, start, end, row: None, what };
    if slice.state == ThreadState::Throttled {
        return nobody(What::Throttled);
    }
    let ranked = occupants(timelines, slice);
    let Some((thread, length)) = ranked.first().copied() else { return nobody(What::CpuIdle) };
    if length.0 * 2 < slice.duration().0 / ranked.len().max(1) as u64 {
        return nobody(What::CpuIdle);
    }
    let timeline = timelines.of(slice.cpu);
    let stretches = timeline.map_or(&[][..], |timeline| timeline.between(start, end));
    let own = stretches.iter().filter(|stretch| stretch.thread() == thread);
    let longest = own.max_by_key(|stretch| (stretch.end().since(stretch.start()), Reverse(stretch.start())));
    let at = longest.map_or(start, |stretch| stretch.start());
    Link {
        thread: Some(thread),
        start,
        end,
        row: trace.slices.covering(thread, at),
        what: What::HadCpu(length),
    }
}

/// Who ended a wait, and the slice with which the chain goes on.
fn ended(trace: &Trace, zoom: &Zoom, slice: &Slice) -> (Link, Option<(ThreadId, usize)>) {
    let (start, end) = (slice.start, slice.end);
    let nobody = |what| (Link { thread: None, start, end, row: None, what }, None);
    let Some(wakeup) = trace.wakeups.ending(slice.thread, start, end) else {
        let life = &trace.threads[slice.thread.index()];
        let open = life.alive_at_end && end >= life.end;
        return nobody(if open { What::RecordingEnded } else { What::NotKnown });
    };
    if wakeup.context != WakeContext::Thread || wakeup.waker == slice.thread {
        return nobody(What::Interrupt(wakeup.context));
    }
    let (waker, at) = (wakeup.waker, wakeup.at);
    let did = zoom.between(trace, waker, (start, at));
    let row = trace.slices.covering(waker, at).or_else(|| trace.slices.covering(waker, at - Duration(1)));
    let link = Link { thread: Some(waker), start, end: at, row, what: What::Ended(did) };
    (link, longest_wait(trace, waker, (start, at)))
}

/// The slice in which `thread` was off its CPU for the longest part of a range, if that is much of it.
fn longest_wait(
    trace: &Trace,
    thread: ThreadId,
    (from, to): (Timestamp, Timestamp),
) -> Option<(ThreadId, usize)> {
    let rows = trace.slices.rows(thread);
    let last = trace.slices.covering(thread, to).unwrap_or(rows.end.checked_sub(1)?);
    let inside = |row: usize| {
        let slice = trace.slices.at(thread, row);
        (slice, slice.end.min(to).since(slice.start.max(from)))
    };
    let back = (rows.start..=last).rev().take(LOOK_BACK);
    let near = back.map(|row| (row, inside(row))).take_while(|(_, (slice, _))| slice.end > from);
    let off =
        near.filter(|(_, (slice, _))| slice.state == ThreadState::Blocked || slice.state.waits_for_cpu());
    let (row, (_, length)) = off.max_by_key(|(row, (_, length))| (*length, Reverse(*row)))?;
    let enough = to.since(from).0 as f64 * OFF_CPU_SHARE_MIN;
    (length.0 as f64 >= enough && length > Duration::ZERO).then_some((thread, row))
}
