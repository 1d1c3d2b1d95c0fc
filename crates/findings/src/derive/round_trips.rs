//! Cost of requesting items one by one from another process: an object of a manager, a row of a service.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::SampleRow;
use holdup_events::{FrameId, ProcessId, StackId, ThreadId, Trace};

use super::ledger::Ledger;
use super::own_places::OwnFrames;
use super::roles::Roles;
use crate::charge::Charge;
use crate::descriptors::Role;

/// The process that several others send requests to, each through a thread of its own in that process. `None`
/// if the charged waits are not of this kind.
pub fn asked_by_many(trace: &Trace, charge: &Charge) -> Option<ProcessId> {
    let mut members: BTreeMap<ProcessId, u32> = BTreeMap::new();
    for thread in threads_of(trace, charge) {
        *members.entry(trace.threads[thread.index()].process).or_default() += 1;
    }
    let (asked, threads) = members.iter().max_by_key(|(id, threads)| (**threads, std::cmp::Reverse(**id)))?;
    (members.len() > 2 && *threads >= 2 && members.values().filter(|threads| **threads > 1).count() == 1)
        .then_some(*asked)
}

fn threads_of(trace: &Trace, charge: &Charge) -> BTreeSet<ThreadId> {
    charge.slices(trace).map(|slice| slice.thread).collect()
}

/// Running time for these requests: all of the serving process's threads, and in the clients the library that
/// makes the requests, and serialization. All of it would be saved if each client had its items locally.
pub struct RoundTrips {
    /// The serving process.
    pub asked: ProcessId,
    threads: BTreeSet<ThreadId>,
    /// Stacks that have the library's function on them.
    through: BTreeSet<StackId>,
}

impl RoundTrips {
    /// For threads that wait for each other in the charged slices. `None` if no single process serves several
    /// others.
    pub fn derive(trace: &Trace, charge: &Charge) -> Option<RoundTrips> {
        let asked = asked_by_many(trace, charge)?;
        let own = OwnFrames::new(trace);
        let name = |id: FrameId| {
            let frame = &trace.frames[id.index()];
            (frame.module.as_str(), frame.function.as_str())
        };
        let waits = charge.slices(trace).filter(|slice| trace.threads[slice.thread.index()].process != asked);
        let stacks: BTreeSet<StackId> = waits.map(|slice| slice.stack).collect();
        let functions: BTreeSet<_> =
            stacks.iter().filter_map(|stack| own.asked_through(trace, *stack)).map(name).collect();
        let sampled: BTreeSet<StackId> = trace.samples.iter().map(|sample| sample.stack).collect();
        let has_one = |stack: &StackId| trace.stack_frames(*stack).any(|id| functions.contains(&name(id)));
        let through = sampled.into_iter().filter(has_one).collect();
        Some(RoundTrips { asked, threads: threads_of(trace, charge), through })
    }

    /// Whether a sample belongs to these requests.
    pub fn has(&self, (trace, roles): (&Trace, &Roles), sample: &SampleRow) -> bool {
        let packs = || roles.role_of_sample(sample) == Some(Role::Encode);
        self.threads.contains(&sample.thread)
            && (trace.threads[sample.thread.index()].process == self.asked
                || self.through.contains(&sample.stack)
                || packs())
    }

    /// Running time for these requests (ns, sampled): of the serving process's threads, and of the clients.
    pub fn ran_ns(&self, facts: (&Trace, &Roles), ledger: &Ledger) -> (u64, u64) {
        let mut samples: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
        for sample in facts.0.samples.iter().filter(|sample| self.threads.contains(&sample.thread)) {
            let (all, of_it) = samples.entry(sample.thread).or_default();
            *all += 1;
            *of_it += u64::from(self.has(facts, sample));
        }
        let (mut answering_ns, mut asking_ns) = (0, 0);
        for thread in &ledger.threads {
            let Some((all, of_it)) = samples.get(&thread.thread) else { continue };
            let ns = (thread.running_ns() as f64 * *of_it as f64 / (*all).max(1) as f64) as u64;
            match facts.0.threads[thread.thread.index()].process == self.asked {
                true => answering_ns += ns,
                false => asking_ns += ns,
            }
        }
        (answering_ns, asking_ns)
    }
}
