//! Waits that a timer ended: sleeps, and the number of polls between sleeps.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use super::ledger::woken_by_timer;
use super::parallel;
use crate::charge::Charge;

/// Timer-ended waits of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocked {
    /// The thread.
    pub thread: ThreadId,
    /// Waits that a timer ended.
    pub sleeps: u64,
    /// Total length of these waits (ns).
    pub sleep_ns: u64,
    /// Number of these waits with a recorded timeout.
    pub asked: u64,
    /// Total recorded timeout of these (ns).
    pub asked_ns: u64,
    /// Time from the end of the timeout to the end of the wait (ns): timer slack and the delay until the
    /// thread ran.
    pub late_ns: u64,
    /// Sleeps after which the thread ran briefly and then slept for the same reason again: polls.
    pub looks: u64,
    /// Length of the sleeps in `looks` (ns).
    pub look_ns: u64,
    /// Running time after them (ns).
    pub look_run_ns: u64,
    /// Sleeps that are multi-event waits (epoll, poll, select) that timed out without an event.
    pub open: u64,
    /// Multi-event waits that an event ended.
    pub events: u64,
    /// Whether it is a housekeeping thread, on whose wakeups no other thread depends. It runs little, waits
    /// almost only for timers, and wakes hardly any thread. Other threads do the work or wait for requests.
    pub keeps_house: bool,
    /// Whether it is an event loop without events. Timers end its multi-event waits, it runs little, and it
    /// wakes hardly any thread.
    pub idles: bool,
}

impl Clocked {
    /// Whether most sleeps are multi-event waits, and hardly any of these waits ended with an event.
    fn is_unasked(&self) -> bool {
        2 * self.open >= self.sleeps && self.events as f64 <= UNASKED_EVENTS_MAX * self.sleeps as f64
    }

    /// Whether the thread reacts to events at once. It waits for them while it sleeps, and events have ended
    /// such waits. Its sleeps are then timers.
    pub fn is_open(&self) -> bool {
        2 * self.open >= self.sleeps
            && self.events >= EVENTS_MIN.max((EVENTS_PART * self.sleeps as f64) as u64)
    }

    /// Adds a sleep's timeout. A sleep that a signal ended early counts, but is not late.
    fn add_asked(&mut self, trace: &Trace, slice: &Slice) {
        let Some(due) = trace.due(slice) else { return };
        self.asked += 1;
        self.asked_ns += due.since(slice.start).0;
        self.late_ns += slice.end.since(due.max(slice.start)).0;
    }
}

/// Minimum number of event-ended waits of a thread that reacts to events, absolute and relative to its
/// sleeps.
const EVENTS_MIN: u64 = 20;
const EVENTS_PART: f64 = 0.1;

/// Maximum running time of a poll, as a share of the sleep before it.
const LOOK_RUN_MAX: f64 = 0.25;

/// Maximum share of its life for a housekeeping thread's running time, and for its waits that others ended,
/// ...
const HOUSE_SHARE_MAX: f64 = 0.01;
const HOUSE_WAITS_MAX: f64 = 0.25;
/// ... wakes other threads after at most this share or this number of its sleeps, ...
const HOUSE_WAKES_MAX: f64 = 0.05;
const HOUSE_WAKES_FEW: u64 = 2;
/// ... and all housekeeping threads together run for at most this share of the program's running time. The
/// last limit does not apply to a program that waits for requests, because no other thread runs between
/// requests.
const HOUSE_RUN_MAX: f64 = 0.1;
/// An event loop is idle with at most this number of event-ended waits per timer-ended one.
const UNASKED_EVENTS_MAX: f64 = 0.1;
/// A program waits for requests if a thread waits for outside events for more than this share of the
/// recording.
const LISTENS_MIN: f64 = 0.5;

/// Every target thread that a timer woke, by thread. Excludes sleeps that `is_idle` accepts, such as those of
/// an idle runtime.
pub fn derive(trace: &Trace, is_idle: impl Fn(&Slice) -> bool + Sync) -> Vec<Clocked> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        let of_group: Vec<(Clocked, Whole)> =
            targets.map(|thread| of_thread(trace, thread, &is_idle)).collect();
        let run_ns: u64 = of_group.iter().map(|(_, whole)| whole.run_ns).sum();
        let outside_ns = of_group.iter().map(|(_, whole)| whole.outside_ns).max().unwrap_or(0);
        let sleeping: Vec<_> = of_group.into_iter().filter(|(one, _)| one.sleeps > 0).collect();
        (sleeping, Program { run_ns, outside_ns })
    });
    let mut program = Program::default();
    let mut all: Vec<(Clocked, Whole)> = Vec::new();
    for (sleeping, of_group) in parts {
        all.extend(sleeping);
        program.run_ns += of_group.run_ns;
        program.outside_ns = program.outside_ns.max(of_group.outside_ns);
    }
    find_housekeepers(trace, &mut all, program);
    all.into_iter().map(|(one, _)| one).collect()
}

/// Totals of a thread's whole life (ns).
#[derive(Clone, Copy, Default)]
struct Whole {
    run_ns: u64,
    /// Waits that others ended.
    waits_ns: u64,
    /// Waits for peers and signals that no timer ended, and multi-event waits, which react to events at any
    /// time.
    outside_ns: u64,
    life_ns: u64,
}

/// Totals of all threads (ns).
#[derive(Clone, Copy, Default)]
struct Program {
    run_ns: u64,
    /// Maximum over all threads of the wait for outside events.
    outside_ns: u64,
}

/// A process's first thread is none: its end is the program's.
fn find_housekeepers(trace: &Trace, all: &mut [(Clocked, Whole)], program: Program) {
    let is_small = |part: u64, most: f64, of: u64| part as f64 <= most * of as f64;
    let mut wakes: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for (one, whole) in all.iter() {
        let is_one = is_small(whole.run_ns, HOUSE_SHARE_MAX, whole.life_ns)
            && is_small(whole.waits_ns, HOUSE_WAITS_MAX, whole.life_ns);
        if is_one && (one.is_unasked() || !super::is_first_thread(trace, one.thread)) {
            wakes.insert(one.thread, 0);
        }
    }
    if wakes.is_empty() {
        return;
    }
    let is_of_house =
        |one: &Clocked| wakes.contains_key(&one.thread) && !super::is_first_thread(trace, one.thread);
    let theirs = all.iter().filter(|(one, _)| is_of_house(one));
    let is_beside_work = is_small(theirs.map(|(_, whole)| whole.run_ns).sum(), HOUSE_RUN_MAX, program.run_ns);
    let listens = !is_small(program.outside_ns, LISTENS_MIN, trace.wall().0);
    for thread in trace.target_threads() {
        for wakeup in trace.wakeups.of_thread(thread).iter().filter(|wakeup| wakeup.waker != thread) {
            if let Some(count) = wakes.get_mut(&wakeup.waker) {
                let depends = !is_at_lock(trace, thread, wakeup.at)
                    && sleep_before(trace, wakeup.waker, wakeup.at).is_some();
                *count += u64::from(depends);
            }
        }
    }
    for (one, _) in all.iter_mut() {
        let few = HOUSE_WAKES_FEW.max((HOUSE_WAKES_MAX * one.sleeps as f64) as u64);
        let wakes_few = wakes.get(&one.thread).is_some_and(|count| *count <= few);
        one.keeps_house =
            wakes_few && (is_beside_work || listens) && !super::is_first_thread(trace, one.thread);
        one.idles = wakes_few && one.is_unasked();
    }
}

/// Whether the thread waited for a lock. A lock's waiter waits for the release, not for the holder's wakeup.
fn is_at_lock(trace: &Trace, thread: ThreadId, at: Timestamp) -> bool {
    let row = trace.slices.covering(thread, Timestamp(at.0.saturating_sub(1)));
    let slice = row.map(|row| trace.slices.at(thread, row));
    slice.is_some_and(|slice| {
        slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason == WaitReason::Lock
    })
}

/// Timer-ended slices of the threads that `wanted` accepts, except those that `is_idle` accepts.
pub fn charge(
    trace: &Trace,
    wanted: impl Fn(ThreadId) -> bool + Sync,
    is_idle: impl Fn(&Slice) -> bool + Sync,
) -> Charge {
    Charge::of_rows(trace, |thread, take| {
        if !wanted(thread) {
            return;
        }
        let mut wakeups = trace.wakeups.of_thread(thread);
        for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of_thread(thread)) {
            let is_blocked = slice.state == ThreadState::Blocked;
            if is_blocked && is_clocked(trace, &slice, &mut wakeups) && !is_idle(&slice) {
                take(row);
            }
        }
    })
}

/// Time in which other threads waited for a sleeping thread that `wanted` accepts, although its work for them
/// was available (ns). Each moment counts once per sleeper. Counts waits that began during a sleep and that
/// the sleeper ended before its next sleep. An earlier wakeup would have ended these waits earlier.
pub fn waited_for(trace: &Trace, wanted: impl Fn(ThreadId) -> bool) -> u64 {
    // By sleeper and sleep: start of the first wait.
    let mut since: BTreeMap<(ThreadId, usize), Timestamp> = BTreeMap::new();
    for waiter in trace.target_threads() {
        let mut near = 0;
        for slice in trace.slices.of_thread(waiter).filter(|slice| slice.state == ThreadState::Blocked) {
            let Some(wakeup) = trace.ended_by_near(&slice, &mut near) else { continue };
            let by = wakeup.waker;
            if wakeup.context != WakeContext::Thread || by == waiter || !wanted(by) {
                continue;
            }
            if let Some(row) = sleep_before(trace, by, wakeup.at)
                && trace.slices.at(by, row).start <= slice.start
            {
                let first = since.entry((by, row)).or_insert(slice.start);
                *first = (*first).min(slice.start);
            }
        }
    }
    since.into_iter().map(|((by, row), from)| trace.slices.at(by, row).end.0.saturating_sub(from.0)).sum()
}

/// Maximum number of slices from an action back to the sleep before it.
const LOOK_BACK: usize = 16;

/// The sleep before an action of a thread, if it waited only for locks in between.
fn sleep_before(trace: &Trace, thread: ThreadId, at: Timestamp) -> Option<usize> {
    let rows = trace.slices.rows(thread);
    let here = trace.slices.covering(thread, at)?;
    let first = rows.start.max((here + 1).saturating_sub(LOOK_BACK));
    let waits = |row: &usize| {
        let slice = trace.slices.at(thread, *row);
        slice.state == ThreadState::Blocked && trace.wait(slice.wait).reason != WaitReason::Lock
    };
    let row = (first..=here).rev().find(waits)?;
    let slice = trace.slices.at(thread, row);
    let mut wakeups = trace.wakeups.of_thread(thread);
    let from = wakeups.partition_point(|wakeup| wakeup.at < slice.start);
    wakeups = wakeups.get(from..).unwrap_or_default();
    is_clocked(trace, &slice, &mut wakeups).then_some(row)
}

fn of_thread(trace: &Trace, thread: ThreadId, is_idle: impl Fn(&Slice) -> bool) -> (Clocked, Whole) {
    let mut whole = Whole::default();
    let mut near = 0;
    let mut sums = Clocked { thread, ..Clocked::default() };
    let mut wakeups = trace.wakeups.of_thread(thread);
    // The last sleep, and what ran since.
    let mut last: Option<Slice> = None;
    let mut run_ns = 0;
    for slice in trace.slices.of_thread(thread) {
        whole.life_ns += slice.duration().0;
        match slice.state {
            ThreadState::Running => {
                run_ns += slice.duration().0;
                whole.run_ns += slice.duration().0;
            }
            ThreadState::Blocked => {
                let clocked = is_clocked(trace, &slice, &mut wakeups) && !is_idle(&slice);
                let reason = trace.wait(slice.wait).reason;
                let is_open = reason == WaitReason::Multiplex;
                if is_open || !clocked && matches!(reason, WaitReason::Signal | WaitReason::Socket) {
                    whole.outside_ns += slice.duration().0;
                }
                sums.open += u64::from(is_open && clocked);
                if let Some(before) = last.take()
                    && before.wait == slice.wait
                    && run_ns as f64 <= LOOK_RUN_MAX * before.duration().0 as f64
                {
                    sums.looks += 1;
                    sums.look_ns += before.duration().0;
                    sums.look_run_ns += run_ns;
                }
                if clocked {
                    sums.sleeps += 1;
                    sums.sleep_ns += slice.duration().0;
                    sums.add_asked(trace, &slice);
                    last = Some(slice);
                } else if trace.ended_by_near(&slice, &mut near).is_some() {
                    whole.waits_ns += slice.duration().0;
                    sums.events += u64::from(is_open);
                }
                run_ns = 0;
            }
            ThreadState::Unknown => last = None,
            _ => {}
        }
    }
    (sums, whole)
}

/// Whether the slice is a sleep, or a wait that timed out.
fn is_clocked(trace: &Trace, slice: &Slice, wakeups: &mut &[holdup_events::tables::Wakeup]) -> bool {
    use WaitReason::*;
    match trace.wait(slice.wait).reason {
        Sleep => true,
        Multiplex | Park | EventFd | Signal | Ipc => woken_by_timer(slice, wakeups),
        _ => false,
    }
}
