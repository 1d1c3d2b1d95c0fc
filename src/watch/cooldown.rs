//! When a cause may save again.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::{Duration, Timestamp};

use super::triggers::Firing;

/// The longest rest of one cause.
const REST_MAX: Duration = Duration(3_600_000_000_000);

/// Why a recording was saved: a trigger, by the threads of one program. Numbers of processes are no part of it, because a program
/// may be started again and again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    trigger: String,
    process: String,
}

impl Cause {
    pub fn new(firing: &Firing) -> Cause {
        Cause { trigger: firing.fired.trigger.clone(), process: firing.process.clone() }
    }
}

struct Saved {
    at: Timestamp,
    rest: Duration,
}

/// After a recording no cause saves for a while. A cause that saved before rests twice as long as the last time.
pub struct Cooldown {
    rest: Duration,
    last: Option<Timestamp>,
    causes: BTreeMap<Cause, Saved>,
}

impl Cooldown {
    /// `rest`: after the first recording.
    pub fn new(rest: std::time::Duration) -> Cooldown {
        Cooldown { rest: Duration(rest.as_nanos() as u64), last: None, causes: BTreeMap::new() }
    }

    /// Whether it is too early for a recording with this cause.
    pub fn rests(&self, cause: &Cause, now: Timestamp) -> bool {
        let same = self.causes.get(cause).is_some_and(|saved| now.since(saved.at) < saved.rest);
        same || self.last.is_some_and(|last| now.since(last) < self.rest)
    }

    /// A recording with these causes ended at `at`.
    pub fn saved(&mut self, causes: BTreeSet<Cause>, at: Timestamp) {
        self.last = Some(at);
        for cause in causes {
            let before = self.causes.get(&cause).map(|saved| saved.rest);
            let longest = REST_MAX.max(self.rest);
            let rest = before.map_or(self.rest, |rest| Duration(rest.0.saturating_mul(2)).min(longest));
            self.causes.insert(cause, Saved { at, rest });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn cause(trigger: &str, process: &str) -> Cause {
        Cause { trigger: trigger.to_owned(), process: process.to_owned() }
    }

    /// The seconds at which a cause that fires all the time saves.
    fn saves(cooldown: &mut Cooldown, cause: &Cause, seconds: std::ops::Range<u64>) -> Vec<u64> {
        let mut saved = Vec::new();
        for second in seconds {
            if !cooldown.rests(cause, Timestamp(second * S)) {
                cooldown.saved([cause.clone()].into(), Timestamp(second * S));
                saved.push(second);
            }
        }
        saved
    }

    #[test]
    fn the_same_cause_rests_twice_as_long_each_time() {
        let mut cooldown = Cooldown::new(std::time::Duration::from_secs(10));
        assert_eq!(saves(&mut cooldown, &cause("pause:lock>20ms", "flock"), 1..200), [1, 11, 31, 71, 151]);
        let hours = saves(&mut cooldown, &cause("pause:lock>20ms", "flock"), 200..30_000);
        let last: Vec<u64> = hours.windows(2).map(|pair| pair[1] - pair[0]).skip(4).collect();
        assert!(!last.is_empty() && last.iter().all(|rest| *rest == 3_600), "{hours:?}");
    }

    #[test]
    fn another_cause_rests_the_first_time_only_as_long_as_all_do() {
        let mut cooldown = Cooldown::new(std::time::Duration::from_secs(10));
        assert_eq!(saves(&mut cooldown, &cause("pause:lock>20ms", "flock"), 1..40), [1, 11, 31]);
        assert_eq!(saves(&mut cooldown, &cause("pause:lock>20ms", "go"), 32..42), [41]);
        assert_eq!(saves(&mut cooldown, &cause("function:f>1s", "flock"), 42..52), [51]);
    }

    #[test]
    fn without_a_cooldown_no_cause_rests() {
        let mut cooldown = Cooldown::new(std::time::Duration::ZERO);
        assert_eq!(saves(&mut cooldown, &cause("pause:lock>20ms", "flock"), 1..5), [1, 2, 3, 4]);
    }
}
