//! Assigns threads to lanes, by the threads that were running at the lane's reports.
//!
//! A lane reports only while one of its threads runs, and a thread reports for one lane only. If only one
//! thread of the process was running at a report, it therefore belongs to the lane. Each assignment can leave
//! a single candidate at other reports.

use std::collections::{BTreeMap, HashMap};

use holdup_events::ThreadId;

/// Maximum number of distinct sets of running threads. Assignments are decided before it is exceeded.
const SETS_MAX: usize = 1 << 16;

/// The threads running at one time: a row of [`Owners`]. 0 is the empty set.
pub type SetId = u32;

/// Evidence, and the assignments derived from it.
#[derive(Default)]
pub struct Owners {
    sets: Vec<Vec<ThreadId>>,
    ids: HashMap<Vec<ThreadId>, SetId>,
    /// Number of reports of a lane with these threads running.
    evidence: BTreeMap<(u32, SetId), u64>,
    lane_of: BTreeMap<ThreadId, u32>,
    /// Number of its lane's reports that each thread explains.
    explained: BTreeMap<ThreadId, u64>,
    /// Dropped evidence of lanes: number of reports, and number with a known thread.
    past: BTreeMap<u32, (u64, u64)>,
}

impl Owners {
    /// The row of a set, sorted.
    pub fn intern(&mut self, running: Vec<ThreadId>) -> SetId {
        if self.sets.is_empty() {
            self.sets.push(Vec::new());
            self.ids.insert(Vec::new(), 0);
        }
        if let Some(id) = self.ids.get(&running) {
            return *id;
        }
        let id = self.sets.len() as SetId;
        self.sets.push(running.clone());
        self.ids.insert(running, id);
        id
    }

    /// The row of a set with one more.
    pub fn with(&mut self, set: SetId, thread: ThreadId) -> SetId {
        let mut members = self.members(set).to_vec();
        match members.binary_search(&thread) {
            Ok(_) => set,
            Err(place) => {
                members.insert(place, thread);
                self.intern(members)
            }
        }
    }

    /// Records a report of `lane` with these threads running.
    pub fn note(&mut self, lane: u32, set: SetId) {
        *self.evidence.entry((lane, set)).or_default() += 1;
    }

    /// Whether there are too many sets, and assignments must be decided.
    pub fn is_full(&self) -> bool {
        self.sets.len() >= SETS_MAX
    }

    /// The two sets have a thread in common.
    pub fn share(&self, a: SetId, b: SetId) -> bool {
        a == b || self.members(a).iter().any(|thread| self.members(b).contains(thread))
    }

    fn members(&self, set: SetId) -> &[ThreadId] {
        self.sets.get(set as usize).map_or(&[], Vec::as_slice)
    }

    /// Assigns threads to lanes. Earlier assignments are kept.
    pub fn decide(&mut self) {
        while let Some((thread, lane)) = self.alone().or_else(|| self.likeliest()) {
            self.lane_of.insert(thread, lane);
        }
        let mut explained: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for ((lane, set), count) in &self.evidence {
            if let Some(thread) = self.own(*lane, *set).next() {
                *explained.entry(thread).or_default() += count;
            }
        }
        self.explained = explained;
    }

    /// Drops the evidence, which has been decided on, and the sets.
    pub fn forget(&mut self) {
        for ((lane, set), count) in std::mem::take(&mut self.evidence) {
            let matched = self.own(lane, set).next().is_some();
            let past = self.past.entry(lane).or_default();
            past.0 += count;
            past.1 += if matched { count } else { 0 };
        }
        self.sets.clear();
        self.ids.clear();
    }

    /// The lane's own threads among these.
    fn own(&self, lane: u32, set: SetId) -> impl Iterator<Item = ThreadId> + '_ {
        self.members(set).iter().copied().filter(move |thread| self.lane_of.get(thread) == Some(&lane))
    }

    /// Evidence not yet explained by a thread: the lane, its candidates, and the number of reports.
    fn open(&self) -> impl Iterator<Item = (u32, Vec<ThreadId>, u64)> + '_ {
        self.evidence.iter().filter(|((lane, set), _)| self.own(*lane, *set).next().is_none()).map(
            |((lane, set), count)| {
                let free = self.members(*set).iter().filter(|thread| !self.lane_of.contains_key(thread));
                (*lane, free.copied().collect(), *count)
            },
        )
    }

    /// The thread and lane with the most reports that have no other candidate.
    fn alone(&self) -> Option<(ThreadId, u32)> {
        let mut counts: BTreeMap<(ThreadId, u32), u64> = BTreeMap::new();
        for (lane, free, count) in self.open() {
            if let [thread] = free[..] {
                *counts.entry((thread, lane)).or_default() += count;
            }
        }
        most(&counts)
    }

    /// The thread and lane with the most reports, for the case that each report has several candidates.
    fn likeliest(&self) -> Option<(ThreadId, u32)> {
        let mut counts: BTreeMap<(ThreadId, u32), u64> = BTreeMap::new();
        for (lane, free, count) in self.open() {
            for thread in free {
                *counts.entry((thread, lane)).or_default() += count;
            }
        }
        most(&counts)
    }

    /// The thread that reported for `lane` with these threads running. If none of them belongs to the lane,
    /// its most frequent thread.
    pub fn thread(&self, lane: u32, set: SetId) -> Option<ThreadId> {
        let usual = |thread: &ThreadId| self.explained.get(thread).copied().unwrap_or(0);
        let own = self.own(lane, set).max_by_key(|thread| (usual(thread), std::cmp::Reverse(*thread)));
        own.or_else(|| {
            let all = self.lane_of.iter().filter(|(_, owner)| **owner == lane).map(|(thread, _)| *thread);
            all.max_by_key(|thread| (usual(thread), std::cmp::Reverse(*thread)))
        })
    }

    /// Number of a lane's reports, and number of those with a known thread.
    pub fn matched(&self, lane: u32) -> (u64, u64) {
        let (mut told, mut matched) = self.past.get(&lane).copied().unwrap_or_default();
        for ((_, set), count) in self.evidence.range((lane, 0)..=(lane, SetId::MAX)) {
            told += count;
            matched += if self.own(lane, *set).next().is_some() { *count } else { 0 };
        }
        (told, matched)
    }
}

/// The entry with the greatest count. If several are equal, the first.
fn most(counts: &BTreeMap<(ThreadId, u32), u64>) -> Option<(ThreadId, u32)> {
    counts.iter().max_by_key(|(key, count)| (**count, std::cmp::Reverse(**key))).map(|(key, _)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(evidence: &[(u32, &[u32], u64)]) -> Owners {
        let mut owners = Owners::default();
        for (lane, threads, count) in evidence {
            let set = owners.intern(threads.iter().map(|thread| ThreadId(*thread)).collect());
            (0..*count).for_each(|_| owners.note(*lane, set));
        }
        owners.decide();
        owners
    }

    fn lane_of(owners: &Owners, thread: u32) -> Option<u32> {
        owners.lane_of.get(&ThreadId(thread)).copied()
    }

    #[test]
    fn lanes_are_assigned_from_threads_that_run_alone() {
        // Thread 1 always runs. Threads 2 and 3 belong to one lane and take turns.
        let owners = owners(&[(7, &[1], 2), (7, &[1, 2], 50), (8, &[1, 2], 500), (8, &[1, 3], 400)]);
        assert_eq!([1, 2, 3].map(|thread| lane_of(&owners, thread)), [Some(7), Some(8), Some(8)]);
        assert_eq!((owners.matched(7), owners.matched(8)), ((52, 52), (900, 900)));
        let both = owners.ids[&vec![ThreadId(1), ThreadId(2)]];
        assert_eq!(owners.thread(8, both), Some(ThreadId(2)));
        assert_eq!(owners.thread(7, both), Some(ThreadId(1)));
    }

    #[test]
    fn a_stray_moment_does_not_steal_a_thread() {
        // Lane 8 reports once while only thread 1 runs, because its own thread had just left.
        let owners = owners(&[(7, &[1], 1000), (8, &[1], 1), (8, &[2], 1000)]);
        assert_eq!([1, 2].map(|thread| lane_of(&owners, thread)), [Some(7), Some(8)]);
        assert_eq!(owners.matched(8), (1001, 1000));
        assert_eq!(owners.thread(8, 0), Some(ThreadId(2)));
    }

    #[test]
    fn without_lone_moments_the_likeliest_explains_most() {
        let owners = owners(&[(7, &[1, 2], 100), (7, &[1, 3], 90), (8, &[1, 2], 80), (8, &[2, 3], 5)]);
        assert_eq!([1, 2].map(|thread| lane_of(&owners, thread)), [Some(7), Some(8)]);
    }

    #[test]
    fn what_was_decided_stays() {
        let mut owners = owners(&[(7, &[1], 10)]);
        owners.forget();
        let set = owners.intern(vec![ThreadId(1)]);
        (0..100).for_each(|_| owners.note(8, set));
        owners.decide();
        assert_eq!(lane_of(&owners, 1), Some(7));
        assert_eq!((owners.matched(7), owners.matched(8)), ((10, 10), (100, 0)));
        assert_eq!(owners.thread(8, set), None);
    }
}
