//! Starved thread pools: each worker waits inside a task for another task's result, until a timeout ends the
//! wait. No thread of the program works during that time, because no worker is left to run the awaited tasks.

use std::collections::BTreeMap;

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Trace, WaitReason};

use super::cover::{Cover, Span, all_at_once};
use super::roles::Roles;
use crate::descriptors::{Role, Rule, Runtime};

/// Starvation of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// All threads of the pool.
    pub workers: Vec<ThreadId>,
    /// Times in which all of them waited and the program did nothing, in time order.
    pub spans: Vec<Span>,
}

/// Fewer workers are no pool.
const WORKERS_MIN: usize = 2;

/// Every pool that stood still.
pub fn derive(trace: &Trace, roles: &Roles) -> Vec<Standstill> {
    let stands = |workers: Vec<ThreadId>| -> Option<Standstill> {
        let waits: Vec<Span> = workers
            .iter()
            .flat_map(|worker| trace.slices.of_thread(*worker).filter(|slice| timed_out(trace, roles, slice)))
            .map(|slice| (slice.start, slice.end))
            .collect();
        let all = all_at_once(&waits, workers.len());
        let process = trace.threads[workers.first()?.index()].process;
        let busy = (!all.is_empty()).then(|| busy(trace, roles, process))?;
        Some(Standstill { spans: all.into_iter().flat_map(|span| busy.without(span)).collect(), workers })
    };
    let pools = pools(trace, roles).into_iter().filter(|workers| workers.len() >= WORKERS_MIN);
    pools.filter_map(stands).filter(|one| !one.spans.is_empty()).collect()
}

/// Pool workers by process and name: threads that a runtime's rule identifies as workers which are idle at
/// times. Threads for the runtime's own maintenance are excluded.
fn pools(trace: &Trace, roles: &Roles) -> Vec<Vec<ThreadId>> {
    let mut pools: BTreeMap<(ProcessId, &str), Vec<ThreadId>> = BTreeMap::new();
    let is_pools =
        |runtime: &Runtime, rule: &Rule| rule.idle && rule.thread.is_empty() && !runtime.carries_tasks;
    let has_none = |slice: &Slice| {
        let rule = roles.rule_of_wait(slice);
        slice.state == ThreadState::Blocked && rule.is_some_and(|(runtime, rule)| is_pools(runtime, rule))
    };
    let has_pools = |process: ProcessId| {
        let mut runtimes = roles.runtimes_in(process);
        runtimes.any(|runtime| runtime.rules.iter().any(|rule| is_pools(runtime, rule)))
    };
    for id in trace.target_threads() {
        let thread = &trace.threads[id.index()];
        if has_pools(thread.process) && trace.slices.of_thread(id).any(|slice| has_none(&slice)) {
            let numbered = thread.name.trim_end_matches(|sign: char| sign.is_ascii_digit());
            pools.entry((thread.process, numbered)).or_default().push(id);
        }
    }
    pools.into_values().collect()
}

/// Whether it is a wait for another task's result that timed out.
pub fn timed_out(trace: &Trace, roles: &Roles, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked
        && roles.rule_of_wait(slice).is_some_and(|(_, rule)| rule.role == Role::JoinWait)
        && trace.ended_by(slice).is_some_and(|wakeup| wakeup.context == WakeContext::Timer)
}

/// Times in which the program was busy. Either a thread of the program was running or runnable, or a thread
/// of the pool's process waited for an outside event. Other threads may depend on such a wait. A thread that
/// waits for any outside event may hold the awaited results.
fn busy(trace: &Trace, roles: &Roles, process: ProcessId) -> Cover {
    use WaitReason::{Device, Multiplex, Signal};
    let is_slow = |slice: &Slice| {
        let is_nothing =
            roles.rule_of_wait(slice).is_some_and(|(_, rule)| rule.idle || rule.role == Role::Timer);
        let is_outside = matches!(trace.wait(slice.wait).reason, Multiplex | Signal | Device);
        !is_nothing && (is_outside || roles.class_of_wait(trace, slice).waits_outside_program())
    };
    let is_busy = |slice: &Slice| match slice.state {
        ThreadState::Blocked => {
            trace.threads[slice.thread.index()].process == process
                && is_slow(slice)
                && !timed_out(trace, roles, slice)
        }
        state => state == ThreadState::Running || state.waits_for_cpu(),
    };
    let slices = trace.target_threads().flat_map(|id| trace.slices.of_thread(id));
    Cover::from_spans(slices.filter(|slice| is_busy(slice)).map(|slice| (slice.start, slice.end)).collect())
}
