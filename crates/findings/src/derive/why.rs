//! Why a thread did not run: from its wait to the holder, to the holder's activity, and on to the cause.
//!
//! One chain is derived on request for one slice. It follows [`Holders`], then the holder's longest wait
//! inside the first one. CPU occupants come from the CPU's timeline. `derive/blame` sums all chains.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{CpuId, Duration, ThreadId, Timestamp, Trace};

use super::holders::{Basis, Hold, Holders};
use super::ledger::ByClass;
use super::locks::LockIndex;
use super::timelines::Timelines;
use super::zoom::Zoom;

/// Input of a chain.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// Occupation of each CPU.
    pub timelines: &'a Timelines,
    /// Activity of threads in a range.
    pub zoom: &'a Zoom,
    /// Holders of all waits.
    pub holders: &'a Holders,
    /// The locks, as `holders` numbers them.
    pub locks: &'a LockIndex,
}

/// One link: the cause of the previous link's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Thread of the link. `None` if it is not a thread, or unknown.
    pub thread: Option<ThreadId>,
    /// Start of the link's time: a slice, or the part of it during which the first thread waited.
    pub start: Timestamp,
    /// End of the link's time.
    pub end: Timestamp,
    /// Row of the slice to show.
    pub row: Option<usize>,
    /// Content of the link.
    pub what: What,
}

/// Content of a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The requested slice, or the longest wait of the previous link's thread.
    Slice,
    /// The link's thread was the holder, with its activity during the wait (ns by class, as slices are
    /// coloured).
    Held(Hold, ByClass),
    /// The holder was not a thread, with the way in which the wait ended.
    Nobody(Hold),
    /// The link's thread occupied the CPU for the longest time during the wait: CPU, total time, and number
    /// of other occupants.
    HadCpu(CpuId, Duration, u32),
    /// The CPU was idle, or its occupant is unknown.
    CpuIdle,
    /// Throttled: the cgroup's CPU bandwidth was used up.
    Throttled,
}

/// Maximum length of a chain. Longer chains add no information.
const LINKS_MAX: usize = 24;
/// Maximum number of a holder's slices in which its longest wait is searched, latest first.
const LOOK_BACK: usize = 10_000;
/// A holder that was off the CPU for less than this share of the wait was busy: the chain ends there.
const OFF_CPU_SHARE_MIN: f64 = 0.2;

/// Chain of a slice of `thread`. `row` must be one of the thread's rows.
pub fn why(facts: Facts, thread: ThreadId, row: usize) -> Vec<Link> {
    let mut links = Vec::new();
    let mut next = Some((thread, row));
    let mut seen = Vec::new();
    while let Some((thread, row)) = next.take().filter(|one| !seen.contains(one)) {
        seen.push((thread, row));
        let slice = facts.trace.slices.at(thread, row);
        let (start, end) = (slice.start, slice.end);
        links.push(Link { thread: Some(thread), start, end, row: Some(row), what: What::Slice });
        if slice.state.waits_for_cpu() {
            links.push(had_cpu(facts, &slice));
        } else if let Some(hold) = facts.holders.at(thread, row) {
            let (link, goes_on) = held(facts, &slice, hold);
            links.push(link);
            next = goes_on;
        }
        if links.len() >= LINKS_MAX {
            break;
        }
    }
    links
}

/// CPU that a thread waited for, and its occupants during the wait, longest first.
///
/// A slice only has the CPU on which its thread ran *next*. A preempted thread was in its old CPU's queue
/// until it was migrated, at an unknown time. The CPU that other threads kept busy for longer is returned.
pub fn occupants(trace: &Trace, timelines: &Timelines, slice: &Slice) -> (CpuId, Vec<(ThreadId, Duration)>) {
    let rows = trace.slices.rows(slice.thread);
    let row = trace.slices.covering(slice.thread, slice.start);
    let before = row.filter(|row| *row > rows.start).map(|row| trace.slices.at(slice.thread, row - 1));
    let left = before.filter(|before| before.state == ThreadState::Running).map(|before| before.cpu);
    let busy = |ranked: &[(ThreadId, Duration)]| ranked.iter().map(|(_, length)| length.0).sum::<u64>();
    let next = (slice.cpu, ran_on(timelines, slice.cpu, slice));
    match left.filter(|cpu| *cpu != slice.cpu).map(|cpu| (cpu, ran_on(timelines, cpu, slice))) {
        Some(left) if busy(&left.1) > busy(&next.1) => left,
        _ => next,
    }
}

fn ran_on(timelines: &Timelines, cpu: CpuId, slice: &Slice) -> Vec<(ThreadId, Duration)> {
    let mut sums: BTreeMap<ThreadId, Duration> = BTreeMap::new();
    let timeline = timelines.of_cpu(cpu);
    for stretch in timeline.map_or(&[][..], |timeline| timeline.between(slice.start, slice.end)) {
        let length = stretch.end().min(slice.end).since(stretch.start().max(slice.start));
        *sums.entry(stretch.thread()).or_default() += length;
    }
    let mut ranked: Vec<_> = sums.into_iter().filter(|(_, length)| *length > Duration::ZERO).collect();
    ranked.sort_by_key(|(thread, length)| (Reverse(*length), *thread));
    ranked
}

fn had_cpu(facts: Facts, slice: &Slice) -> Link {
    let (start, end) = (slice.start, slice.end);
    let nobody = |what| Link { thread: None, start, end, row: None, what };
    if slice.state == ThreadState::Throttled {
        return nobody(What::Throttled);
    }
    let (cpu, ranked) = occupants(facts.trace, facts.timelines, slice);
    let busy: u64 = ranked.iter().map(|(_, length)| length.0).sum();
    // What kept it longer than others' turns is then the waking or moving itself.
    let Some((thread, length)) = ranked.first().copied().filter(|_| busy * 2 >= slice.duration().0) else {
        return nobody(What::CpuIdle);
    };
    let timeline = facts.timelines.of_cpu(cpu);
    let stretches = timeline.map_or(&[][..], |timeline| timeline.between(start, end));
    let own = stretches.iter().filter(|stretch| stretch.thread() == thread);
    let longest = own.max_by_key(|stretch| (stretch.end().since(stretch.start()), Reverse(stretch.start())));
    let at = longest.map_or(start, |stretch| stretch.start());
    let row = facts.trace.slices.covering(thread, at);
    Link { thread: Some(thread), start, end, row, what: What::HadCpu(cpu, length, ranked.len() as u32 - 1) }
}

/// Holder of a blocked slice, and the slice that continues the chain.
fn held(facts: Facts, slice: &Slice, hold: Hold) -> (Link, Option<(ThreadId, usize)>) {
    let trace = facts.trace;
    let mut pieces = facts.holders.over(trace, facts.locks, slice);
    pieces.retain(|piece| piece.holder.is_some() && piece.holder != Some(slice.thread));
    let longest = pieces.into_iter().max_by_key(|piece| (piece.to.since(piece.from), Reverse(piece.from)));
    let Some((piece, holder)) = longest.and_then(|piece| Some((piece, piece.holder?))) else {
        let (start, end) = (slice.start, slice.end);
        return (Link { thread: None, start, end, row: None, what: What::Nobody(hold) }, None);
    };
    let (from, to) = (piece.from, piece.to);
    let did = facts.zoom.between(trace, holder, (from, to));
    let row = trace.slices.covering(holder, to).or_else(|| trace.slices.covering(holder, to - Duration(1)));
    let link = Link {
        thread: Some(holder),
        start: from,
        end: to,
        row,
        what: What::Held(Hold { holder: Some(holder), ..hold }, did),
    };
    let goes_on = (hold.basis != Basis::Unknown).then(|| longest_wait(trace, holder, (from, to))).flatten();
    (link, goes_on)
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
