//! Blame summed up by kind of wait, as reports print it.

use std::collections::BTreeMap;

use holdup_events::{StackId, ThreadId, Trace};

use super::{Blame, End, SubjectBlame, most_first};
use crate::derive::holders::HoldKind;
use crate::derive::own_places::{self, OwnFrames};

/// All waits of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct KindBlame {
    /// The kind.
    pub kind: HoldKind,
    /// Number of waits.
    pub waits: u64,
    /// Number of wakeups in vain.
    pub false_wakeups: u64,
    /// Total wait time (ns).
    pub waiting_ns: u64,
    /// Blame by end (ns), largest first. Sums to `waiting_ns`.
    pub ends: Vec<(End, u64)>,
    /// Blame of running threads by the program's function (ns, divided by samples), largest first. Time
    /// without a sample is left out.
    pub functions: Vec<(String, u64)>,
}

/// Sums up a trace's blame, the longest waited for first.
pub fn by_kind(trace: &Trace, blame: &Blame) -> Vec<KindBlame> {
    let own = OwnFrames::new(trace);
    let mut kinds: BTreeMap<HoldKind, Vec<&SubjectBlame>> = BTreeMap::new();
    for subject in &blame.subjects {
        kinds.entry(subject.subject.kind()).or_default().push(subject);
    }
    let sum = |(kind, subjects): (HoldKind, Vec<&SubjectBlame>)| {
        let mut ends: BTreeMap<End, u64> = BTreeMap::new();
        let mut stacks: Vec<(ThreadId, StackId, u64)> = Vec::new();
        for subject in &subjects {
            for (end, ns) in &subject.ends {
                *ends.entry(*end).or_default() += ns;
            }
            stacks.extend(&subject.stacks);
        }
        KindBlame {
            kind,
            waits: subjects.iter().map(|subject| subject.waits).sum(),
            false_wakeups: subjects.iter().map(|subject| subject.false_wakeups).sum(),
            waiting_ns: subjects.iter().map(|subject| subject.waiting_ns).sum(),
            ends: most_first(ends),
            functions: own_places::functions(trace, &own, &stacks),
        }
    };
    let mut kinds: Vec<KindBlame> = kinds.into_iter().map(sum).collect();
    kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.waiting_ns), kind.kind));
    kinds
}
