//! Number of recorded stacks that reach the thread's root, and why the others end before it.
//!
//! Counts each recorded stack of the program's threads once, without weights.

use std::collections::BTreeMap;

use holdup_events::tables::{StackEnd, ThreadState};
use holdup_events::{StackId, ThreadId, Trace};

/// Stacks by how they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends(BTreeMap<StackEnd, u64>);

impl Ends {
    /// Number of stacks with a known end. Imported stacks and stacks without a user frame have none.
    pub fn stacks(&self) -> u64 {
        self.0.iter().filter(|(end, _)| **end != StackEnd::Unknown).map(|(_, count)| count).sum()
    }

    /// Number of stacks that reach the thread's root.
    pub fn complete(&self) -> u64 {
        self.count(StackEnd::Root)
    }

    /// Number of stacks with that end.
    pub fn count(&self, end: StackEnd) -> u64 {
        self.0.get(&end).copied().unwrap_or(0)
    }

    /// All, by end.
    pub fn all(&self) -> impl Iterator<Item = (StackEnd, u64)> + '_ {
        self.0.iter().map(|(end, count)| (*end, *count))
    }

    /// Ends before the root with their number of stacks. Most frequent first.
    pub fn cut_short(&self) -> Vec<(StackEnd, u64)> {
        let told = |end: &StackEnd| ![StackEnd::Unknown, StackEnd::Root].contains(end);
        let mut cut: Vec<_> = self.all().filter(|(end, _)| told(end)).collect();
        cut.sort_by_key(|(end, count)| (std::cmp::Reverse(*count), *end));
        cut
    }

    /// Sum of both.
    pub fn merged(&self, other: &Ends) -> Ends {
        let mut sum = self.clone();
        for (end, count) in other.all() {
            *sum.0.entry(end).or_default() += count;
        }
        sum
    }
}

/// Ends of the stacks of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completeness {
    /// Stacks of on-CPU samples.
    pub on_cpu: Ends,
    /// Stacks of blocked slices.
    pub blocked: Ends,
}

impl Completeness {
    /// Counts.
    pub fn derive(trace: &Trace) -> Completeness {
        let mut known: BTreeMap<StackId, StackEnd> = BTreeMap::new();
        let mut count = |ends: &mut Ends, thread: ThreadId, stack: StackId| {
            let target = trace.threads.get(thread.index()).is_some_and(|thread| thread.target);
            if target && stack != StackId::NONE {
                let end = *known.entry(stack).or_insert_with(|| trace.stacks.end(stack));
                *ends.0.entry(end).or_default() += 1;
            }
        };
        let mut counted = Completeness::default();
        for sample in &trace.samples {
            count(&mut counted.on_cpu, sample.thread, sample.stack);
        }
        for thread in (0..trace.threads.len() as u32).map(ThreadId) {
            for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
                count(&mut counted.blocked, thread, slice.stack);
            }
        }
        counted
    }
}
