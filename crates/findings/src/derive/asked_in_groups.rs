//! Who asks a service many things at once, waits until all of them are answered, and only then asks the next ones: each group takes as
//! long as its slowest answer. It judges nothing.
//!
//! A group begins with questions that come one after the other, with no answer between them, and ends with the last answer before the next
//! question. Who asks as soon as something was answered has one question, then one answer, then one question: most questions must come in
//! rows. Questions and answers are messages (`in_flight.rs`): what comes to who is awake leaves none, so that there are more of both than
//! are seen, and of a group's questions perhaps one. Answers that were not seen came while who asks was at work on others, at the
//! soonest with the first. Were as many
//! under way all the time as at a group's beginning, it would take as long as its answers on average, or as who asks runs meanwhile.
//!
//! Who is given the next group, by a clock or by somebody else, did not choose to wait for it.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::ThreadState;
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::asking::{self, Heard};
use super::cover::{Cover, Span, common_ns};
use super::holders::Holders;
use super::in_flight::Message;
use crate::charge::Charge;

/// A program that asks a service so.
#[derive(Clone, Debug)]
pub struct InGroups {
    /// Who asks.
    pub process: ProcessId,
    /// Who is asked: processes of one name.
    pub peers: BTreeSet<ProcessId>,
    /// How many groups there were.
    pub groups: u64,
    /// Questions that were seen at the beginning of all groups; there were as many at the least.
    pub asks: u64,
    /// How long all took from the first question to the next group's, or to the last answer if that was given (ns).
    pub took_ns: u64,
    /// How long the answers of a group took on average, at the least, summed (ns).
    pub answered_ns: u64,
    /// What of `took_ns` would go at the most, were as many under way all the time (ns).
    pub idle_ns: u64,
    /// It is known that this one asks, and does not wait to be asked.
    pub is_sure: bool,
    /// The waits that answers ended.
    pub waited: Charge,
    /// What the service's threads slept meanwhile.
    pub slept: Charge,
}

/// Fewer questions in a row may be chance.
const ROW_MIN: u64 = 3;
/// Fewer such rows may be, too.
const GROUPS_MIN: usize = 8;
/// Of all questions, so many come in shorter rows.
const SINGLE_MAX: f64 = 0.2;
/// The rank of the size, from the least: beyond it two may be taken for one.
const SIZE_RANK: f64 = 0.9;
/// Of all groups, so many are given by a clock or by others.
const GIVEN_MAX: f64 = 0.2;

/// Derives them, those that would gain most first.
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

/// What one program and a service say to each other.
struct Talk {
    process: ProcessId,
    peers: BTreeSet<ProcessId>,
    is_sure: bool,
    messages: Vec<Message>,
}

/// Questions in a row, and the answers before the next question.
struct Group {
    begins: Message,
    asks: u64,
    answers: Vec<Message>,
    /// With the next one, if nobody else gave that; else with the last answer.
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

    /// All that were answered.
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

    /// Whether who asks was given what it asks next: it slept until then, or somebody else's word came.
    fn is_given(&self, (trace, holders): (&Trace, &Holders), group: &Group, next: Message) -> bool {
        let Some(last) = group.answers.last() else { return false };
        let thread = next.from;
        let gap = (last.at, next.at);
        let others = |waker: ThreadId| {
            let of = trace.threads.get(waker.index()).map(|thread| thread.process);
            of.is_some_and(|of| of != self.process && !self.peers.contains(&of))
        };
        let wakeups = trace.wakeups.of(thread);
        let from = wakeups.partition_point(|wakeup| wakeup.at <= gap.0);
        let mut within = wakeups[from..].iter().take_while(|wakeup| wakeup.at < gap.1);
        let is_fed = within.any(|one| one.context == WakeContext::Thread && others(one.waker));
        is_fed || asking::sleeps_meanwhile((trace, holders), thread, gap)
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
        let meanwhile = Cover::of(spans);
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

/// How many questions a group has: most are alike, and of the greater ones most was seen.
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
