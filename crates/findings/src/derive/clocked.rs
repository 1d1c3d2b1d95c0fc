//! Waits that a clock ended: what a thread slept, and how often it only looked and slept again.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Timestamp, Trace, WaitReason};

use super::ledger::woken_by_timer;
use super::parallel;
use crate::charge::Charge;

/// Of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocked {
    /// Whose.
    pub thread: ThreadId,
    /// Waits that a clock ended.
    pub sleeps: u64,
    /// Their length (ns).
    pub sleep_ns: u64,
    /// Those of them of which the recording tells what was asked for.
    pub asked: u64,
    /// What was asked for in those (ns).
    pub asked_ns: u64,
    /// How much later than asked for those ended (ns): the kernel's slack, and its way to a CPU.
    pub late_ns: u64,
    /// Those of them after which it ran but shortly, then slept for the same thing again.
    pub looks: u64,
    /// Their length (ns).
    pub look_ns: u64,
    /// Running time behind those (ns).
    pub look_run_ns: u64,
}

impl Clocked {
    /// A sleep that a signal ended early was asked for, but is not late.
    fn add_asked(&mut self, trace: &Trace, slice: &Slice) {
        let Some(due) = trace.due(slice) else { return };
        self.asked += 1;
        self.asked_ns += due.since(slice.start).0;
        self.late_ns += slice.end.since(due.max(slice.start)).0;
    }
}

/// A look is a run of less than this share of the sleep before it.
const LOOK_RUN_MAX: f64 = 0.25;

/// Every target thread that a clock woke, by thread.
pub fn derive(trace: &Trace) -> Vec<Clocked> {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        targets.map(|thread| of_thread(trace, thread)).filter(|one| one.sleeps > 0).collect::<Vec<_>>()
    });
    parts.concat()
}

/// The slices that a clock ended, of the threads that `wanted` names.
pub fn charge(trace: &Trace, wanted: impl Fn(ThreadId) -> bool + Sync) -> Charge {
    Charge::of_rows(trace, |thread, take| {
        if !wanted(thread) {
            return;
        }
        let mut wakeups = trace.wakeups.of(thread);
        for (row, slice) in trace.slices.rows(thread).zip(trace.slices.of(thread)) {
            if slice.state == ThreadState::Blocked && is_clocked(trace, &slice, &mut wakeups) {
                take(row);
            }
        }
    })
}

/// How long other threads waited for one of those that `wanted` names while it slept, with what it then did for them
/// there to be done (ns, each moment once a sleeper): waits that began during a sleep, and that the sleeper ended before it
/// slept again. Had they waited for anything else, an earlier look would not have been in vain.
pub fn waited_for(trace: &Trace, wanted: impl Fn(ThreadId) -> bool) -> u64 {
    // By sleeper and sleep: since when somebody waited.
    let mut since: BTreeMap<(ThreadId, usize), Timestamp> = BTreeMap::new();
    for waiter in trace.target_threads() {
        let mut near = 0;
        for slice in trace.slices.of(waiter).filter(|slice| slice.state == ThreadState::Blocked) {
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

/// A run is looked back over so many slices: few come between a sleep and what is done behind it.
const LOOK_BACK: usize = 16;

/// The sleep behind which a thread did something, if it waited for nothing but locks in between.
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
    let mut wakeups = trace.wakeups.of(thread);
    let from = wakeups.partition_point(|wakeup| wakeup.at < slice.start);
    wakeups = wakeups.get(from..).unwrap_or_default();
    is_clocked(trace, &slice, &mut wakeups).then_some(row)
}

fn of_thread(trace: &Trace, thread: ThreadId) -> Clocked {
    let mut sums = Clocked { thread, ..Clocked::default() };
    let mut wakeups = trace.wakeups.of(thread);
    // The last sleep, and what ran since.
    let mut last: Option<Slice> = None;
    let mut run_ns = 0;
    for slice in trace.slices.of(thread) {
        match slice.state {
            ThreadState::Running => run_ns += slice.duration().0,
            ThreadState::Blocked => {
                let clocked = is_clocked(trace, &slice, &mut wakeups);
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
                }
                run_ns = 0;
            }
            ThreadState::Unknown => last = None,
            _ => {}
        }
    }
    sums
}

/// A sleep, or a wait for something whose time-out ended it.
fn is_clocked(trace: &Trace, slice: &Slice, wakeups: &mut &[holdup_events::tables::Wakeup]) -> bool {
    use WaitReason::*;
    match trace.wait(slice.wait).reason {
        Sleep => true,
        Multiplex | Park | EventFd | Signal | Ipc => woken_by_timer(slice, wakeups),
        _ => false,
    }
}
