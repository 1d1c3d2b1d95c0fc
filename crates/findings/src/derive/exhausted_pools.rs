//! Pools with fewer items than threads: connections, buffers, permits. A thread that finds the pool empty
//! waits until another thread returns an item.
//!
//! No event identifies a pool. The wakeups do: waiters at a place are woken by changing threads that also
//! wait there at other times. While threads wait, the number of threads that do not wait is nearly constant,
//! because it equals the number of items.
//!
//! Other patterns differ. The number of busy workers that make tasks for each other varies. So does the
//! number of threads that have not reached a barrier. In a request-response pair or a ring, each thread
//! always wakes the same one.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{FrameId, ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::own_places::{OwnFrames, Places};
use super::parallel;
use super::roles::Roles;
use crate::charge::Charge;
use crate::descriptors::{Rule, Runtime};

/// Minimum number of waits. Fewer may be chance.
const WAITS_MIN: usize = 20;
/// Two threads that wait for each other are a pair, whatever they hand on.
const MEMBERS_MIN: usize = 3;
/// Minimum share of the waits at a place that other waiters there end.
const OWN_MIN: f64 = 0.75;
/// Minimum share of the wait time in which the same number of threads do not wait.
const SAME_MIN: f64 = 0.6;
/// Minimum mean number of different threads that a thread wakes. In a ring it is one.
const PARTNERS_MIN: f64 = 1.5;
/// Maximum share of the waits that one thread ends. A thread with a larger share is a producer, or the last
/// one at a barrier.
const ONE_GIVER_MAX: f64 = 0.6;
/// Waits that a thread ends within this time of each other (ns) end together, as at a barrier: ...
const TOGETHER_NS: u64 = 50_000;
/// ... the mean number of waits that end together may be at most this. A returned item rarely wakes more than
/// one thread.
const AT_ONCE_MAX: f64 = 1.5;
/// Minimum share of a group's mutual waits with a stack that are at the place. Then the waits without a stack
/// count as well.
const AGREE: f64 = 0.75;

/// A pool of items that threads take and return.
#[derive(Clone, Debug, Default)]
pub struct GivenBack {
    /// Process that has the pool.
    pub process: ProcessId,
    /// The program's function in which threads wait for one.
    pub place: FrameId,
    /// Threads that waited, by id.
    pub members: Vec<ThreadId>,
    /// All waits for one, those without a stack as well.
    pub waits: u64,
    /// Total wait time (ns).
    pub wait_ns: u64,
    /// Estimated number of items: the most frequent number of threads that did not wait while others waited.
    pub things: u64,
    /// For which part of that time (0 to 1).
    pub same: f64,
    /// Time in which at least one thread waited (ns of wall time).
    pub waited_ns: u64,
    /// Blocked share (0 to 1) of the other threads' time while a thread waited.
    pub blocked: f64,
    /// The program's function with most of that blocked time, and its share of the blocked time with a stack.
    pub blocked_in: Option<(String, f64)>,
    /// The waits.
    pub charge: Charge,
}

/// A wait that another thread ended, with its row.
#[derive(Clone, Copy)]
struct Taking {
    thread: ThreadId,
    row: usize,
    end: Timestamp,
    ns: u64,
    waker: ThreadId,
}

/// Finds all, the longest waited for first.
pub fn derive(trace: &Trace, roles: &Roles) -> Vec<GivenBack> {
    let own = OwnFrames::new(trace);
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let (mut found, mut places) = (BTreeMap::new(), Places::new(trace, &own));
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.for_each(|thread| add_thread((trace, roles, &own), thread, &mut places, &mut found));
        found
    });
    let mut by_place: BTreeMap<(ProcessId, FrameId), Vec<Taking>> = BTreeMap::new();
    for (place, takings) in parts.into_iter().flatten() {
        by_place.entry(place).or_default().extend(takings);
    }
    let told = |((process, place), takings): (&(ProcessId, FrameId), &Vec<Taking>)| {
        of_place((trace, roles, &own), (*process, *place), takings)
    };
    let mut all: Vec<GivenBack> = by_place.iter().filter_map(told).collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.wait_ns), one.process, one.place));
    all
}

/// Whether a wait may be for a pool item. An idle worker's wait is not.
fn may_wait_for_item((trace, roles): (&Trace, &Roles), slice: &Slice) -> bool {
    let idle = |(runtime, rule): (&Runtime, &Rule)| rule.idle || runtime.carries_tasks;
    slice.state == ThreadState::Blocked
        && trace.wait(slice.wait).object_kind == ObjectKind::Futex
        && roles.class_of_wait(trace, slice) == Class::WorkWait
        && !roles.rule_of_wait(slice).is_some_and(idle)
}

fn add_thread(
    (trace, roles, own): (&Trace, &Roles, &OwnFrames),
    thread: ThreadId,
    places: &mut Places<'_>,
    found: &mut BTreeMap<(ProcessId, FrameId), Vec<Taking>>,
) {
    let (process, mut near) = (trace.threads[thread.index()].process, 0);
    for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of_thread(thread)) {
        if !may_wait_for_item((trace, roles), &slice) {
            continue;
        }
        let Some(waker) = waker(trace, &slice, &mut near) else { continue };
        let place = places.nearest_own(slice.stack).filter(|place| !own.is_of_a_machine(*place));
        if let Some(place) = place {
            let (end, ns) = (slice.end, slice.duration().0);
            found.entry((process, place)).or_default().push(Taking { thread, row, end, ns, waker });
        }
    }
}

/// Another thread of the program that ended the wait.
fn waker(trace: &Trace, slice: &Slice, near: &mut usize) -> Option<ThreadId> {
    let wakeup = trace.ended_by_near(slice, near)?;
    let is_target = trace.threads.get(wakeup.waker.index()).is_some_and(|thread| thread.target);
    let is_other = wakeup.context == WakeContext::Thread && wakeup.waker != slice.thread && is_target;
    is_other.then_some(wakeup.waker)
}

fn of_place(
    (trace, roles, own): (&Trace, &Roles, &OwnFrames),
    (process, place): (ProcessId, FrameId),
    told: &[Taking],
) -> Option<GivenBack> {
    let members: BTreeSet<ThreadId> = told.iter().map(|taking| taking.thread).collect();
    let by_own = told.iter().filter(|taking| members.contains(&taking.waker)).count();
    let is_enough = told.len() >= WAITS_MIN
        && members.len() >= MEMBERS_MIN
        && by_own as f64 >= OWN_MIN * told.len() as f64;
    if !is_enough {
        return None;
    }
    let takings = with_stackless((trace, roles), &members, told);
    let crowd = Crowd::from_waits(trace, &members, &takings);
    let (things, same) = crowd.most_common();
    if !is_by_turns(&takings) || same < SAME_MIN || things == 0 {
        return None;
    }
    let wait_ns = takings.iter().map(|taking| taking.ns).sum();
    let (blocked, blocked_in) = blocked_share((trace, own), &members, &takings, &crowd);
    Some(GivenBack {
        process,
        place,
        waits: takings.len() as u64,
        wait_ns,
        things,
        same,
        waited_ns: crowd.waited_ns,
        blocked,
        blocked_in,
        charge: charge(trace, &takings),
        members: members.into_iter().collect(),
    })
}

/// Waits that other members ended, including those without a stack if the waits with a stack agree.
fn with_stackless(
    (trace, roles): (&Trace, &Roles),
    members: &BTreeSet<ThreadId>,
    told: &[Taking],
) -> Vec<Taking> {
    let mut takings: Vec<Taking> =
        told.iter().filter(|taking| members.contains(&taking.waker)).copied().collect();
    let at_place: BTreeSet<(ThreadId, usize)> =
        takings.iter().map(|taking| (taking.thread, taking.row)).collect();
    let (mut elsewhere, mut untold) = (0usize, Vec::new());
    for thread in members.iter().copied() {
        let mut near = 0;
        for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of_thread(thread)) {
            if slice.state != ThreadState::Blocked || at_place.contains(&(thread, row)) {
                continue;
            }
            let waker = waker(trace, &slice, &mut near).filter(|waker| members.contains(waker));
            let Some(waker) = waker else { continue };
            if slice.stack == StackId::NONE && may_wait_for_item((trace, roles), &slice) {
                untold.push(Taking { thread, row, end: slice.end, ns: slice.duration().0, waker });
            } else if slice.stack != StackId::NONE {
                elsewhere += 1;
            }
        }
    }
    if takings.len() as f64 >= AGREE * (takings.len() + elsewhere) as f64 {
        takings.append(&mut untold);
    }
    takings
}

fn charge(trace: &Trace, takings: &[Taking]) -> Charge {
    let mut rows: BTreeMap<ThreadId, Vec<usize>> = BTreeMap::new();
    for taking in takings {
        rows.entry(taking.thread).or_default().push(taking.row);
    }
    Charge::of_rows(trace, |thread, take| {
        rows.get(&thread).into_iter().flatten().for_each(|row| take(*row));
    })
}

/// Whether many threads return items, each to different threads, and to one at a time.
fn is_by_turns(takings: &[Taking]) -> bool {
    let mut by_waker: BTreeMap<ThreadId, Vec<(Timestamp, ThreadId)>> = BTreeMap::new();
    for one in takings {
        by_waker.entry(one.waker).or_default().push((one.end, one.thread));
    }
    let (mut partners, mut times, mut most) = (0, 0, 0);
    for given in by_waker.values_mut() {
        given.sort_unstable();
        partners += given.iter().map(|(_, to)| *to).collect::<BTreeSet<_>>().len();
        times += 1 + given.windows(2).filter(|pair| pair[1].0.since(pair[0].0).0 > TOGETHER_NS).count();
        most = most.max(given.len());
    }
    partners as f64 >= PARTNERS_MIN * by_waker.len() as f64
        && takings.len() as f64 <= AT_ONCE_MAX * times as f64
        && most as f64 <= ONE_GIVER_MAX * takings.len() as f64
}

/// Number of a group's threads that do not wait while others do.
#[derive(Default)]
struct Crowd {
    /// Times in which at least one thread waits, in time order.
    spans: Vec<(Timestamp, Timestamp)>,
    waited_ns: u64,
    /// By how many do not: for how long (ns).
    busy: BTreeMap<u64, u64>,
}

impl Crowd {
    fn from_waits(trace: &Trace, members: &BTreeSet<ThreadId>, takings: &[Taking]) -> Crowd {
        // Changes over time of the number of live and of waiting threads.
        let mut changes: Vec<(Timestamp, i64, i64)> = Vec::new();
        for taking in takings {
            let start = Timestamp(taking.end.0.saturating_sub(taking.ns));
            changes.extend([(start, 0, 1), (taking.end, 0, -1)]);
        }
        for life in members.iter().map(|member| &trace.threads[member.index()]) {
            changes.extend([(life.start, 1, 0), (life.end, -1, 0)]);
        }
        changes.sort_unstable();
        let (mut crowd, mut live, mut wait, mut since) = (Crowd::default(), 0, 0, Timestamp(0));
        for (at, lives, waits) in changes {
            if wait > 0 && at > since {
                crowd.add((since, at), (live - wait).max(0) as u64);
            }
            (live, wait, since) = (live + lives, wait + waits, at);
        }
        crowd
    }

    fn add(&mut self, (from, to): (Timestamp, Timestamp), busy: u64) {
        let ns = to.since(from).0;
        self.waited_ns += ns;
        *self.busy.entry(busy).or_default() += ns;
        match self.spans.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => self.spans.push((from, to)),
        }
    }

    /// Part of a span in which at least one thread waits (ns).
    fn common_ns(&self, from: Timestamp, to: Timestamp) -> u64 {
        let first = self.spans.partition_point(|(_, end)| *end <= from);
        let near = self.spans[first..].iter().take_while(|(start, _)| *start < to);
        near.map(|(start, end)| (*end).min(to).since((*start).max(from)).0).sum()
    }

    /// Most frequent number of threads that do not wait, and its share of the time (0 to 1).
    fn most_common(&self) -> (u64, f64) {
        let most = self.busy.iter().max_by_key(|(_, ns)| **ns);
        most.map_or((0, 0.0), |(busy, ns)| (*busy, *ns as f64 / self.waited_ns.max(1) as f64))
    }
}

/// Blocked share of the time in which members did not wait while others did, and the function with most of
/// that blocked time.
fn blocked_share(
    (trace, own): (&Trace, &OwnFrames),
    members: &BTreeSet<ThreadId>,
    takings: &[Taking],
    crowd: &Crowd,
) -> (f64, Option<(String, f64)>) {
    let waits: BTreeSet<(ThreadId, usize)> =
        takings.iter().map(|taking| (taking.thread, taking.row)).collect();
    let mut places = Places::new(trace, own);
    let (mut all_ns, mut blocked_ns, mut told_ns) = (0u64, 0u64, 0u64);
    let mut sums: BTreeMap<FrameId, u64> = BTreeMap::new();
    for thread in members.iter().copied() {
        for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of_thread(thread)) {
            let ns = if waits.contains(&(thread, row)) { 0 } else { crowd.common_ns(slice.start, slice.end) };
            all_ns += ns;
            if ns == 0 || slice.state != ThreadState::Blocked {
                continue;
            }
            blocked_ns += ns;
            if let Some(place) = places.nearest_own(slice.stack) {
                *sums.entry(place).or_default() += ns;
                told_ns += ns;
            }
        }
    }
    let most = sums.into_iter().max_by_key(|(place, ns)| (*ns, std::cmp::Reverse(*place)));
    let blocked_in = most.map(|(place, ns)| (trace.frame_name(place), ns as f64 / told_ns.max(1) as f64));
    (blocked_ns as f64 / all_ns.max(1) as f64, blocked_in)
}
