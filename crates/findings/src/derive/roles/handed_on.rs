//! Futex words of functions that serve as lock and as signal: a semaphore, or a runtime's lock built on one.
//! The call does not show which, but the waker does. The waker of a lock's waiter held the lock, and at times
//! waits for it itself. A signal's sender never waits for it.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::event::WakeContext;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{StackId, ThreadId, Trace};

use super::frames::FrameRules;
use super::parties::Parties;
use super::votes::{AGREE, words_of_waits};
use super::{CUT, NONE, verdict};
use crate::derive::parallel;

/// Minimum number of wakeups. Fewer may look like a lock by chance.
const RELEASES_MIN: usize = 4;

/// Facts about one word.
#[derive(Default)]
struct Word {
    /// Wait time by the rule that the stack matches (ns).
    votes: BTreeMap<u16, u64>,
    waiters: BTreeSet<ThreadId>,
    /// Threads that ended waits on it, with the number of waits.
    releasers: BTreeMap<ThreadId, usize>,
}

impl Word {
    fn merge(&mut self, other: Word) {
        for (rule, ns) in other.votes {
            *self.votes.entry(rule).or_default() += ns;
        }
        self.waiters.extend(other.waiters);
        for (releaser, times) in other.releasers {
            *self.releasers.entry(releaser).or_default() += times;
        }
    }

    /// Rule by which the word is a lock, or [`NONE`].
    fn rule(&self) -> u16 {
        let all: u64 = self.votes.values().sum();
        let told = self.votes.iter().filter(|(rule, _)| **rule != NONE);
        let Some((rule, ns)) = told.max_by_key(|(_, ns)| **ns) else { return NONE };
        let releases: usize = self.releasers.values().sum();
        let of_waiters = self.releasers.iter().filter(|(releaser, _)| self.waiters.contains(releaser));
        let handed_on: usize = of_waiters.map(|(_, times)| times).sum();
        let is_lock = releases >= RELEASES_MIN
            && handed_on as f64 >= AGREE * releases as f64
            && *ns as f64 >= AGREE * all as f64;
        if is_lock { *rule } else { NONE }
    }
}

/// Per wait: the rule by which it is for a lock that is passed on. Empty if no such rule applies. `used` has
/// one bit per stack: whether blocked slices of the party have it.
pub(super) fn rules(trace: &Trace, parties: &Parties, (code, used): (&FrameRules, &[Vec<u64>])) -> Vec<u16> {
    let of_stack: Vec<Vec<u16>> = (0..parties.len())
        .map(|party| verdicts(trace, code, (parties.handed_on(party), &used[party])))
        .collect();
    if of_stack.iter().flatten().all(|rule| *rule == NONE) {
        return Vec::new();
    }
    let words = words_of_waits(trace);
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut found = BTreeMap::new();
        for thread in groups[group].clone().map(ThreadId) {
            let Some(party) = parties.party_of(thread) else { continue };
            add_thread((trace, thread), &words, &of_stack[party], &mut found);
        }
        found
    });
    let mut merged: BTreeMap<u32, Word> = BTreeMap::new();
    for (number, word) in parts.into_iter().flatten() {
        merged.entry(number).or_default().merge(word);
    }
    let decided: BTreeMap<u32, u16> =
        merged.into_iter().map(|(number, word)| (number, word.rule())).collect();
    words.iter().map(|word| decided.get(word).copied().unwrap_or(NONE)).collect()
}

/// The first such rule that each stack matches.
fn verdicts(trace: &Trace, code: &FrameRules, (allowed, used): (&[u64], &[u64])) -> Vec<u16> {
    if allowed.is_empty() || used.is_empty() {
        return Vec::new();
    }
    let of = |stack: usize| match used[stack / 64] & (1 << (stack % 64)) {
        0 => NONE,
        _ => match verdict(trace, code, allowed, StackId(stack as u32)) {
            CUT => NONE,
            rule => rule,
        },
    };
    (0..trace.stacks.rows().len()).map(of).collect()
}

fn add_thread(
    (trace, thread): (&Trace, ThreadId),
    words: &[u32],
    of_stack: &[u16],
    found: &mut BTreeMap<u32, Word>,
) {
    let mut near = 0;
    for slice in trace.slices.of_thread(thread).filter(|slice| slice.state == ThreadState::Blocked) {
        let number = words.get(slice.wait.index()).copied().unwrap_or(0);
        if number == 0 {
            continue;
        }
        let word = found.entry(number).or_default();
        word.waiters.insert(thread);
        if slice.stack != StackId::NONE {
            let rule = of_stack.get(slice.stack.index()).copied().unwrap_or(NONE);
            *word.votes.entry(rule).or_default() += slice.duration().0;
        }
        if let Some(releaser) = releaser(trace, &slice, &mut near) {
            *word.releasers.entry(releaser).or_default() += 1;
        }
    }
}

/// Thread that ended a wait. `None` if a timer did, or if the wait still lasts.
fn releaser(trace: &Trace, slice: &Slice, near: &mut usize) -> Option<ThreadId> {
    let wakeup = trace.ended_by_near(slice, near)?;
    (wakeup.context == WakeContext::Thread && wakeup.waker != slice.thread).then_some(wakeup.waker)
}
