//! Threads that go on until they are told to stop, and what decides when that is.
//!
//! A replay takes what a thread does for work that must be done. But a cleaner, a monitor or a hog loops until the
//! thread that made it sets a flag and waits for its end: how much it does follows from how long the run takes. And where
//! that thread merely slept in the meantime, the run takes as long as the timer says, whatever is changed; what changes is
//! the work that is done until then.
//!
//! A flag in memory is not in a trace. What tells such a thread is that it ends within a round of its own after its maker
//! began to wait for threads to end; that nothing but locks ties it to other threads (who is fed by others, or has others
//! wait for what it does, has work to do); and that it does not do the same work as whoever is waited for: threads that share
//! one job end together because its parts are even.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{StackId, ThreadId, Timestamp, Trace, WaitReason};

use super::build::Facts;
use super::naps;
use super::steps::Follower;
use crate::derive::class::Class;
use crate::derive::samples_of;

/// Who is told to stop looks for it once a round: it ends within so many of its longest …
const ROUNDS_MAX: f64 = 1.5;
/// … if it was seen to go round as often as this, …
const ROUNDS_MIN: usize = 4;
/// … and in this part of its life at the most; who never waits, in this one.
const TAIL_MAX: f64 = 0.5;
const TAIL_MAX_ROUNDLESS: f64 = 0.03;
/// Threads may meet at their begin, and be woken to hear that it is over: what lies in this part of a life is no tie.
const EDGE: f64 = 0.05;
/// A maker that sleeps for this part of a thread's life has a timer decide.
const TIMED_MIN: f64 = 0.8;
/// Who sleeps for this part of it at a time does so for time to go by.
const LONG_MIN: f64 = 0.1;
/// What is in so many of a thread's stacks is what it is for …
const MOSTLY: f64 = 0.8;
/// … and who has it in so many of its own does the same work.
const SAME_MIN: f64 = 0.05;
/// Fewer stacks tell nothing.
const STACKS_MIN: usize = 5;
/// So many of a thread's stacks are looked at: evenly chosen ones.
const STACKS_MAX: usize = 1000;

/// A thread that went on until it was told to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// By whom.
    pub by: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Whose progress decides when that is: who told it, and whose ends that one awaited before.
    pub deciders: Vec<ThreadId>,
}

/// How the threads of a program come to their ends.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    /// Threads that go on until they are told.
    pub(super) told: BTreeMap<ThreadId, Told>,
    /// Those of them that are told by a thread that slept in the meantime, by that thread.
    pub(super) timed: BTreeMap<ThreadId, Vec<ThreadId>>,
    /// Threads that keep house, with whom they keep up.
    pub(super) housekeepers: Vec<(ThreadId, Follower)>,
    /// So many of those that are told are told by a timer: their teller slept long, it did not look again and again.
    by_timer: usize,
}

/// A wait for the end of a thread.
struct Join {
    from: Timestamp,
    to: Timestamp,
    ended: Option<ThreadId>,
}

impl Endings {
    /// Of the program's threads.
    pub fn new(facts: Facts) -> Endings {
        let trace = facts.trace;
        let mut children: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
        for id in trace.target_threads() {
            let thread = &trace.threads[id.index()];
            let maker = thread.parent.filter(|_| !thread.began_before && !thread.alive_at_end);
            if let Some(maker) = maker.filter(|maker| trace.threads[maker.index()].target) {
                children.entry(maker).or_default().push(id);
            }
        }
        let mut candidates = BTreeMap::new();
        for (maker, children) in children {
            let joins = joins(facts, maker);
            for child in children {
                let told = told(trace, (maker, &joins), child).filter(|told| is_short(trace, child, told.at));
                candidates.extend(told.map(|told| (child, told)));
            }
        }
        drop_tied(facts, &mut candidates);
        let mut endings = Endings::default();
        for (child, told) in &candidates {
            if sleeps_meanwhile(trace, told, *child) && !has_others_end(trace, told, *child) {
                endings.timed.entry(told.by).or_default().push(*child);
                endings.by_timer += usize::from(sleeps_long(trace, told, *child));
            }
        }
        let mut works = Works { trace, known: BTreeMap::new() };
        for (child, mut told) in candidates.clone() {
            told.deciders.retain(|decider| !candidates.contains_key(decider));
            let is_timed = endings.timed.get(&told.by).is_some_and(|timed| timed.contains(&child));
            if is_timed || !told.deciders.iter().any(|decider| works.are_one(child, *decider)) {
                endings.told.insert(child, told);
            }
        }
        endings.housekeepers = naps::housekeepers(trace, |thread| !endings.told.contains_key(&thread));
        endings
    }

    /// That thread goes on until a timer ends, of those that are given.
    pub(super) fn is_timed(&self, sleepers: &BTreeMap<ThreadId, Timestamp>, thread: ThreadId) -> bool {
        let told = self.told.get(&thread).filter(|told| sleepers.contains_key(&told.by));
        told.is_some_and(|told| self.timed.get(&told.by).is_some_and(|timed| timed.contains(&thread)))
    }

    /// That thread goes on until it is told to stop.
    pub fn is_told(&self, thread: ThreadId) -> bool {
        self.told.contains_key(&thread)
    }

    /// How many threads go on until they are told to stop, and how many more until a timer ends.
    pub fn count(&self) -> (usize, usize) {
        let asleep: usize = self.timed.values().map(Vec::len).sum();
        (self.told.len() - asleep, self.by_timer)
    }
}

/// When `maker` waited for the ends of threads and processes, in order: by the kernel, or as its runtime does.
fn joins(facts: Facts, maker: ThreadId) -> Vec<Join> {
    let trace = facts.trace;
    let is_join = |slice: &Slice| {
        slice.state == ThreadState::Blocked
            && (matches!(trace.wait(slice.wait).reason, WaitReason::Join | WaitReason::Child)
                || facts.roles.class_of_wait(trace, slice) == Class::JoinWait)
    };
    let waits = trace.slices.of(maker).filter(is_join);
    let join = |slice: Slice| Join {
        from: slice.start,
        to: slice.end,
        ended: trace.ended_by(&slice).map(|wakeup| wakeup.waker),
    };
    waits.map(join).collect()
}

/// A thread was told to stop, if at all, when its maker last began to wait for ends before its own.
fn told(trace: &Trace, (maker, joins): (ThreadId, &[Join]), child: ThreadId) -> Option<Told> {
    let life = &trace.threads[child.index()];
    let place = joins.partition_point(|join| join.from < life.end).checked_sub(1)?;
    let at = joins.get(place)?.from;
    let before = joins.get(..place)?.iter().filter(|join| join.to > life.start);
    let mut deciders: Vec<ThreadId> = before.filter_map(|join| join.ended).chain([maker]).collect();
    deciders.sort_unstable();
    deciders.dedup();
    deciders.retain(|decider| trace.threads.get(decider.index()).is_some_and(|thread| thread.target));
    (at > life.start).then_some(Told { by: maker, at, deciders })
}

/// It ended within a round of its own.
fn is_short(trace: &Trace, child: ThreadId, told: Timestamp) -> bool {
    let life = &trace.threads[child.index()];
    let length = life.end.since(life.start).0 as f64;
    let tail = life.end.since(told).0 as f64;
    let waits = trace.slices.of(child).filter(|slice| slice.state == ThreadState::Blocked);
    let (mut rounds, mut longest, mut before) = (0, 0, None);
    for at in waits.map(|slice| slice.start) {
        if let Some(before) = before {
            rounds += 1;
            longest = longest.max(at.since(before).0);
        }
        before = Some(at);
    }
    let by_rounds =
        if rounds < ROUNDS_MIN { 0.0 } else { (ROUNDS_MAX * longest as f64).min(TAIL_MAX * length) };
    tail <= by_rounds.max(TAIL_MAX_ROUNDLESS * length)
}

/// Of threads that may have been told to stop, drops those that wait for others of the program, or have them wait, for
/// something else than locks.
fn drop_tied(facts: Facts, candidates: &mut BTreeMap<ThreadId, Told>) {
    if candidates.is_empty() {
        return;
    }
    let trace = facts.trace;
    let counts = |thread: ThreadId, told: &Told, at: Timestamp| {
        let life = &trace.threads[thread.index()];
        let edge = (life.end.since(life.start).0 as f64 * EDGE) as u64;
        at.0 > life.start.0 + edge && at.0 + edge < told.at.0
    };
    let mut tied = Vec::new();
    for wakee in trace.target_threads() {
        let mut near = 0;
        for slice in trace.slices.of(wakee).filter(|slice| slice.state == ThreadState::Blocked) {
            let Some(wakeup) = trace.ended_by_near(&slice, &mut near) else { continue };
            let by_thread = wakeup.context == WakeContext::Thread && wakeup.waker != wakee;
            if !by_thread || facts.locks.of(&slice).is_some() || is_kernels(facts, &slice) {
                continue;
            }
            for (end, other) in [(wakee, wakeup.waker), (wakeup.waker, wakee)] {
                let other = trace.threads.get(other.index()).is_some_and(|other| other.target);
                let counts = candidates.get(&end).is_some_and(|told| other && counts(end, told, wakeup.at));
                tied.extend(counts.then_some(end));
            }
        }
    }
    for thread in tied {
        candidates.remove(&thread);
    }
}

/// A wait for what the kernel does, whichever thread it happens to do it on.
fn is_kernels(facts: Facts, slice: &Slice) -> bool {
    matches!(
        facts.roles.class_of_wait(facts.trace, slice),
        Class::IoWait | Class::FaultWait | Class::KernelWait | Class::Sleep | Class::Stopped
    )
}

/// Who told it slept until then.
fn sleeps_meanwhile(trace: &Trace, told: &Told, child: ThreadId) -> bool {
    let from = trace.threads[child.index()].start;
    timer_ns(trace, told.by, (from, told.at)) as f64 >= TIMED_MIN * told.at.since(from).0 as f64
}

/// … for long at a time: it waited for time to go by. Who sleeps shortly looks whether something is done.
fn sleeps_long(trace: &Trace, told: &Told, child: ThreadId) -> bool {
    let life = &trace.threads[child.index()];
    let long = told.at.since(life.start).0 as f64 * LONG_MIN;
    let timers = trace.slices.of(told.by).filter(|slice| slice.end > life.start && is_timer(trace, slice));
    timers.map(|slice| slice.duration().0).max().is_some_and(|ns| ns as f64 >= long)
}

/// Others that were made with it ended before anybody told them: they were through with their work, and so may it be.
fn has_others_end(trace: &Trace, told: &Told, child: ThreadId) -> bool {
    let life = &trace.threads[child.index()];
    let half = told.at.since(life.start).0 / 2;
    trace.target_threads().any(|other| {
        let other = &trace.threads[other.index()];
        other.parent == Some(told.by)
            && other.end < told.at
            && other.end.since(other.start.max(life.start)).0 > half
    })
}

/// A wait of that thread ended because time was up: a sleep, or a signal that a timer sends.
pub(super) fn is_timer(trace: &Trace, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked
        && (trace.wait(slice.wait).reason == WaitReason::Sleep
            || trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer))
}

/// The same of one that lasted for a good part of the recording. Who sleeps shortly looks whether something is done, and
/// would be busy with nothing else if it did not sleep.
pub(super) fn is_long_timer(trace: &Trace, slice: &Slice) -> bool {
    is_timer(trace, slice) && slice.duration().0 as f64 >= LONG_MIN * trace.wall().0 as f64
}

fn timer_ns(trace: &Trace, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> u64 {
    let within = |slice: &Slice| slice.end > from && slice.start < to;
    let timers = trace.slices.of(thread).filter(|slice| within(slice) && is_timer(trace, slice));
    timers.map(|slice| slice.end.min(to).since(slice.start.max(from)).0).sum()
}

/// What threads are for, as far as their stacks tell.
struct Works<'a> {
    trace: &'a Trace,
    /// The stacks of each thread that was asked for.
    known: BTreeMap<ThreadId, Vec<StackId>>,
}

impl Works<'_> {
    fn stacks(&mut self, thread: ThreadId) -> &[StackId] {
        let trace = self.trace;
        self.known.entry(thread).or_insert_with(|| {
            let samples = samples_of(trace, thread).iter().map(|sample| sample.stack);
            let waits = trace.slices.of(thread).map(|slice| slice.stack);
            let stacks: Vec<StackId> = samples.chain(waits).filter(|stack| *stack != StackId::NONE).collect();
            stacks.iter().step_by(stacks.len() / STACKS_MAX + 1).copied().collect()
        })
    }

    /// Two threads do the same work, or it is not known that they do not.
    fn are_one(&mut self, one: ThreadId, other: ThreadId) -> bool {
        let trace = self.trace;
        let Some(function) = mostly(trace, self.stacks(one)) else { return true };
        let others = self.stacks(other);
        let is_in =
            |stack: &&StackId| trace.stack_frames(**stack).any(|frame| trace.frame_name(frame) == function);
        let hits = others.iter().filter(is_in).count();
        hits as f64 >= SAME_MIN * others.len() as f64 && hits > 0
    }
}

/// The innermost function that is in most stacks.
fn mostly(trace: &Trace, stacks: &[StackId]) -> Option<String> {
    let mut left: Vec<Vec<String>> = Vec::with_capacity(stacks.len());
    for stack in stacks {
        let mut names: Vec<String> =
            trace.stack_frames(*stack).map(|frame| trace.frame_name(frame)).collect();
        names.reverse();
        left.push(names);
    }
    let enough = (stacks.len() as f64 * MOSTLY).max(STACKS_MIN as f64);
    let mut found = None;
    for depth in 0.. {
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for name in left.iter().filter_map(|names| names.get(depth)) {
            *counts.entry(name).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let Some((name, _)) = most.filter(|(_, count)| *count as f64 >= enough) else { break };
        let name = name.clone();
        left.retain(|names| names.get(depth) == Some(&name));
        found = Some(name);
    }
    found
}
