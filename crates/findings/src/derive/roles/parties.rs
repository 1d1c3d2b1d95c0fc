//! Parties: groups of threads with the same applicable rules. Threads belong to one party if their processes
//! have the same runtimes and no rule distinguishes their names.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{ProcessId, ThreadId, Trace};

use super::NONE;
use super::frames::runtimes_by_module;
use crate::derive::stacks::folding::matches;
use crate::descriptors::{Descriptors, On, Rule};

/// Maximum number of parties that are distinguished by thread name.
const PARTIES_MAX: usize = 64;
/// A thread to which no rule applies.
const NO_PARTY: u16 = u16::MAX;

/// All parties.
#[derive(Clone, Debug, Default)]
pub(super) struct Parties {
    of_thread: Vec<u16>,
    parties: Vec<Party>,
    runtimes: Vec<Vec<usize>>,
}

#[derive(Clone, Debug, Default)]
struct Party {
    /// Rules about stacks, a bit each: of running threads, of blocked ones.
    allowed: [Vec<u64>; 2],
    /// Rules about blocked threads that only apply to words that are passed on, one bit each. Empty if there
    /// are none.
    handed_on: Vec<u64>,
    /// The first rule that matches by the thread's name alone.
    named: [u16; 2],
}

impl Parties {
    /// Groups all threads of a trace.
    pub fn new(trace: &Trace, descriptors: &Descriptors) -> Parties {
        let runtimes = runtimes_by_process(trace, descriptors);
        let mut parties = Parties { runtimes, ..Parties::default() };
        let mut index: BTreeMap<Vec<u16>, u16> = BTreeMap::new();
        let mut same: BTreeMap<(ProcessId, &str), u16> = BTreeMap::new();
        for thread in &trace.threads {
            let key = (thread.process, thread.name.as_str());
            let party = *same.entry(key).or_insert_with(|| {
                let present = parties.runtimes.get(thread.process.index()).map_or(&[][..], Vec::as_slice);
                let by_name = index.len() < PARTIES_MAX;
                let rules = rules_for(descriptors, present, by_name.then_some(&thread.name));
                if rules.is_empty() {
                    return NO_PARTY;
                }
                *index.entry(rules).or_insert_with_key(|rules| {
                    parties.parties.push(Party::new(descriptors, rules));
                    (parties.parties.len() - 1) as u16
                })
            });
            parties.of_thread.push(party);
        }
        parties
    }

    /// Number of parties.
    pub fn len(&self) -> usize {
        self.parties.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    /// A thread's.
    pub fn party_of(&self, thread: ThreadId) -> Option<usize> {
        let party = self.of_thread.get(thread.index()).copied().unwrap_or(NO_PARTY);
        (party != NO_PARTY).then_some(usize::from(party))
    }

    /// Rules about stacks that hold of it: a bit each.
    pub fn allowed(&self, party: usize, on: On) -> &[u64] {
        &self.parties[party].allowed[usize::from(on == On::Off)]
    }

    /// Rules about blocked threads that only apply to words that are passed on, one bit each. Empty if there
    /// are none.
    pub fn handed_on(&self, party: usize) -> &[u64] {
        &self.parties[party].handed_on
    }

    /// The first rule that its threads match by name alone.
    pub fn named(&self, party: usize, on: On) -> u16 {
        self.parties[party].named[usize::from(on == On::Off)]
    }

    /// Runtimes of a process.
    pub fn runtimes_of(&self, process: ProcessId) -> &[usize] {
        self.runtimes.get(process.index()).map_or(&[], Vec::as_slice)
    }
}

impl Party {
    fn new(descriptors: &Descriptors, rules: &[u16]) -> Party {
        let all: Vec<&Rule> = descriptors.rules().map(|(_, rule)| rule).collect();
        let words = all.len().div_ceil(64);
        let mut party = Party { allowed: [vec![0; words], vec![0; words]], ..Party::default() };
        party.named = [NONE; 2];
        for id in rules {
            let rule = all[usize::from(*id)];
            if rule.handed_on {
                party.handed_on.resize(words, 0);
                party.handed_on[usize::from(*id) / 64] |= 1 << (id % 64);
                continue;
            }
            for (side, other) in [(0, On::Off), (1, On::Cpu)] {
                if rule.on == other || matches!(rule.on, On::Waker | On::Spin) {
                    continue;
                }
                if rule.reads_stack() {
                    party.allowed[side][usize::from(*id) / 64] |= 1 << (id % 64);
                } else if rule.futex.is_empty() {
                    party.named[side] = party.named[side].min(*id);
                }
            }
        }
        party
    }
}

/// Rules of the given runtimes, except rules for another thread name.
fn rules_for(descriptors: &Descriptors, present: &[usize], name: Option<&String>) -> Vec<u16> {
    let fits = |rule: &Rule| {
        rule.thread.is_empty()
            || name.is_some_and(|name| rule.thread.iter().any(|pattern| matches(pattern, name)))
    };
    let rules = descriptors.rules().enumerate();
    let rules = rules.filter(|(_, (runtime, rule))| present.contains(runtime) && fits(rule));
    rules.map(|(id, _)| id as u16).collect()
}

/// Runtimes by process, from its mapped files. A process without known mappings gets those of its parent, or
/// else all runtimes found in any process.
fn runtimes_by_process(trace: &Trace, descriptors: &Descriptors) -> Vec<Vec<usize>> {
    let by_module = runtimes_by_module(trace, descriptors);
    let everywhere: BTreeSet<usize> = by_module.values().flatten().copied().collect();
    let mut mapped: Vec<Option<BTreeSet<usize>>> = vec![None; trace.processes.len()];
    for mapping in &trace.mappings {
        if let Some(set) = mapped.get_mut(mapping.process.index()) {
            let set = set.get_or_insert_default();
            set.extend(by_module.get(mapping.path.as_str()).into_iter().flatten());
        }
    }
    let of = |row: usize| {
        let mut next = Some(row);
        // A damaged recording's parents may lead in a circle.
        for _ in 0..trace.processes.len().min(64) {
            let Some(row) = next else { break };
            if let Some(set) = mapped.get(row).and_then(Option::as_ref) {
                return set.iter().copied().collect();
            }
            next = trace.processes.get(row).and_then(|process| process.parent).map(ProcessId::index);
        }
        everywhere.iter().copied().collect()
    };
    (0..trace.processes.len()).map(of).collect()
}
