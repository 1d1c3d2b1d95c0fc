//! Clients that send a service several requests at once, wait for all responses, and only then send the next
//! group. Each group takes as long as its slowest response.
//!
//! A group begins with consecutive requests without a response in between. It ends with the last response
//! before the next request. A client that sends a request after each response alternates between both, so
//! most requests must come in rows.
//!
//! Requests and responses are messages (`in_flight.rs`). A message to a running thread leaves no event. There
//! are therefore more messages than recorded, and perhaps only one request of a group is recorded. An
//! unrecorded response arrived while the client worked on other responses, at the earliest with the first
//! one.
//!
//! With as many requests in flight at all times as at a group's beginning, a group would take as long as its
//! mean response. It would take at least as long as the client itself runs.
//!
//! A client that gets its next group from a clock or from another program did not choose to wait.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::asking::{self, Heard};
use super::cover::{Cover, Span, common_ns};
use super::holders::Holders;
use super::in_flight::Message;
use crate::charge::Charge;

/// A client that sends requests to a service in groups.
#[derive(Clone, Debug)]
pub struct InGroups {
    /// The client.
    pub process: ProcessId,
    /// The service: processes with one name.
    pub peers: BTreeSet<ProcessId>,
    /// Number of groups.
    pub groups: u64,
    /// Recorded requests at the beginning of all groups. The true number is at least this.
    pub asks: u64,
    /// Total time from each group's first request to the next group's (ns). To the last response if the next
    /// group was triggered from outside.
    pub took_ns: u64,
    /// Mean response time of a group, as a lower bound, summed over all groups (ns).
    pub answered_ns: u64,
    /// Maximum saving of `took_ns` with constantly as many requests in flight (ns).
    pub idle_ns: u64,
    /// Whether it is certain that this process is the client.
    pub is_sure: bool,
    /// Waits that responses ended.
    pub waited: Charge,
    /// Sleeps of the service's threads during the groups.
    pub slept: Charge,
}

/// Minimum number of consecutive requests. Fewer may be chance.
const ROW_MIN: u64 = 3;
/// Fewer such rows may be, too.
const GROUPS_MIN: usize = 8;
/// Maximum share of requests in shorter rows.
const SINGLE_MAX: f64 = 0.2;
/// The rank of the size, from the least: beyond it two may be taken for one.
const SIZE_RANK: f64 = 0.9;
/// Maximum share of groups triggered by a clock or another program.
const GIVEN_MAX: f64 = 0.2;

/// Derives all such clients, largest saving first.
pub fn derive(trace: &Trace, holders: &Holders, (spoken, directions): &Heard) -> Vec<InGroups> {
    let mut talks: BTreeMap<(ProcessId, &str), Talk> = BTreeMap::new();
    for ((process, peer), is_sure) in directions {
        let Some(between) = spoken.between(*process, *peer) else { continue };
        let name = trace.process_name(*peer);
        let talk = talks.entry((*process, name)).or_insert_with(|| Talk::new(*process));
        talk.peers.insert(*peer);
        talk.is_sure &= is_sure;
        talk.messages.extend(between);
    }
    let mut found: Vec<InGroups> =
        talks.into_values().filter_map(|talk| talk.in_groups((trace, holders))).collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.idle_ns), one.process));
    found
}

/// Messages between one program and a service.
struct Talk {
    process: ProcessId,
    peers: BTreeSet<ProcessId>,
    is_sure: bool,
    messages: Vec<Message>,
}

/// Consecutive requests, and the responses before the next request.
struct Group {
    begins: Message,
    asks: u64,
    answers: Vec<Message>,
    /// Start of the next group. If that one was triggered from outside, the last response.
    ends: Timestamp,
}

impl Talk {
    fn new(process: ProcessId) -> Talk {
        Talk { process, peers: BTreeSet::new(), is_sure: true, messages: Vec::new() }
    }

    fn asks(&self, trace: &Trace, message: &Message) -> bool {
        trace.threads[message.from.index()].process == self.process
    }

    fn in_groups(mut self, (trace, holders): (&Trace, &Holders)) -> Option<InGroups> {
        self.messages.sort_unstable_by_key(|message| (message.at, message.to));
        let mut groups = self.groups(trace);
        let asks: u64 = groups.iter().map(|group| group.asks).sum();
        let rows = || groups.iter().filter(|group| group.asks >= ROW_MIN);
        let in_rows: u64 = rows().map(|group| group.asks).sum();
        if rows().count() < GROUPS_MIN || ((asks - in_rows) as f64) > SINGLE_MAX * asks as f64 {
            return None;
        }
        let mut given = 0;
        for at in 1..groups.len() {
            match self.is_given((trace, holders), &groups[at - 1], groups[at].begins) {
                true => given += 1,
                false => groups[at - 1].ends = groups[at].begins.at,
            }
        }
        if given as f64 > GIVEN_MAX * groups.len() as f64 {
            return None;
        }
        Some(self.summed((trace, holders), &groups, asks))
    }

    /// All groups with responses.
    fn groups(&self, trace: &Trace) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let mut at = 0;
        while let Some(first) = self.messages.get(at) {
            let is_ask = self.asks(trace, first);
            let row = self.messages[at..].iter().take_while(|one| self.asks(trace, one) == is_ask).count();
            let messages = &self.messages[at..at + row];
            at += row;
            match is_ask {
                true => groups.push(Group {
                    begins: *first,
                    asks: row as u64,
                    answers: Vec::new(),
                    ends: first.at,
                }),
                false => groups.last_mut().into_iter().for_each(|group| {
                    group.answers.extend(messages);
                    group.ends = messages[messages.len() - 1].at;
                }),
            }
        }
        groups.retain(|group| !group.answers.is_empty());
        groups
    }

    /// Whether the client's next group was triggered from outside: the client slept until then, or another
    /// program woke it.
    fn is_given(&self, (trace, holders): (&Trace, &Holders), group: &Group, next: Message) -> bool {
        let Some(last) = group.answers.last() else { return false };
        let thread = next.from;
        let gap = (last.at, next.at);
        let others = |waker: ThreadId| {
            let of = trace.threads.get(waker.index()).map(|thread| thread.process);
            of.is_some_and(|of| of != self.process && !self.peers.contains(&of))
        };
        let wakeups = trace.wakeups.of_thread(thread);
        let from = wakeups.partition_point(|wakeup| wakeup.at <= gap.0);
        let mut within = wakeups[from..].iter().take_while(|wakeup| wakeup.at < gap.1);
        let is_fed = within.any(|one| one.context == WakeContext::Thread && others(one.waker));
        is_fed || asking::sleeps_during((trace, holders), thread, gap)
    }

    fn summed(&self, (trace, holders): (&Trace, &Holders), groups: &[Group], asks: u64) -> InGroups {
        let (mut took_ns, mut answered_ns, mut idle_ns) = (0, 0, 0);
        let mut spans = Vec::new();
        let size = size_of(groups);
        for group in groups {
            let since: Vec<u64> = group.answers.iter().map(|one| one.at.since(group.begins.at).0).collect();
            let first = since[0];
            let whole = group.ends.since(group.begins.at).0;
            let unseen = size.saturating_sub(since.len() as u64);
            let mean = (since.iter().sum::<u64>() + unseen * first) / (since.len() as u64 + unseen);
            let span = (group.begins.at, group.ends);
            took_ns += whole;
            answered_ns += mean;
            idle_ns += whole.saturating_sub(mean.max(ran_ns(trace, group.begins.from, span)));
            spans.push(span);
        }
        let answers = || groups.iter().flat_map(|group| &group.answers);
        let rows: BTreeSet<(ThreadId, u32)> = answers().map(|one| (one.to, one.row)).collect();
        let peers: BTreeSet<ThreadId> = answers().map(|one| one.from).collect();
        let meanwhile = Cover::from_spans(spans);
        InGroups {
            process: self.process,
            peers: self.peers.clone(),
            groups: groups.len() as u64,
            asks,
            took_ns,
            answered_ns,
            idle_ns,
            is_sure: self.is_sure,
            waited: Charge::of_rows(trace, |thread, take| {
                rows.range((thread, 0)..=(thread, u32::MAX)).for_each(|(_, row)| take(*row as usize));
            }),
            slept: Charge::of_rows(trace, |thread, take| {
                if peers.contains(&thread) {
                    let spans = meanwhile.spans().iter();
                    spans.for_each(|span| {
                        asking::slept_within((trace, holders), thread, *span).for_each(&mut *take)
                    });
                }
            }),
        }
    }
}

/// Number of requests per group. Most groups have the same size, and most requests of the larger recorded
/// groups were recorded.
fn size_of(groups: &[Group]) -> u64 {
    let mut sizes: Vec<u64> = groups.iter().map(|group| group.asks.max(group.answers.len() as u64)).collect();
    sizes.sort_unstable();
    sizes.get((SIZE_RANK * sizes.len() as f64) as usize).copied().unwrap_or(0)
}

/// How long a thread ran in a span (ns).
fn ran_ns(trace: &Trace, thread: ThreadId, span: Span) -> u64 {
    let rows = trace.slices.rows(thread);
    let first = trace.slices.covering(thread, span.0).unwrap_or(rows.start);
    let slices = (first..rows.end).map(|row| trace.slices.at(thread, row));
    let within = slices.take_while(|slice| slice.start < span.1);
    let running = within.filter(|slice| slice.state == ThreadState::Running);
    running.map(|slice| common_ns(span, (slice.start, slice.end))).sum()
}
