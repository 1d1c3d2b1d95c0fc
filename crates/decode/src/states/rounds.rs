//! Futex words that look like a barrier's round counter, and whether they count.
//!
//! A single wait is not conclusive, because any value that no known lock or queue uses may be a round. A
//! counter changes with each round. A word with a constant value is a state instead: `parking_lot` waits with
//! 1 and Zig's mutex with 3 (<https://github.com/ziglang/zig/blob/0.13.0/lib/std/Thread/Mutex.zig>).

use std::collections::HashMap;

use holdup_events::tables::Waits;
use holdup_events::{ProcessId, Wait, WaitReason};

/// Minimum number of waits with one value that exclude a barrier. Fewer waits may belong to one round.
const WAITS_MIN: u32 = 8;
/// Maximum number of words that are checked. Others stay barriers.
const WORDS_MAX: usize = 1 << 20;

/// The values that threads expected on each word.
#[derive(Debug, Default)]
pub(super) struct RoundCounters {
    words: HashMap<(ProcessId, u64), Values>,
}

#[derive(Debug)]
struct Values {
    first: u32,
    waits: u32,
    differ: bool,
}

impl RoundCounters {
    /// Notes a wait with the value that its thread expected.
    pub(super) fn add(&mut self, wait: &Wait, value: u32) {
        if wait.reason != WaitReason::Barrier || wait.object == 0 {
            return;
        }
        let word = (wait.process, wait.object);
        if self.words.len() >= WORDS_MAX && !self.words.contains_key(&word) {
            return;
        }
        let values = self.words.entry(word).or_insert(Values { first: value, waits: 0, differ: false });
        values.waits = values.waits.saturating_add(1);
        values.differ |= values.first != value;
    }

    /// Makes waits on words that do not count plain waits on a word ([`WaitReason::Park`]).
    pub(super) fn correct(&self, waits: &mut Waits) {
        for wait in waits.iter_mut().filter(|wait| wait.reason == WaitReason::Barrier) {
            let values = self.words.get(&(wait.process, wait.object));
            if values.is_some_and(|values| !values.differ && values.waits >= WAITS_MIN) {
                wait.reason = WaitReason::Park;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::ObjectKind;

    use super::*;

    fn reason_of(values: &[u32]) -> WaitReason {
        let wait = Wait {
            reason: WaitReason::Barrier,
            object_kind: ObjectKind::Futex,
            object: 0x1000,
            ..Wait::default()
        };
        let mut counters = RoundCounters::default();
        values.iter().for_each(|value| counters.add(&wait, *value));
        let mut waits = vec![wait];
        counters.correct(&mut waits);
        waits[0].reason
    }

    #[test]
    fn a_word_with_one_value_is_no_barrier() {
        assert_eq!(reason_of(&[3; 8]), WaitReason::Park, "Zig's mutex");
        assert_eq!(reason_of(&[1; 100]), WaitReason::Park, "parking_lot");
    }

    #[test]
    fn a_word_that_counts_is_a_barrier() {
        assert_eq!(reason_of(&[4, 4, 4, 4, 8, 8, 8, 8]), WaitReason::Barrier);
        assert_eq!(reason_of(&[4; 7]), WaitReason::Barrier, "one round of eight threads");
    }
}
