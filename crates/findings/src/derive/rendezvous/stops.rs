//! Stop-the-world pauses, from a runtime's spans: one thread asks, and each comes to the barrier when it has seen that.
//!
//! Told by OCaml 5: the leader's span (`stw_leader`) begins when it asks, everybody's span at the barrier
//! (`stw_api_barrier`) when it has come. Before 5.3 the leader has no such span: it is there when it asks. Imported
//! logs of GHC and HotSpot tell as much in their own words; HotSpot names those threads alone that it had to wait for.
//! Spans by probes say by their kind what they are in a pause: one that stops all, within it one of waiting until all have
//! stopped, and those of the threads that have. Who comes when all have stopped was not waited for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{SpanKind, SpanRow};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::{Arrival, Meeting, MeetingKind, Rendezvous, Site};
use crate::derive::gc::covers;
use crate::derive::phases::{self, Phase};

/// Adds the pauses of each process, and takes away the meetings that are these pauses seen from their futex words.
pub fn add(trace: &Trace, rendezvous: &mut Rendezvous) {
    let mut processes: BTreeMap<ProcessId, (Vec<Leader>, Vec<SpanRow>)> = BTreeMap::new();
    for span in trace.spans.rows() {
        let Some(lane) = trace.lanes.get(span.lane as usize) else { continue };
        let name = trace.told_name(span.name);
        match Part::of(&lane.runtime, (name.kind, &name.text)) {
            Some(Part::Asks) => {
                let leader = Leader { span: *span, all_stopped: all_stopped(trace, span) };
                processes.entry(lane.process).or_default().0.push(leader);
            }
            Some(Part::Comes) => processes.entry(lane.process).or_default().1.push(*span),
            None => {}
        }
    }
    if processes.is_empty() {
        return;
    }
    forget_their_words(trace, rendezvous);
    for (process, (mut leaders, mut barriers)) in processes {
        leaders.sort_by_key(|leader| (leader.span.start, leader.span.thread));
        barriers.sort_by_key(|span| (span.start, span.thread));
        let site =
            rendezvous.append_site(Site { kind: MeetingKind::StopTheWorld, process, ..Site::default() });
        add_process(site, &leaders, &barriers, rendezvous);
    }
}

/// What a span is in a pause.
enum Part {
    /// It begins when its thread asks all others to stop.
    Asks,
    /// It begins when its thread has stopped.
    Comes,
}

impl Part {
    /// By the kind, else by the runtime's words.
    fn of(runtime: &str, (kind, name): (SpanKind, &str)) -> Option<Part> {
        match kind {
            SpanKind::StopsAll => return Some(Part::Asks),
            SpanKind::Stopped => return Some(Part::Comes),
            _ => {}
        }
        match (runtime.split(' ').next().unwrap_or(""), name) {
            ("ghc", "gc request") => Some(Part::Asks),
            ("ghc", "gc helper") => Some(Part::Comes),
            ("hotspot", "stopped at safepoint") => Some(Part::Comes),
            ("hotspot", name) if name.starts_with("safepoint ") => Some(Part::Asks),
            ("ghc" | "hotspot", _) => None,
            (_, "stw_leader") => Some(Part::Asks),
            (_, "stw_api_barrier") => Some(Part::Comes),
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Clone, Copy)]
struct Leader {
    span: SpanRow,
    /// When it knew that all had stopped, where that is told; later ones were not waited for.
    all_stopped: Option<Timestamp>,
}

/// Of a span that stops all: the end of the wait within it.
fn all_stopped(trace: &Trace, leader: &SpanRow) -> Option<Timestamp> {
    let kind = |span: &SpanRow| trace.told_name(span.name).kind;
    if kind(leader) != SpanKind::StopsAll {
        return None;
    }
    let spans = trace.spans.of(leader.thread);
    let within = spans.get(spans.partition_point(|span| span.start < leader.start)..).unwrap_or_default();
    let wait = within
        .iter()
        .take_while(|span| span.start <= leader.end)
        .find(|span| span.lane == leader.lane && kind(span) == SpanKind::GcWait);
    Some(wait.map_or(leader.end, |wait| wait.end))
}

fn add_process(site: u32, leaders: &[Leader], barriers: &[SpanRow], rendezvous: &mut Rendezvous) {
    let Some(first) = leaders.first() else { return };
    let mut since = first.span.start;
    let mut rest = barriers;
    for (place, Leader { span: leader, all_stopped }) in leaders.iter().enumerate() {
        let next = leaders.get(place + 1).map_or(Timestamp(u64::MAX), |next| next.span.start);
        rest = &rest[rest.partition_point(|span| span.start < leader.start)..];
        let (own, behind) = rest.split_at(rest.partition_point(|span| span.start < next));
        rest = behind;
        let waited_for = |span: &&SpanRow| all_stopped.is_none_or(|all_stopped| span.start <= all_stopped);
        let mut arrivals: Vec<Arrival> = own.iter().filter(waited_for).map(arrival).collect();
        // One thread comes to a pause's first barrier once; later ones within it are others.
        let mut seen = BTreeSet::new();
        arrivals.retain(|arrival| seen.insert(arrival.thread));
        if !seen.contains(&leader.thread) && !arrivals.is_empty() {
            let (thread, at) = (leader.thread, leader.start);
            arrivals.push(Arrival { thread, at, resumed: leader.start, spun: false });
        }
        // Of two that came at one moment, who goes on first did not wait for the other.
        let lateness = |arrival: &&Arrival| (arrival.at, Reverse(arrival.resumed), arrival.thread);
        let Some(last) = arrivals.iter().max_by_key(lateness).copied() else { continue };
        if arrivals.len() < 2 {
            continue;
        }
        for arrival in &mut arrivals {
            // Where the stop lasts on, nobody waits for being released.
            arrival.resumed = if all_stopped.is_some() { last.at } else { arrival.resumed.max(last.at) };
        }
        let meeting = Meeting {
            site,
            since,
            asked: leader.start,
            leader: Some(leader.thread),
            release: last.at,
            last: Some(last.thread),
            ..Meeting::default()
        };
        rendezvous.append(meeting, arrivals);
        since = last.at;
    }
}

fn arrival(span: &SpanRow) -> Arrival {
    Arrival { thread: span.thread, at: span.start, resumed: span.end, spun: false }
}

/// Barriers at which somebody waits within a collector's span are the collector's own.
fn forget_their_words(trace: &Trace, rendezvous: &mut Rendezvous) {
    let mut courses: BTreeMap<ThreadId, Vec<Phase>> = BTreeMap::new();
    let arrivals = &rendezvous.arrivals;
    let mut is_collectors = |meeting: &Meeting| {
        arrivals.get(meeting.arrivals.clone()).unwrap_or_default().iter().any(|arrival| {
            let thread = arrival.thread;
            let phases = courses
                .entry(thread)
                .or_insert_with(|| phases::flat(trace, &phases::collectors(trace, thread)));
            covers(phases, arrival.at)
        })
    };
    rendezvous.meetings.retain(|meeting| !is_collectors(meeting));
}
