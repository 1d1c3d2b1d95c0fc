//! Role of waits without a stack: the role that the stacks of other waits on the same word agree on.

use std::collections::{BTreeMap, HashMap, HashSet};

use holdup_events::tables::ThreadState;
use holdup_events::{ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitReason};

use super::{CUT, NONE, Roles, at};
use crate::derive::parallel;
use crate::descriptors::{Role, RuleId};

/// Time for which stacks are of each verdict (ns).
type Votes = BTreeMap<u16, u64>;

/// Minimum share (by time) of a word's waits with a stack that must agree, to decide the role of its other
/// waits.
pub(super) const AGREE: f64 = 0.75;

impl Roles {
    /// Derives the role of waits without a stack from waits with a stack on the same word.
    pub(super) fn vote(&mut self, trace: &Trace) {
        let words = words_of_waits(trace);
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let mut votes: HashMap<(u32, bool, u16), u64> = HashMap::new();
            for thread in groups[group].clone().map(ThreadId) {
                let Some(party) = self.parties.party_of(thread) else { continue };
                for slice in trace.slices.of_thread(thread).filter(|slice| slice.stack != StackId::NONE) {
                    let verdict = self.blocked_stack(party, &slice);
                    let word = words.get(slice.wait.index()).copied().unwrap_or(0);
                    if word != 0 && verdict != CUT && slice.state == ThreadState::Blocked {
                        let weight = slice.duration().0.saturating_mul(u64::from(slice.stack_every.max(1)));
                        let sum = votes.entry((word, trace.timed_out(&slice), verdict)).or_default();
                        *sum = sum.saturating_add(weight);
                    }
                }
            }
            votes
        });
        let mut votes: BTreeMap<u32, [Votes; 2]> = BTreeMap::new();
        for ((word, timed_out, verdict), weight) in parts.into_iter().flatten() {
            let of_word = votes.entry(word).or_default();
            let sum = of_word[usize::from(timed_out)].entry(verdict).or_default();
            *sum = sum.saturating_add(weight);
        }
        let decided: BTreeMap<u32, [u16; 3]> =
            votes.iter().map(|(word, votes)| (*word, self.decided(votes))).collect();
        let of_word = |word: &u32| decided.get(word).copied().unwrap_or([NONE; 3]);
        self.word_says = words.iter().map(|word| of_word(word)[0]).collect();
        self.time_out_says = words.iter().map(|word| of_word(word)[1]).collect();
        self.lock_words = words.iter().map(|word| of_word(word)[2]).collect();
        self.timed_out = self.those_timed_out(trace, &words);
        self.sleeps = trace.waits.iter().map(|wait| wait.reason == WaitReason::Sleep).collect();
        self.sleeps_say = self.votes_of_sleeps(trace);
    }

    /// By thread: the rule that its sleeps with a stack agree on. A sleep has no word, and sleeps of other
    /// threads have other purposes.
    fn votes_of_sleeps(&self, trace: &Trace) -> Vec<u16> {
        let of = |thread: ThreadId| {
            let Some(party) = self.parties.party_of(thread) else { return NONE };
            let mut votes = Votes::default();
            for slice in trace.slices.of_thread(thread).filter(|slice| slice.stack != StackId::NONE) {
                let verdict = at(&self.blocked, party, slice.stack);
                let is_sleep = self.sleeps.get(slice.wait.index()) == Some(&true);
                if is_sleep && verdict != CUT && slice.state == ThreadState::Blocked {
                    let weight = slice.duration().0.saturating_mul(u64::from(slice.stack_every.max(1)));
                    let sum = votes.entry(verdict).or_default();
                    *sum = sum.saturating_add(weight);
                }
            }
            self.agreed(&votes)
        };
        match self.sleeps.contains(&true) {
            true => {
                let groups = parallel::thread_groups(trace);
                let part = |group: usize| groups[group].clone().map(|thread| of(ThreadId(thread))).collect();
                parallel::map(groups.len(), |group| -> Vec<u16> { part(group) }).concat()
            }
            false => Vec::new(),
        }
    }

    /// Rules for the other waits on a word, for its waits that timed out, and for the word as a lock.
    fn decided(&self, [ended, timed_out]: &[Votes; 2]) -> [u16; 3] {
        let mut all = ended.clone();
        for (verdict, weight) in timed_out {
            let sum = all.entry(*verdict).or_default();
            *sum = sum.saturating_add(*weight);
        }
        let says = |votes: &Votes| self.agreed(if votes.is_empty() { &all } else { votes });
        [says(ended), says(timed_out), self.lock_among(&all)]
    }

    /// Timed-out waits on words for which the timeout changes the rule.
    fn those_timed_out(&self, trace: &Trace, words: &[u32]) -> HashSet<(ThreadId, Timestamp)> {
        let differ = |wait: usize| self.word_says[wait] != self.time_out_says[wait];
        if !(0..words.len()).any(differ) {
            return HashSet::new();
        }
        let groups = parallel::thread_groups(trace);
        let parts = parallel::map(groups.len(), |group| {
            let slices = groups[group].clone().flat_map(|thread| trace.slices.of_thread(ThreadId(thread)));
            let blocked = slices.filter(|slice| slice.state == ThreadState::Blocked);
            let ours = blocked.filter(|slice| slice.wait.index() < words.len() && differ(slice.wait.index()));
            let timed_out = ours.filter(|slice| trace.timed_out(slice));
            timed_out.map(|slice| (slice.thread, slice.start)).collect::<Vec<_>>()
        });
        parts.into_iter().flatten().collect()
    }

    /// The verdict that enough of the waits agree on.
    fn agreed(&self, votes: &Votes) -> u16 {
        let all: f64 = votes.values().map(|weight| *weight as f64).sum();
        let top = votes.iter().find(|(_, weight)| **weight > 0 && **weight as f64 >= AGREE * all);
        top.map_or(NONE, |(verdict, _)| *verdict)
    }

    /// Rule with role `lock` that has the most wait time.
    fn lock_among(&self, votes: &Votes) -> u16 {
        let is_lock = |verdict: u16| {
            self.descriptors.rule(RuleId(verdict)).is_some_and(|(_, rule)| rule.role == Role::Lock)
        };
        let locks = votes.iter().filter(|(verdict, _)| is_lock(**verdict));
        locks.max_by_key(|(_, weight)| **weight).map_or(NONE, |(verdict, _)| *verdict)
    }
}

/// Per wait: a number for each futex word, epoll instance and file with file locks. 0 for other waits.
pub(super) fn words_of_waits(trace: &Trace) -> Vec<u32> {
    let mut numbers: HashMap<(ProcessId, ObjectKind, u64), u32> = HashMap::new();
    let number = |wait: &Wait| match wait.object_kind {
        ObjectKind::File if wait.reason != WaitReason::FileLock => 0,
        ObjectKind::Futex | ObjectKind::Epoll | ObjectKind::File => {
            let next = numbers.len() as u32 + 1;
            *numbers.entry((wait.process, wait.object_kind, wait.object)).or_insert(next)
        }
        _ => 0,
    };
    trace.waits.iter().map(number).collect()
}
