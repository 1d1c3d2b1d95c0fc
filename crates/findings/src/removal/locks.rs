//! Removal of a lock.

use std::collections::BTreeSet;

use holdup_events::ProcessId;
use holdup_events::tables::{AccessKind, SampleRow};

use super::{Removal, ran};
use crate::derive::class::Class;
use crate::derive::lines::{LINE_BYTES, SharedData};
use crate::derive::lock_calls::{Calls, LockCalls};
use crate::derive::replay::{Change, Facts, Speed};
use crate::finding::{About, Finding};

/// Removes a lock: the code under the lock runs in parallel. Threads that spin during that time wait for the
/// other threads. Their spinning time shrinks with these threads' time. Upper bound: cache-line contention on
/// data next to the lock's word also ends.
pub fn without(calls: &LockCalls, facts: Facts, shared: &[SharedData], lock: u32) -> Removal {
    let trace = facts.trace;
    let beside = lines_with_lock(facts, shared, lock);
    let lies_there = |sample: &SampleRow| {
        let is_known = sample.data.kind != AccessKind::None;
        is_known
            && beside
                .contains(&(trace.threads[sample.thread.index()].process, sample.data.address / LINE_BYTES))
    };
    let spins = |sample: &SampleRow| facts.roles.class_of_sample(sample) == Class::Spin;
    let spun = Speed::new(trace, 0.0, spins).taken();
    let with = |which: Calls| {
        let shares = calls.shares(lock, which);
        let speed = Speed::weighed(trace, |sample| match which == Calls::Whole && lies_there(sample) {
            true => 1.0,
            false => shares(sample),
        });
        let left = 1.0 - (speed.taken() / (1.0 - spun).max(f64::MIN_POSITIVE)).min(1.0);
        let mut changes = vec![Change::WithoutLock(lock), ran(speed)];
        if spun > 0.0 && left < 1.0 {
            changes.push(ran(Speed::new(trace, left, spins)));
        }
        changes
    };
    Removal { least: with(Calls::Contended), most: with(Calls::Whole) }
}

/// The lines of memory that threads take from each other together with the one in which the lock's word lies.
fn lines_with_lock(facts: Facts, shared: &[SharedData], lock: u32) -> BTreeSet<(ProcessId, u64)> {
    let Some((process, object, _)) = facts.locks.locks.get(lock as usize) else { return BTreeSet::new() };
    let with_it = |data: &&SharedData| {
        data.process == *process && data.lines.contains(&(object / LINE_BYTES * LINE_BYTES))
    };
    let lines = shared.iter().filter(with_it).flat_map(|data| &data.lines);
    lines.map(|line| (*process, line / LINE_BYTES)).collect()
}

/// Number of the lock that a finding is about.
pub fn lock_of(finding: &Finding) -> Option<u32> {
    match finding.about {
        About::Lock(number) => Some(number),
        _ => None,
    }
}
