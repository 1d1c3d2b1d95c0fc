//! Keeping to the budget: how many stacks of blocking threads may be taken, by what they cost just now.

use std::time::{Duration, Instant};

use holdup_capture::bpf::{ProbeCost, STACK_WINDOW};

/// How often the share is adjusted.
const EVERY: Duration = Duration::from_millis(100);
/// What a stack costs before one was timed (ns).
const STACK_NS: f64 = 1_500.0;
/// Stacks get this share of the budget even where switches alone use it up: a sample is worth more than none.
const LEAST_SHARE: f64 = 0.1;

/// Adjusts the number of stacks a window and CPU.
pub struct Budget {
    /// CPU time that the recording may take, as a share of all CPUs.
    share: f64,
    cpus: f64,
    adjusted: Instant,
    /// At the last adjustment.
    before: Spent,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    probes: ProbeCost,
    recorder_ns: u64,
}

impl Budget {
    /// For `percent` of the machine's `cpus`.
    pub fn new(percent: f64, cpus: usize) -> Budget {
        Budget {
            share: percent / 100.0,
            cpus: cpus.max(1) as f64,
            adjusted: Instant::now(),
            before: Spent::default(),
        }
    }

    /// How many stacks a window and CPU may be taken until something is known.
    pub fn first(&self) -> u32 {
        stacks_that_fit(self.share, 0.0, STACK_NS)
    }

    /// It is time to adjust.
    pub fn is_due(&self) -> bool {
        self.adjusted.elapsed() >= EVERY
    }

    /// The new number, given what was spent in all.
    pub fn adjust(&mut self, probes: ProbeCost, recorder_ns: u64) -> u32 {
        let windows = self.adjusted.elapsed().as_secs_f64() / STACK_WINDOW.as_secs_f64() * self.cpus;
        let all_ns = (probes.total_ns - self.before.probes.total_ns)
            + recorder_ns.saturating_sub(self.before.recorder_ns) as f64;
        let stacks_ns = probes.stacks_ns - self.before.probes.stacks_ns;
        let mean_ns = if probes.stacks > 0 { probes.stacks_ns / probes.stacks as f64 } else { STACK_NS };
        self.adjusted = Instant::now();
        self.before = Spent { probes, recorder_ns };
        stacks_that_fit(self.share, (all_ns - stacks_ns).max(0.0) / windows.max(1.0), mean_ns)
    }
}

/// Stacks of `stack_ns` each that fit a window of one CPU besides `others_ns`.
fn stacks_that_fit(share: f64, others_ns: f64, stack_ns: f64) -> u32 {
    let allowed_ns = share * STACK_WINDOW.as_nanos() as f64;
    let left_ns = (allowed_ns - others_ns).max(allowed_ns * LEAST_SHARE);
    (left_ns / stack_ns.max(1.0)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_switches_cost_is_taken_off() {
        // 2 % of 10 ms is 200 µs: two hundred stacks of a microsecond.
        assert_eq!(stacks_that_fit(0.02, 0.0, 1_000.0), 200);
        assert_eq!(stacks_that_fit(0.02, 150_000.0, 1_000.0), 50);
        // The rest is never less than a tenth.
        assert_eq!(stacks_that_fit(0.02, 500_000.0, 1_000.0), 20);
    }
}
