//! Times in which a CPU was idle. A thread that waits for a CPU then is delayed by the kernel, not by a lack
//! of CPUs.

use holdup_events::{Timestamp, Trace};

use crate::derive::timelines::Timelines;

/// Moments at which CPUs became all busy, or no longer all, with the time before in which one was idle.
pub(super) struct Idle {
    /// (moment, idle time before it (ns), a CPU is idle from then on)
    changes: Vec<(u64, u64, bool)>,
    start: u64,
}

impl Idle {
    /// Idle times of a machine of which the program may use `cpus`.
    pub fn new(trace: &Trace, timelines: &Timelines, cpus: u32) -> Idle {
        let start = trace.start().0;
        let mut moments: Vec<u64> = Vec::new();
        for (_, timeline) in timelines.iter() {
            for stretch in timeline.stretches() {
                // The lowest bit: 0 ends, 1 begins, so that ends come first.
                moments.push(stretch.start().0.saturating_sub(start) << 1 | 1);
                moments.push(stretch.end().0.saturating_sub(start) << 1);
            }
        }
        moments.sort_unstable();
        let (mut busy, mut idle_ns, mut since) = (0u32, 0, 0);
        let mut is_idle = true;
        let mut changes = vec![(0, 0, true)];
        for (index, moment) in moments.iter().enumerate() {
            let at = moment >> 1;
            busy = if moment & 1 == 1 { busy + 1 } else { busy.saturating_sub(1) };
            if moments.get(index + 1).is_some_and(|next| next >> 1 == at) || (busy < cpus) == is_idle {
                continue;
            }
            if is_idle {
                idle_ns += at - since;
            }
            (is_idle, since) = (busy < cpus, at);
            changes.push((at, idle_ns, is_idle));
        }
        Idle { changes, start }
    }

    fn before(&self, at: u64) -> u64 {
        let place = self.changes.partition_point(|(moment, ..)| *moment <= at);
        match place.checked_sub(1).and_then(|place| self.changes.get(place)) {
            Some((moment, idle_ns, true)) => idle_ns + (at - moment),
            Some((_, idle_ns, false)) => *idle_ns,
            None => 0,
        }
    }

    /// Time in `from..to` in which a CPU was idle (ns).
    pub fn within(&self, from: Timestamp, to: Timestamp) -> u64 {
        let place = |at: Timestamp| self.before(at.0.saturating_sub(self.start));
        place(to).saturating_sub(place(from))
    }
}
