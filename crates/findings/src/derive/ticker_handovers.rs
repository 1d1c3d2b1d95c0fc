//! Handover of the right to run tasks by a runtime's ticker thread. If a thread stays in a call, the ticker
//! gives its right to another thread. That thread's later work depends on the thread in the call, not on the
//! ticker.

use std::collections::BTreeMap;

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ProcessId, ThreadId, Timestamp, Trace};

use super::roles::{Basis, Roles};

/// Maximum number of calls to search backwards. A thread in a longer call lost its right long ago.
const LOOK_BACK: usize = 64;

/// A wait in the kernel, outside of the runtime's own code.
#[derive(Clone, Copy)]
struct Call {
    start: Timestamp,
    end: Timestamp,
    thread: ThreadId,
}

/// By process: threads that hand over, and the calls of the others, by their beginning.
#[derive(Default)]
pub(super) struct Takeovers(BTreeMap<ProcessId, (Vec<ThreadId>, Vec<Call>)>);

impl Takeovers {
    pub(super) fn derive(trace: &Trace, roles: &Roles) -> Takeovers {
        let mut all: BTreeMap<ProcessId, (Vec<ThreadId>, Vec<Call>)> = BTreeMap::new();
        for thread in trace.target_threads().filter(|thread| hands_over(trace, roles, *thread)) {
            all.entry(trace.threads[thread.index()].process).or_default().0.push(thread);
        }
        for thread in trace.target_threads() {
            let Some((by, calls)) = all.get_mut(&trace.threads[thread.index()].process) else { continue };
            if by.binary_search(&thread).is_err() {
                let waits = trace.slices.of_thread(thread).filter(|slice| is_call(trace, roles, slice));
                calls.extend(waits.map(|slice| Call { start: slice.start, end: slice.end, thread }));
            }
        }
        for (_, calls) in all.values_mut() {
            calls.sort_by_key(|call| (call.start, call.thread));
        }
        Takeovers(all)
    }

    /// Thread that was in a call at this moment, the last one to enter, if `by` is a ticker that hands rights
    /// over.
    pub(super) fn had_by(&self, trace: &Trace, by: ThreadId, at: Timestamp) -> Option<ThreadId> {
        let (threads, calls) = self.0.get(&trace.threads.get(by.index())?.process)?;
        threads.binary_search(&by).ok()?;
        let before = calls.partition_point(|call| call.start < at);
        let last = calls[..before].iter().rev().take(LOOK_BACK);
        last.filter(|call| call.end >= at).map(|call| call.thread).next()
    }
}

/// Whether a thread is a runtime's ticker that takes rights from threads in calls. One of its stacks shows
/// it.
pub fn hands_over(trace: &Trace, roles: &Roles, thread: ThreadId) -> bool {
    let runtimes = roles.runtimes_in(trace.threads[thread.index()].process);
    if !runtimes.flat_map(|runtime| &runtime.rules).any(|rule| rule.hands_over) {
        return false;
    }
    let mut blocked = trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked);
    blocked.any(|slice| {
        let by_own_stack = roles.of_wait(&slice).filter(|(_, basis)| *basis == Basis::Own);
        by_own_stack
            .and_then(|(rule, _)| roles.descriptors.rule(rule))
            .is_some_and(|(_, rule)| rule.hands_over)
    })
}

/// The runtime knows nothing of it, and it is for no other thread of the program.
fn is_call(trace: &Trace, roles: &Roles, slice: &Slice) -> bool {
    slice.state == ThreadState::Blocked
        && roles.of_wait(slice).is_none()
        && !roles.class_of_wait(trace, slice).waits_for_threads()
}
