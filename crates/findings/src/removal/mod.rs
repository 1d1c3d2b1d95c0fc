//! The changes of a replay that remove a cause.
//!
//! A forecast is about the same program without the cause, and about no single remedy. The lower bound
//! removes only the certain part: threads do not wait for a lock, and make no syscalls for it. The upper
//! bound also removes the possible part: the functions that take the lock. The forecast lies between the two
//! bounds, each with its error. Each rule has its removal ([`crate::rule::Rule::removal`]). Here is what several
//! rules and `holdup whatif` share.

pub mod calls;
pub mod collectors;
pub mod locks;

use std::sync::Arc;

use holdup_events::tables::Slice;
use holdup_events::{ThreadId, Trace};

use crate::charge::Charge;
use crate::derive::class::Class;
use crate::derive::replay::{Change, Speed};

/// Changes that remove a cause.
#[derive(Clone, Debug, Default)]
pub struct Removal {
    /// Changes that certainly remove the cause.
    pub least: Vec<Change>,
    /// Changes that possibly go with the cause.
    pub most: Vec<Change>,
}

impl Removal {
    /// A removal with equal bounds.
    pub fn exact(changes: Vec<Change>) -> Removal {
        Removal { least: changes.clone(), most: changes }
    }

    /// Removes these slices. `None` if there are none.
    pub fn slices(charge: &Charge) -> Option<Removal> {
        (!charge.is_empty()).then(|| Removal::exact(vec![Change::WithoutSlices(charge.clone())]))
    }

    /// The assumptions, in words.
    pub fn assumptions(&self) -> &'static str {
        match self.most.first() {
            Some(Change::WithoutLock(_)) => {
                "Assumes that locked sections run in parallel, take as long as before, and need no sleeps or wakeups. Upper bound: the lock is never taken"
            }
            Some(Change::WithoutClass(Class::RunQueue)) => "Assumes a CPU for every runnable thread",
            Some(Change::WithoutOthers) => "Assumes that other programs use no CPU",
            Some(Change::Ran(speed)) if speed.is_spread() => {
                "Assumes that all CPUs share what one thread did alone. Lower bound: three quarters of the added speed"
            }
            Some(Change::Ran(_)) => "Assumes that the removed code takes the CPU time that samples show",
            _ => "Assumes that these waits complete immediately",
        }
    }
}

/// The change of running time.
pub(crate) fn ran(speed: Speed) -> Change {
    Change::Ran(Arc::new(speed))
}

/// The charged slices that match.
pub(crate) fn within(
    trace: &Trace,
    charge: &Charge,
    matches: impl Fn(usize, &Slice) -> bool + Sync,
) -> Charge {
    Charge::of_rows(trace, |id, take| {
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of_thread(id)) {
            if charge.has(row) && matches(row, &slice) {
                take(row);
            }
        }
    })
}

/// Threads with charged slices, by id.
pub(crate) fn threads_of(trace: &Trace, charge: &Charge) -> Vec<ThreadId> {
    let mut threads: Vec<ThreadId> = charge.slices(trace).map(|slice| slice.thread).collect();
    threads.dedup();
    threads
}

/// Whether the thread is among these, which are in the order of their ids.
pub(crate) fn has(threads: &[ThreadId], thread: ThreadId) -> bool {
    threads.binary_search(&thread).is_ok()
}
