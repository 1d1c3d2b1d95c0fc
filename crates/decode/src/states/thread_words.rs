//! Futex words whose value looks like a tid, and whether it is one.
//!
//! glibc's `pthread_join` waits on the word that the kernel clears when the thread ends. Until then, the word
//! is the thread's tid. `std::atomic::wait` of libstdc++ waits with the program's own value on a word without
//! the private flag (before GCC 16). A counter may have any value.

use std::collections::{BTreeSet, HashMap};

use holdup_events::tables::{Thread, Waits};
use holdup_events::{ProcessId, Wait, WaitReason};

/// With at least this many waits on a word, one of the values was a thread's number if any is.
const WAITS_MIN: u32 = 8;
/// Number of values kept per word, the first ones. A word in a reused stack is of many threads, one after the other.
const VALUES_MAX: usize = 64;
/// Maximum number of words that are checked. Others stay joins.
const WORDS_MAX: usize = 1 << 20;

/// The values that threads expected on each word that looks like a thread's number.
#[derive(Debug, Default)]
pub(super) struct ThreadWords {
    words: HashMap<(ProcessId, u64), Values>,
}

#[derive(Debug, Default)]
struct Values {
    values: BTreeSet<u32>,
    waits: u32,
}

impl ThreadWords {
    /// Notes a wait with the value that its thread expected.
    pub(super) fn add(&mut self, wait: &Wait, value: u32) {
        /// State values of glibc 2.43, whose join words do not hold the tid.
        const STATES: std::ops::RangeInclusive<u32> = 1..=2;
        if wait.reason != WaitReason::Join || wait.object == 0 || STATES.contains(&value) {
            return;
        }
        let word = (wait.process, wait.object);
        if self.words.len() >= WORDS_MAX && !self.words.contains_key(&word) {
            return;
        }
        let values = self.words.entry(word).or_default();
        values.waits = values.waits.saturating_add(1);
        if values.values.len() < VALUES_MAX {
            values.values.insert(value);
        }
    }

    /// Makes waits on words whose value is no thread's number plain waits on a word ([`WaitReason::Park`]).
    ///
    /// A process whose threads have other numbers in its own PID namespace may have no number that matches. Its words
    /// are plain only after [`WAITS_MIN`] waits.
    pub(super) fn correct(&self, waits: &mut Waits, threads: &[Thread]) {
        if self.words.is_empty() {
            return;
        }
        let tids: BTreeSet<(ProcessId, u32)> =
            threads.iter().map(|thread| (thread.process, thread.tid)).collect();
        let names_a_thread = |process: ProcessId, values: &Values| {
            values.values.iter().any(|value| tids.contains(&(process, *value)))
        };
        let of_threads = self.words.iter().filter(|((process, _), values)| names_a_thread(*process, values));
        let comparable: BTreeSet<ProcessId> = of_threads.map(|((process, _), _)| *process).collect();
        for wait in waits.iter_mut().filter(|wait| wait.reason == WaitReason::Join) {
            let Some(values) = self.words.get(&(wait.process, wait.object)) else { continue };
            let enough = comparable.contains(&wait.process) || values.waits >= WAITS_MIN;
            if enough && !names_a_thread(wait.process, values) {
                wait.reason = WaitReason::Park;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::ObjectKind;

    use super::*;

    const PROCESS: ProcessId = ProcessId(0);

    /// The reasons of one wait for each word: a word is the values that threads expected, in order.
    fn reasons(words: &[&[u32]]) -> Vec<WaitReason> {
        let threads = [4000, 4001].map(|tid| Thread { tid, process: PROCESS, ..Thread::default() });
        let mut found = ThreadWords::default();
        let mut waits = Waits::new();
        for (row, values) in words.iter().enumerate() {
            let wait = Wait {
                reason: WaitReason::Join,
                object_kind: ObjectKind::Futex,
                object: 0x1000 * (row as u64 + 1),
                process: PROCESS,
                ..Wait::default()
            };
            values.iter().for_each(|value| found.add(&wait, *value));
            waits.push(wait);
        }
        found.correct(&mut waits, &threads);
        waits.iter().map(|wait| wait.reason).collect()
    }

    #[test]
    fn the_number_of_a_thread_is_a_join() {
        assert_eq!(reasons(&[&[4001]]), [WaitReason::Join]);
        assert_eq!(
            reasons(&[&[4001, 9000, 9001, 9002, 9003, 9004, 9005, 9006]]),
            [WaitReason::Join],
            "a reused stack"
        );
    }

    #[test]
    fn a_counter_is_no_join() {
        let counter: Vec<u32> = (1000..1200).collect();
        assert_eq!(reasons(&[&counter]), [WaitReason::Park]);
        assert_eq!(reasons(&[&[1000], &[4001]]), [WaitReason::Park, WaitReason::Join], "beside a join");
    }

    #[test]
    fn one_wait_for_an_unknown_number_stays_a_join() {
        assert_eq!(reasons(&[&[7]]), [WaitReason::Join], "a thread of another PID namespace");
        assert_eq!(reasons(&[&[2; 20]]), [WaitReason::Join], "glibc 2.43");
    }
}
