//! Fork and join: a thread starts others and waits for their ends.

use std::collections::BTreeMap;

use holdup_events::tables::ThreadState;
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use super::{Arrival, Meeting, MeetingKind, Rendezvous, Site};
use crate::derive::replay::Endings;

/// Fewer threads have nothing to be even with.
const CHILDREN_MIN: usize = 2;
/// Maximum time between the starts of threads for one job, as a share of the shortest one's life.
const START_SPREAD: f64 = 0.5;

/// Adds a rendezvous for each group of threads that one thread started together and joined. Threads that run
/// until they receive a stop request are left out, because they have no work left at the join.
pub fn add(trace: &Trace, endings: &Endings, rendezvous: &mut Rendezvous) {
    let mut children: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
    for id in trace.target_threads() {
        let thread = &trace.threads[id.index()];
        let parent = thread.parent.filter(|parent| {
            trace.threads.get(parent.index()).is_some_and(|parent| parent.process == thread.process)
        });
        if let Some(parent) =
            parent.filter(|_| !thread.began_before && !thread.alive_at_end && !endings.has_stop_request(id))
        {
            children.entry(parent).or_default().push(id);
        }
    }
    for (parent, mut group) in children {
        group.sort_by_key(|id| (trace.threads[id.index()].start, *id));
        let joins = joins(trace, parent);
        let mut site = None;
        for batch in batches(trace, &group) {
            add_batch(trace, (parent, &mut site), (&batch, &joins), rendezvous);
        }
    }
}

/// Waits of `parent` for the end of a thread: start, end.
fn joins(trace: &Trace, parent: ThreadId) -> Vec<(Timestamp, Timestamp)> {
    let waits = trace.slices.of_thread(parent).filter(|slice| {
        slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason == WaitReason::Join
    });
    waits.map(|slice| (slice.start, slice.end)).collect()
}

/// Threads that were started before the first of them ended.
fn batches(trace: &Trace, children: &[ThreadId]) -> Vec<Vec<ThreadId>> {
    let mut batches: Vec<Vec<ThreadId>> = Vec::new();
    let mut first_end = Timestamp(0);
    for id in children {
        let thread = &trace.threads[id.index()];
        match batches.last_mut() {
            Some(batch) if thread.start < first_end => {
                batch.push(*id);
                first_end = first_end.min(thread.end);
            }
            _ => {
                batches.push(vec![*id]);
                first_end = thread.end;
            }
        }
    }
    batches
}

fn add_batch(
    trace: &Trace,
    (parent, site): (ThreadId, &mut Option<u32>),
    (batch, joins): (&[ThreadId], &[(Timestamp, Timestamp)]),
    rendezvous: &mut Rendezvous,
) {
    let life = |id: &ThreadId| (trace.threads[id.index()].start, trace.threads[id.index()].end);
    let starts = batch.iter().map(|id| life(id).0);
    let (Some(first), Some(last_start)) = (starts.clone().min(), starts.max()) else { return };
    let shortest = batch.iter().map(|id| life(id).1.since(life(id).0).0).min().unwrap_or(0);
    let together = last_start.since(first).0 as f64 <= START_SPREAD * shortest as f64;
    let end = batch.iter().map(|id| life(id).1).max().unwrap_or(first);
    // The wakeup that a thread's end causes precedes the end by a short time.
    let awaited = joins.iter().any(|(from, to)| *from < end && first <= *from && *to > first);
    if batch.len() < CHILDREN_MIN || !together || !awaited {
        return;
    }
    let process = trace.threads[parent.index()].process;
    let number = *site.get_or_insert_with(|| {
        rendezvous.append_site(Site {
            kind: MeetingKind::Join,
            process,
            waiter: Some(parent),
            ..Site::default()
        })
    });
    let arrival = |id: &ThreadId| Arrival { thread: *id, at: life(id).1, resumed: end, spun: false };
    let arrivals: Vec<Arrival> = batch.iter().map(arrival).collect();
    let asked = arrivals.iter().map(|arrival| arrival.at).min().unwrap_or(end);
    let last =
        arrivals.iter().max_by_key(|arrival| (arrival.at, arrival.thread)).map(|arrival| arrival.thread);
    rendezvous.append(
        Meeting {
            site: number,
            since: first,
            asked,
            leader: Some(parent),
            release: end,
            last,
            ..Meeting::default()
        },
        arrivals,
    );
}
