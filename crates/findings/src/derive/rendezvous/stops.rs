//! Stop-the-world pauses, from a runtime's spans. One thread requests the pause, and each thread arrives at
//! the barrier after it sees the request.
//!
//! - OCaml 5: the leader's span (`stw_leader`) begins with the request. Each thread's span at the barrier
//!   (`stw_api_barrier`) begins with its arrival. Before OCaml 5.3 the leader has no barrier span, so it
//!   counts as arrived at the request.
//! - GHC and HotSpot: imported logs contain the same under other names. HotSpot lists only threads that the
//!   pause had to wait for.
//! - Spans from probes: the span's kind names its part in the pause. One span stops all threads. A span
//!   within it waits until all have stopped. Each stopped thread has its own span.
//!
//! A thread that arrives after all threads have stopped did not delay the pause.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{SpanKind, SpanRow};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::{Arrival, Meeting, MeetingKind, Rendezvous, Site};
use crate::derive::gc::covers;
use crate::derive::phases::{self, Phase};

/// Adds the pauses of each process. Removes the barriers that are the same pauses, found by their futex
/// words.
pub fn add(trace: &Trace, rendezvous: &mut Rendezvous) {
    let mut processes: BTreeMap<ProcessId, (Vec<Leader>, Vec<SpanRow>)> = BTreeMap::new();
    for span in trace.spans.rows() {
        let Some(lane) = trace.lanes.get(span.lane as usize) else { continue };
        let name = trace.event_name(span.name);
        match Part::from_span(&lane.runtime, (name.kind, &name.text)) {
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

/// Part of a span in a pause.
enum Part {
    /// The span begins when its thread requests the pause.
    Asks,
    /// The span begins when its thread has stopped.
    Comes,
}

impl Part {
    /// By the kind, else by the runtime's words.
    fn from_span(runtime: &str, (kind, name): (SpanKind, &str)) -> Option<Part> {
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

/// Span of the thread that requests the pause.
#[derive(Clone, Copy)]
struct Leader {
    span: SpanRow,
    /// Time at which all threads had stopped, if recorded. The pause did not wait for later arrivals.
    all_stopped: Option<Timestamp>,
}

/// End of the wait within a span that stops all threads. `None` for other spans.
fn all_stopped(trace: &Trace, leader: &SpanRow) -> Option<Timestamp> {
    let kind = |span: &SpanRow| trace.event_name(span.name).kind;
    if kind(leader) != SpanKind::StopsAll {
        return None;
    }
    let spans = trace.spans.of_thread(leader.thread);
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
        // A thread arrives at a pause's first barrier once. Later arrivals within the pause are at other
        // barriers.
        let mut seen = BTreeSet::new();
        arrivals.retain(|arrival| seen.insert(arrival.thread));
        if !seen.contains(&leader.thread) && !arrivals.is_empty() {
            let (thread, at) = (leader.thread, leader.start);
            arrivals.push(Arrival { thread, at, resumed: leader.start, spun: false });
        }
        // If two threads arrived at the same time, the one that resumed first did not wait for the other.
        let lateness = |arrival: &&Arrival| (arrival.at, Reverse(arrival.resumed), arrival.thread);
        let Some(last) = arrivals.iter().max_by_key(lateness).copied() else { continue };
        if arrivals.len() < 2 {
            continue;
        }
        for arrival in &mut arrivals {
            // If the pause goes on after the last arrival, no thread waits for a release.
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

/// Removes a collector's own barriers: a member waits at them within a collector's span.
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
