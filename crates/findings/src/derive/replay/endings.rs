//! Threads that run until a stop request, and what decides when the request comes.
//!
//! A replay treats a thread's work as fixed. But a cleaner, a monitor or a hog loops until its parent sets a
//! flag and joins it. Its amount of work follows from the length of the run. If the parent only sleeps until
//! then, the run takes as long as the timer, whatever is changed. A change then affects the work done until
//! the timer ends.
//!
//! A trace does not contain a flag in memory. Three properties identify such a thread:
//!
//! - It ends within one of its own rounds after its parent began to join threads.
//! - Only locks tie it to other threads. A thread that gets work from others, or on whose results others
//!   wait, has fixed work.
//! - It does not do the same work as the threads that its parent joins. Threads that share one job end
//!   together because its parts are equal.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{StackId, ThreadId, Timestamp, Trace, WaitReason};

use super::build::Facts;
use super::naps;
use super::steps::Follower;
use crate::derive::class::Class;
use crate::derive::samples_of;

/// A thread checks its stop flag once per round. After the request it ends within this number of its longest
/// rounds …
const ROUNDS_MAX: f64 = 1.5;
/// … if at least this number of rounds was recorded …
const ROUNDS_MIN: usize = 4;
/// … and within this share of its life. For a thread that never waits, only the second limit applies.
const TAIL_MAX: f64 = 0.5;
const TAIL_MAX_ROUNDLESS: f64 = 0.03;
/// Waits within this share of a thread's life from its start or end do not tie it to others. Threads may
/// synchronize at their start, and may be woken for the stop request.
const EDGE: f64 = 0.05;
/// A maker that sleeps for this part of a thread's life has a timer decide.
const TIMED_MIN: f64 = 0.8;
/// A parent with a single sleep of at least this share of the thread's life waits for a time to pass.
const LONG_MIN: f64 = 0.1;
/// A function in at least this share of a thread's stacks is the thread's work …
const MOSTLY: f64 = 0.8;
/// … and a thread with the function in at least this share of its own stacks does the same work.
const SAME_MIN: f64 = 0.05;
/// Minimum number of stacks. Fewer prove nothing.
const STACKS_MIN: usize = 5;
/// Maximum number of a thread's stacks to check, evenly chosen.
const STACKS_MAX: usize = 1000;

/// A thread that ran until a stop request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StopRequest {
    /// Parent that sent the request.
    pub by: ThreadId,
    /// Time of the request.
    pub at: Timestamp,
    /// Threads whose progress decides the time of the request: the parent, and the threads that it joined
    /// before.
    pub deciders: Vec<ThreadId>,
}

/// The way in which each thread of a program ends.
#[derive(Clone, Debug, Default)]
pub struct Endings {
    /// Threads that run until a stop request.
    pub(super) requests: BTreeMap<ThreadId, StopRequest>,
    /// Threads from `requests` whose parent slept until the request, by parent.
    pub(super) timed: BTreeMap<ThreadId, Vec<ThreadId>>,
    /// Housekeeping threads, with the threads whose progress each follows.
    pub(super) housekeepers: Vec<(ThreadId, Follower)>,
    /// Number of threads from `requests` that a timer stops: their parent slept for long periods and did not
    /// poll.
    by_timer: usize,
}

/// A wait for the end of a thread.
struct Join {
    from: Timestamp,
    to: Timestamp,
    ended: Option<ThreadId>,
}

impl Endings {
    /// Derives the ends of the program's threads.
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
                let request = stop_request(trace, (maker, &joins), child)
                    .filter(|request| is_short(trace, child, request.at));
                candidates.extend(request.map(|request| (child, request)));
            }
        }
        drop_tied(facts, &mut candidates);
        let mut endings = Endings::default();
        for (child, request) in &candidates {
            if requester_slept(trace, request, *child) && !sibling_ended_before(trace, request, *child) {
                endings.timed.entry(request.by).or_default().push(*child);
                endings.by_timer += usize::from(sleeps_long(trace, request, *child));
            }
        }
        let mut works = Works { trace, known: BTreeMap::new() };
        for (child, mut request) in candidates.clone() {
            request.deciders.retain(|decider| !candidates.contains_key(decider));
            let is_timed = endings.timed.get(&request.by).is_some_and(|timed| timed.contains(&child));
            if is_timed || !request.deciders.iter().any(|decider| works.are_one(child, *decider)) {
                endings.requests.insert(child, request);
            }
        }
        endings.housekeepers = naps::housekeepers(trace, |thread| !endings.requests.contains_key(&thread));
        endings
    }

    /// Whether the thread runs until the timer of one of the given sleepers ends.
    pub(super) fn is_timed(&self, sleepers: &BTreeMap<ThreadId, Timestamp>, thread: ThreadId) -> bool {
        let request = self.requests.get(&thread).filter(|request| sleepers.contains_key(&request.by));
        request
            .is_some_and(|request| self.timed.get(&request.by).is_some_and(|timed| timed.contains(&thread)))
    }

    /// Whether the thread runs until a stop request.
    pub fn has_stop_request(&self, thread: ThreadId) -> bool {
        self.requests.contains_key(&thread)
    }

    /// Number of threads that run until a stop request, and number of further threads that run until a timer
    /// ends.
    pub fn count(&self) -> (usize, usize) {
        let asleep: usize = self.timed.values().map(Vec::len).sum();
        (self.requests.len() - asleep, self.by_timer)
    }
}

/// Waits of `maker` for the ends of threads and processes, in time order, in the kernel or in its runtime.
fn joins(facts: Facts, maker: ThreadId) -> Vec<Join> {
    let trace = facts.trace;
    let is_join = |slice: &Slice| {
        slice.state == ThreadState::Blocked
            && (matches!(trace.wait(slice.wait).reason, WaitReason::Join | WaitReason::Child)
                || facts.roles.class_of_wait(trace, slice) == Class::JoinWait)
    };
    let waits = trace.slices.of_thread(maker).filter(is_join);
    let join = |slice: Slice| Join {
        from: slice.start,
        to: slice.end,
        ended: trace.ended_by(&slice).map(|wakeup| wakeup.waker),
    };
    waits.map(join).collect()
}

/// The stop request of a thread, if there was one: when its parent began the last join before the thread's
/// end.
fn stop_request(trace: &Trace, (maker, joins): (ThreadId, &[Join]), child: ThreadId) -> Option<StopRequest> {
    let life = &trace.threads[child.index()];
    let place = joins.partition_point(|join| join.from < life.end).checked_sub(1)?;
    let at = joins.get(place)?.from;
    let before = joins.get(..place)?.iter().filter(|join| join.to > life.start);
    let mut deciders: Vec<ThreadId> = before.filter_map(|join| join.ended).chain([maker]).collect();
    deciders.sort_unstable();
    deciders.dedup();
    deciders.retain(|decider| trace.threads.get(decider.index()).is_some_and(|thread| thread.target));
    (at > life.start).then_some(StopRequest { by: maker, at, deciders })
}

/// Whether the thread ended within one of its own rounds after the request.
fn is_short(trace: &Trace, child: ThreadId, request: Timestamp) -> bool {
    let life = &trace.threads[child.index()];
    let length = life.end.since(life.start).0 as f64;
    let tail = life.end.since(request).0 as f64;
    let waits = trace.slices.of_thread(child).filter(|slice| slice.state == ThreadState::Blocked);
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

/// Drops threads that wait for other threads of the program, or that others wait for. Waits for locks do not
/// count.
fn drop_tied(facts: Facts, candidates: &mut BTreeMap<ThreadId, StopRequest>) {
    if candidates.is_empty() {
        return;
    }
    let trace = facts.trace;
    let counts = |thread: ThreadId, request: &StopRequest, at: Timestamp| {
        let life = &trace.threads[thread.index()];
        let edge = (life.end.since(life.start).0 as f64 * EDGE) as u64;
        at.0 > life.start.0 + edge && at.0 + edge < request.at.0
    };
    let mut tied = Vec::new();
    for wakee in trace.target_threads() {
        let mut near = 0;
        for slice in trace.slices.of_thread(wakee).filter(|slice| slice.state == ThreadState::Blocked) {
            let Some(wakeup) = trace.ended_by_near(&slice, &mut near) else { continue };
            let by_thread = wakeup.context == WakeContext::Thread && wakeup.waker != wakee;
            if !by_thread || facts.locks.of_slice(&slice).is_some() || is_kernels(facts, &slice) {
                continue;
            }
            for (end, other) in [(wakee, wakeup.waker), (wakeup.waker, wakee)] {
                let other = trace.threads.get(other.index()).is_some_and(|other| other.target);
                let counts =
                    candidates.get(&end).is_some_and(|request| other && counts(end, request, wakeup.at));
                tied.extend(counts.then_some(end));
            }
        }
    }
    for thread in tied {
        candidates.remove(&thread);
    }
}

/// Whether the wait is for work of the kernel, which may run on any thread.
fn is_kernels(facts: Facts, slice: &Slice) -> bool {
    matches!(
        facts.roles.class_of_wait(facts.trace, slice),
        Class::IoWait | Class::FaultWait | Class::KernelWait | Class::Sleep | Class::Stopped
    )
}

/// Whether the requesting thread slept until the request.
fn requester_slept(trace: &Trace, request: &StopRequest, child: ThreadId) -> bool {
    let from = trace.threads[child.index()].start;
    timer_ns(trace, request.by, (from, request.at)) as f64 >= TIMED_MIN * request.at.since(from).0 as f64
}

/// Whether the requesting thread slept for long periods. A thread with short sleeps polls for a condition.
fn sleeps_long(trace: &Trace, request: &StopRequest, child: ThreadId) -> bool {
    let life = &trace.threads[child.index()];
    let long = request.at.since(life.start).0 as f64 * LONG_MIN;
    let timers =
        trace.slices.of_thread(request.by).filter(|slice| slice.end > life.start && is_timer(trace, slice));
    timers.map(|slice| slice.duration().0).max().is_some_and(|ns| ns as f64 >= long)
}

/// Whether a sibling thread ended before the stop request. It finished its work, and this thread may have
/// too.
fn sibling_ended_before(trace: &Trace, request: &StopRequest, child: ThreadId) -> bool {
    let life = &trace.threads[child.index()];
    let half = request.at.since(life.start).0 / 2;
    trace.target_threads().any(|other| {
        let other = &trace.threads[other.index()];
        other.parent == Some(request.by)
            && other.end < request.at
            && other.end.since(other.start.max(life.start)).0 > half
    })
}

/// A wait of that thread ended because time was up: a sleep, or a signal that a timer sends.
pub(super) fn is_timer(trace: &Trace, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked
        && (trace.wait(slice.wait).reason == WaitReason::Sleep
            || trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer))
}

/// Whether such a wait lasted for a large share of the recording. A thread with short sleeps polls for a
/// condition, and would busy-wait without the sleeps.
pub(super) fn is_long_timer(trace: &Trace, slice: &Slice) -> bool {
    is_timer(trace, slice) && slice.duration().0 as f64 >= LONG_MIN * trace.wall().0 as f64
}

fn timer_ns(trace: &Trace, thread: ThreadId, (from, to): (Timestamp, Timestamp)) -> u64 {
    let within = |slice: &Slice| slice.end > from && slice.start < to;
    let timers = trace.slices.of_thread(thread).filter(|slice| within(slice) && is_timer(trace, slice));
    timers.map(|slice| slice.end.min(to).since(slice.start.max(from)).0).sum()
}

/// Work of threads, as far as stacks show.
struct Works<'a> {
    trace: &'a Trace,
    /// Cached stacks by thread.
    known: BTreeMap<ThreadId, Vec<StackId>>,
}

impl Works<'_> {
    fn stacks(&mut self, thread: ThreadId) -> &[StackId] {
        let trace = self.trace;
        self.known.entry(thread).or_insert_with(|| {
            let samples = samples_of(trace, thread).iter().map(|sample| sample.stack);
            let waits = trace.slices.of_thread(thread).map(|slice| slice.stack);
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
