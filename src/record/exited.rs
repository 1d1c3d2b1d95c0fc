//! Processes that have ended: of those nothing is asked any more. A recorder may run for weeks, and there may be a million of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::process_exists;

/// Interval between checks. A process that is missing twice has almost no pending events.
const EVERY: Duration = Duration::from_secs(10);

/// The looks of one recording.
pub struct Gone {
    looked: Instant,
    /// Processes missing at the previous check.
    missing: BTreeSet<u32>,
}

impl Default for Gone {
    fn default() -> Gone {
        Gone { looked: Instant::now(), missing: BTreeSet::new() }
    }
}

impl Gone {
    /// If a check is due, removes exited processes from `processes`.
    pub fn step(&mut self, processes: &mut BTreeSet<u32>) {
        if self.looked.elapsed() >= EVERY {
            self.looked = Instant::now();
            self.look(processes, process_exists);
        }
    }

    fn look(&mut self, processes: &mut BTreeSet<u32>, exists: impl Fn(u32) -> bool) {
        let missing: BTreeSet<u32> = processes.iter().copied().filter(|pid| !exists(*pid)).collect();
        processes.retain(|pid| !(missing.contains(pid) && self.missing.contains(pid)));
        self.missing = missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_missing_twice_has_exited() {
        let (mut gone, mut processes) = (Gone::default(), BTreeSet::from([1, 2, 3]));
        gone.look(&mut processes, |pid| pid == 1);
        assert_eq!(processes, BTreeSet::from([1, 2, 3]));
        // The number 2 is another's now.
        gone.look(&mut processes, |pid| pid != 3);
        assert_eq!(processes, BTreeSet::from([1, 2]));
        gone.look(&mut processes, |pid| pid == 1);
        assert_eq!(processes, BTreeSet::from([1, 2]));
    }
}
