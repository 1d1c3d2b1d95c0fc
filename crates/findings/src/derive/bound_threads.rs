//! Threads that one task of a runtime is bound to. Another task that needs this task has its thread woken and
//! its own put to sleep.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::ThreadState;
use holdup_events::{FrameId, ThreadId, Trace};

use super::own_places::OwnFrames;
use super::roles::Roles;
use super::samples_of;
use crate::charge::Charge;
use crate::descriptors::Rule;

/// Minimum share of a bound thread's waits that are for its task.
const MOSTLY: f64 = 0.5;

/// All bound threads.
pub fn derive(trace: &Trace, roles: &Roles) -> BTreeSet<ThreadId> {
    trace.target_threads().filter(|thread| rule_of(trace, roles, *thread).is_some()).collect()
}

/// The rule that identifies the thread as bound, if there is one.
fn rule_of<'a>(trace: &Trace, roles: &'a Roles, thread: ThreadId) -> Option<&'a Rule> {
    let mut runtimes = roles.runtimes_in(trace.threads[thread.index()].process);
    if !runtimes.any(|runtime| runtime.rules.iter().any(|rule| rule.bound)) {
        return None;
    }
    let (mut all, mut bound, mut found) = (0u64, 0u64, None);
    for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
        all += 1;
        if let Some((_, rule)) = roles.rule_of_wait(&slice).filter(|(_, rule)| rule.bound) {
            (bound, found) = (bound + 1, Some(rule));
        }
    }
    found.filter(|_| bound as f64 >= MOSTLY * all as f64)
}

/// The bound thread among the threads with charged waits, with its rule's advice.
pub fn among<'a>(trace: &Trace, roles: &'a Roles, charge: &Charge) -> Option<(ThreadId, &'a str)> {
    let threads: BTreeSet<ThreadId> = charge.slices(trace).map(|slice| slice.thread).collect();
    threads.into_iter().find_map(|thread| Some((thread, rule_of(trace, roles, thread)?.advice.as_str())))
}

/// Marker that the compiler adds to a function that starts a task.
const WRAPPER: &str = ".gowrap";

/// The task's own outermost function: nothing else runs on its thread.
pub fn task(trace: &Trace, thread: ThreadId) -> Option<String> {
    let own = OwnFrames::new(trace);
    let mut times: BTreeMap<FrameId, usize> = BTreeMap::new();
    for sample in samples_of(trace, thread) {
        let frames = trace.stack_frames(sample.stack).filter(|frame| !own.is_of_a_machine(*frame));
        let named = frames.filter_map(|frame| own.own_frame(frame));
        let outermost = named.filter(|frame| !trace.frame_name(*frame).contains(WRAPPER)).last();
        if let Some(frame) = outermost {
            *times.entry(frame).or_default() += 1;
        }
    }
    let (most, _) = times.into_iter().max_by_key(|(frame, times)| (*times, std::cmp::Reverse(*frame)))?;
    Some(trace.frame_name(most))
}
