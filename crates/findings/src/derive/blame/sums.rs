//! What adds up while blame flows, for one subject, and the division of running time among stacks.

use std::collections::{BTreeMap, HashMap};

use holdup_events::{StackId, ThreadId};

use super::{End, EndClass, Subject, SubjectBlame, most_first};

/// Sums over the waits of one subject, or over a part of them: parts add up.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub waits: u64,
    pub false_wakeups: u64,
    /// Total wait time (ns).
    pub waiting_ns: u64,
    /// Blame by end (ns).
    pub ends: HashMap<End, u64>,
    /// Holders at the first link (ns).
    pub holders: HashMap<ThreadId, u64>,
    /// Weight of samples in running time that is blamed.
    pub stacks: HashMap<(ThreadId, StackId), u64>,
}

impl Sums {
    pub(super) fn add(&mut self, other: Sums) {
        self.waits += other.waits;
        self.false_wakeups += other.false_wakeups;
        self.waiting_ns += other.waiting_ns;
        add_each(&mut self.ends, other.ends);
        add_each(&mut self.holders, other.holders);
        add_each(&mut self.stacks, other.stacks);
    }

    pub(super) fn finish(self, subject: Subject) -> SubjectBlame {
        let running = self.ends.iter().filter(|(end, _)| end.class == EndClass::Running);
        let running: BTreeMap<ThreadId, u64> =
            running.filter_map(|(end, ns)| Some((end.thread?, *ns))).collect();
        let nobody = self.waiting_ns - self.holders.values().sum::<u64>();
        let holders = self.holders.into_iter().map(|(holder, ns)| (Some(holder), ns));
        SubjectBlame {
            subject,
            waits: self.waits,
            false_wakeups: self.false_wakeups,
            waiting_ns: self.waiting_ns,
            holders: most_first(holders.chain([(None, nobody)]).collect()),
            ends: most_first(self.ends.into_iter().collect()),
            stacks: divide(&running, self.stacks),
        }
    }
}

fn add_each<K: Eq + std::hash::Hash>(sums: &mut HashMap<K, u64>, others: HashMap<K, u64>) {
    for (key, value) in others {
        *sums.entry(key).or_default() += value;
    }
}

/// Divides what each thread is charged with among its stacks as their samples weigh, without a remainder.
pub(in crate::derive) fn divide(
    running: &BTreeMap<ThreadId, u64>,
    sampled: HashMap<(ThreadId, StackId), u64>,
) -> Vec<(ThreadId, StackId, u64)> {
    let mut by_thread: BTreeMap<ThreadId, BTreeMap<StackId, u64>> = BTreeMap::new();
    for ((thread, stack), weight) in sampled {
        by_thread.entry(thread).or_default().insert(stack, weight);
    }
    let mut divided = Vec::new();
    for (thread, total) in running {
        let stacks = by_thread.remove(thread).unwrap_or_else(|| BTreeMap::from([(StackId::NONE, 1)]));
        let all: u128 = stacks.values().map(|weight| u128::from(*weight)).sum();
        let (mut before, mut given) = (0u128, 0u128);
        for (stack, weight) in stacks {
            before += u128::from(weight);
            let upto = u128::from(*total) * before / all.max(1);
            divided.push((*thread, stack, (upto - given) as u64));
            given = upto;
        }
    }
    divided.retain(|(_, _, ns)| *ns > 0);
    divided.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| (a.0, a.1).cmp(&(b.0, b.1))));
    divided
}
