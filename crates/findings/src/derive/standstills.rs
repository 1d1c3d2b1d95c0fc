//! Pools all of whose workers wait, in the middle of a task, for the result of another, until a clock ends that, while nobody
//! of the program does anything: whoever was to do those tasks would be one of them.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::class::Class;
use super::cover::{Cover, Span};
use super::roles::Roles;
use crate::descriptors::{Role, Rule, Runtime};

/// Of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// All of its threads.
    pub workers: Vec<ThreadId>,
    /// When all of them waited and the program stood still, in time order.
    pub spans: Vec<Span>,
}

/// Fewer workers are no pool.
const WORKERS_MIN: usize = 2;

/// Every pool that stood still.
pub fn derive(trace: &Trace, roles: &Roles) -> Vec<Standstill> {
    let stands = |workers: Vec<ThreadId>| -> Option<Standstill> {
        let waits: Vec<Span> = workers
            .iter()
            .flat_map(|worker| trace.slices.of(*worker).filter(|slice| timed_out(trace, roles, slice)))
            .map(|slice| (slice.start, slice.end))
            .collect();
        let all = all_at_once(&waits, workers.len());
        (!all.is_empty()).then(|| Standstill { spans: without(&all, &busy(trace, roles)), workers })
    };
    let pools = pools(trace, roles).into_iter().filter(|workers| workers.len() >= WORKERS_MIN);
    pools.filter_map(stands).filter(|one| !one.spans.is_empty()).collect()
}

/// When so many wait at once; each of them waits once at a time.
pub fn all_at_once(waits: &[Span], many: usize) -> Vec<Span> {
    let mut changes: Vec<(Timestamp, bool)> =
        waits.iter().flat_map(|(from, to)| [(*from, true), (*to, false)]).collect();
    // Ends before beginnings of the same moment.
    changes.sort_unstable();
    let (mut waiting, mut since, mut spans) = (0, Timestamp(0), Vec::new());
    for (at, begins) in changes {
        if waiting == many && !begins {
            spans.push((since, at));
        }
        if begins {
            waiting += 1
        } else {
            waiting -= 1
        }
        since = at;
    }
    spans
}

/// Threads that a runtime's rule says to be workers without a task now and then, by process and name; the runtime does not
/// look after itself with them.
fn pools(trace: &Trace, roles: &Roles) -> Vec<Vec<ThreadId>> {
    let mut pools: BTreeMap<(ProcessId, &str), Vec<ThreadId>> = BTreeMap::new();
    let is_pools =
        |runtime: &Runtime, rule: &Rule| rule.idle && rule.thread.is_empty() && !runtime.carries_tasks;
    let has_none = |slice: &Slice| {
        let rule = || roles.descriptors.rule(roles.of_wait(slice)?.0);
        slice.state == ThreadState::Blocked && rule().is_some_and(|(runtime, rule)| is_pools(runtime, rule))
    };
    let has_pools = |process: ProcessId| {
        let rows = roles.runtimes_of(process).iter();
        let mut runtimes = rows.filter_map(|row| roles.descriptors.runtimes().get(*row));
        runtimes.any(|runtime| runtime.rules.iter().any(|rule| is_pools(runtime, rule)))
    };
    for id in trace.target_threads() {
        let thread = &trace.threads[id.index()];
        if has_pools(thread.process) && trace.slices.of(id).any(|slice| has_none(&slice)) {
            let numbered = thread.name.trim_end_matches(|sign: char| sign.is_ascii_digit());
            pools.entry((thread.process, numbered)).or_default().push(id);
        }
    }
    pools.into_values().collect()
}

/// A wait for another's result that a clock ended.
pub fn timed_out(trace: &Trace, roles: &Roles, slice: &Slice) -> bool {
    let rule = || roles.descriptors.rule(roles.of_wait(slice)?.0);
    slice.state == ThreadState::Blocked
        && rule().is_some_and(|(_, rule)| rule.role == Role::JoinWait)
        && trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer)
}

/// When a thread of the program ran or wanted to, or was in the middle of something that others may wait for.
fn busy(trace: &Trace, roles: &Roles) -> Cover {
    use Class::{ChildWait, FaultWait, IoWait, KernelWait, NetWait, PipeWait, Sleep};
    const SLOW: [Class; 7] = [ChildWait, FaultWait, IoWait, KernelWait, NetWait, PipeWait, Sleep];
    let is_slow = |slice: &Slice| {
        let rule = || roles.descriptors.rule(roles.of_wait(slice)?.0);
        let is_nothing = rule().is_some_and(|(_, rule)| rule.idle || rule.role == Role::Timer);
        !is_nothing && SLOW.contains(&roles.class_of_wait(trace, slice)) && !timed_out(trace, roles, slice)
    };
    let is_busy = |slice: &Slice| match slice.state {
        ThreadState::Blocked => is_slow(slice),
        state => state == ThreadState::Running || state.waits_for_cpu(),
    };
    let slices = trace.target_threads().flat_map(|id| trace.slices.of(id));
    Cover::of(slices.filter(|slice| is_busy(slice)).map(|slice| (slice.start, slice.end)).collect())
}

/// What is left of spans in time order beside a cover.
fn without(spans: &[Span], cover: &Cover) -> Vec<Span> {
    let mut left = Vec::new();
    for (from, to) in spans {
        let mut at = *from;
        for (start, end) in cover.within((*from, *to)) {
            left.extend((start > at).then_some((at, start)));
            at = at.max(end);
        }
        left.extend((*to > at).then_some((at, *to)));
    }
    left
}
