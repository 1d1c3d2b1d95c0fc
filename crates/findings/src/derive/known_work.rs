//! Known kinds of work (`[[work]]` in descriptors), such as a full table scan or a regular expression. Their
//! functions' names are not self-explanatory, so the descriptor's description is reported.

use std::collections::BTreeMap;

use holdup_events::Trace;

use super::class::Class;
use super::known_stacks::KnownStacks;
use super::ledger::Ledger;
use super::roles::Roles;
use super::split::share_error;
use crate::wording::percent;

/// Less of the useful work than this is not what the program does.
const SHARE_MIN: f64 = 1.0 / 3.0;
/// Minimum number of samples. Fewer may be chance.
const SAMPLES_MIN: u64 = 50;

/// A known kind of work that takes much of the useful work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Description, from its descriptor.
    pub what: String,
    /// Advice to reduce it.
    pub advice: String,
    /// Share of the useful running time (0 to 1, sampled), with all callees.
    pub share: f64,
    /// Half the width of its 95 % interval.
    pub error: f64,
}

impl Known {
    /// As a sentence.
    pub fn sentence(&self) -> String {
        let (share, error) = (percent(self.share), percent(self.error));
        format!("In {share} ± {error} of the useful work, {}.", self.what)
    }
}

/// The kind that takes most, if it takes enough.
pub fn derive(trace: &Trace, ledger: &Ledger, roles: &Roles) -> Option<Known> {
    let mut stacks = KnownStacks::new(trace, roles, |runtime| &runtime.work)?;
    let (mut whole, mut whole_samples) = (0.0, 0);
    let mut sums: BTreeMap<usize, (f64, u64)> = BTreeMap::new();
    for thread in &ledger.threads {
        let samples = super::samples_of(trace, thread.thread);
        let process = trace.threads[thread.thread.index()].process;
        let each = thread.running_ns() as f64 / samples.len().max(1) as f64;
        for sample in samples.iter().filter(|sample| roles.class_of_sample(sample) == Class::Useful) {
            whole += each;
            whole_samples += 1;
            if let Some(kind) = stacks.innermost_kind(sample.stack, process) {
                let sum = sums.entry(kind).or_default();
                *sum = (sum.0 + each, sum.1 + 1);
            }
        }
    }
    let (kind, (ns, samples)) = sums.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let share = ns / whole;
    let told = samples >= SAMPLES_MIN && share >= SHARE_MIN;
    told.then(|| Known {
        what: stacks.kinds()[kind].what.clone(),
        advice: stacks.kinds()[kind].advice.clone(),
        share,
        error: share_error(samples, whole_samples),
    })
}
