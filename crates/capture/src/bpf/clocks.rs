//! Detects sampling events that have stopped counting on a CPU.
//!
//! When a CPU goes offline, the kernel ends its events, and does not restart them when the CPU comes back. It
//! gives no notification. The count of a clock event, in ns, then stands still. This is visible even if the
//! CPU was offline only between two checks.

use std::collections::BTreeMap;

/// Two checks must be at least this far apart, because both clocks are read one after the other.
const ELAPSED_MIN_NS: u64 = 10_000_000;

/// The count of one CPU's event at the last check.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    count_ns: u64,
    stopped_ns: Option<u64>,
}

/// The clocks of all CPUs that have an event.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    seen: BTreeMap<u16, Seen>,
}

impl Clocks {
    /// The event of `cpu` begins to count.
    pub fn begin(&mut self, cpu: u16, now_ns: u64) {
        self.seen.insert(cpu, Seen { at_ns: now_ns, count_ns: 0, stopped_ns: None });
    }

    /// The event of `cpu` has counted `count_ns` by now. If it stands still: since when (ns of CLOCK_MONOTONIC).
    pub fn look(&mut self, cpu: u16, now_ns: u64, count_ns: u64) -> Option<u64> {
        let seen = self.seen.get_mut(&cpu)?;
        if seen.stopped_ns.is_some() {
            return seen.stopped_ns;
        }
        let (elapsed_ns, advance_ns) =
            (now_ns.saturating_sub(seen.at_ns), count_ns.saturating_sub(seen.count_ns));
        if elapsed_ns < ELAPSED_MIN_NS {
            return None;
        }
        // A running event advances like our clock, except for the time between the two reads.
        if advance_ns < elapsed_ns / 2 {
            seen.stopped_ns = Some(seen.at_ns + advance_ns);
        } else {
            (seen.at_ns, seen.count_ns) = (now_ns, count_ns);
        }
        seen.stopped_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_clock_that_stands_still_has_ended_when_it_stopped() {
        let mut clocks = Clocks::default();
        clocks.begin(1, 10 * SECOND);
        assert_eq!(clocks.look(1, 11 * SECOND, SECOND), None);
        assert_eq!(clocks.look(1, 12 * SECOND, SECOND + SECOND / 4), Some(11 * SECOND + SECOND / 4));
        // The stop is returned until the event begins again.
        assert_eq!(clocks.look(1, 13 * SECOND, SECOND + SECOND / 4), Some(11 * SECOND + SECOND / 4));
        clocks.begin(1, 13 * SECOND);
        assert_eq!(clocks.look(1, 14 * SECOND, SECOND), None);
    }

    #[test]
    fn a_clock_that_was_looked_at_late_goes_on() {
        let mut clocks = Clocks::default();
        clocks.begin(0, 0);
        assert_eq!(clocks.look(0, 90 * SECOND, 90 * SECOND), None);
        assert_eq!(clocks.look(0, 91 * SECOND, 91 * SECOND - 1000), None);
        assert_eq!(clocks.look(0, 91 * SECOND + 1000, 91 * SECOND - 1000), None, "too soon to tell");
        assert_eq!(clocks.look(7, SECOND, 0), None, "a CPU that nobody samples");
    }
}
