//! Waits of threads, each by its class, its reason and its object.

use std::collections::BTreeMap;

use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{ThreadId, Trace, WaitReason};

use super::{Now, largest, of_state};
use crate::derive::class::Class;
use crate::derive::ledger::class_of_slice;
use crate::derive::roles::Roles;

/// Maximum number of kinds of waits that are reported.
const WAITS_MAX: usize = 32;

/// Class, reason and object of a wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitKey {
    /// Class of the ledger.
    pub class: Class,
    /// The wait reason that the kernel side recorded.
    pub reason: WaitReason,
    /// The variable of the awaited object. Empty if it has no name.
    pub object: String,
}

/// Waits with one key.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitGlance {
    /// Class, reason and object.
    pub key: WaitKey,
    /// Number of waits. A wait that is longer than the part counts in each part.
    pub count: u64,
    /// How long they took together, within the stretch (ns).
    pub wait_ns: u64,
    /// The longest, within the stretch (ns).
    pub max_ns: u64,
    /// Threads that waited.
    pub threads: u64,
}

/// All waits, and what each thread did last.
pub(super) fn derive(trace: &Trace, roles: &Roles) -> (Vec<WaitGlance>, BTreeMap<ThreadId, Now>) {
    let mut sums: BTreeMap<WaitKey, (WaitGlance, Option<ThreadId>)> = BTreeMap::new();
    let mut nows = BTreeMap::new();
    for thread in trace.target_threads() {
        let mut wakeups = trace.wakeups.of_thread(thread);
        let mut now = Now::Unknown;
        for slice in trace.slices.of_thread(thread) {
            if slice.state != ThreadState::Blocked {
                now = of_state(slice.state, slice.cpu);
                continue;
            }
            let Some(key) = key((trace, roles), &slice, &mut wakeups) else { continue };
            now = Now::Waiting(key.clone());
            let none = WaitGlance { key: key.clone(), count: 0, wait_ns: 0, max_ns: 0, threads: 0 };
            let (sum, last) = sums.entry(key).or_insert((none, None));
            let length = slice.duration().0;
            sum.count += 1;
            sum.wait_ns += length;
            sum.max_ns = sum.max_ns.max(length);
            sum.threads += u64::from(last.replace(thread) != Some(thread));
        }
        let alive = trace.threads.get(thread.index()).is_some_and(|thread| thread.alive_at_end);
        nows.insert(thread, if alive { now } else { Now::Gone });
    }
    let rows = sums.into_values().map(|(row, _)| row).collect();
    (largest(rows, |row| row.wait_ns, WAITS_MAX), nows)
}

fn key(
    facts: (&Trace, &Roles),
    slice: &Slice,
    wakeups: &mut &[holdup_events::tables::Wakeup],
) -> Option<WaitKey> {
    let class = class_of_slice(facts, slice, wakeups)?;
    let wait = facts.0.wait(slice.wait);
    Some(WaitKey { class, reason: wait.reason, object: wait.symbol.clone() })
}
