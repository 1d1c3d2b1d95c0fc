//! Budget control: determines the number of stacks of blocking threads and of wakers from their recent cost.
//!
//! The rest of the recording's cost is subtracted first. Each of the two kinds may use half of the remainder,
//! plus the unused part of the other kind's half. Twice the other kind's last use is reserved for it, so that
//! it can grow.

use std::time::{Duration, Instant};

use holdup_capture::bpf::{ProbeCost, STACK_WINDOW};

/// How often the share is adjusted.
const EVERY: Duration = Duration::from_millis(100);
/// Assumed cost of a stack before the first measurement (ns).
const STACK_NS: f64 = 1_500.0;
/// Stacks get this share of the budget even where switches alone use it up: a sample is worth more than none.
const LEAST_SHARE: f64 = 0.1;
/// Factor of the other kind's last use that is reserved for it.
const KEPT_FOR_OTHER: f64 = 2.0;

/// Adjusts the number of stacks a window and CPU.
pub struct Budget {
    /// CPU time that the recording may take, as a share of all CPUs.
    share: f64,
    cpus: f64,
    adjusted: Instant,
    /// At the last adjustment.
    before: Spent,
    /// Share of the budget that was left for optional work (0 to 1).
    left: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    probes: ProbeCost,
    recorder_ns: u64,
}

/// Cost of one kind of stacks.
#[derive(Clone, Copy, Debug)]
struct StackCost {
    /// One stack (ns).
    mean_ns: f64,
    /// All of a window and CPU (ns).
    used_ns: f64,
}

impl StackCost {
    fn new(all: (f64, u64), used_ns: f64) -> StackCost {
        StackCost { mean_ns: if all.0 > 0.0 { all.0 / all.1 as f64 } else { STACK_NS }, used_ns }
    }
}

impl Budget {
    /// For `percent` of the machine's `cpus`.
    pub fn new(percent: f64, cpus: usize) -> Budget {
        Budget {
            share: percent / 100.0,
            cpus: cpus.max(1) as f64,
            adjusted: Instant::now(),
            before: Spent::default(),
            left: 1.0,
        }
    }

    /// How many stacks a window and CPU may be taken until something is known: of blocking threads, of wakers.
    pub fn first(&self) -> [u32; 2] {
        // As if both had used their half.
        let used_ns = self.share * STACK_WINDOW.as_nanos() as f64 / 2.0;
        stacks_that_fit(self.share, 0.0, [StackCost { mean_ns: STACK_NS, used_ns }; 2])
    }

    /// The program starts now. The cost of the preparation before does not count.
    pub fn begin(&mut self, probes: ProbeCost, recorder_ns: u64) {
        self.adjusted = Instant::now();
        self.before = Spent { probes, recorder_ns };
    }

    /// Whether an adjustment is due.
    pub fn is_due(&self) -> bool {
        self.adjusted.elapsed() >= EVERY
    }

    /// Returns the new numbers of stacks per window and CPU, for the given total cost.
    pub fn adjust(&mut self, probes: ProbeCost, recorder_ns: u64) -> [u32; 2] {
        let windows = self.adjusted.elapsed().as_secs_f64() / STACK_WINDOW.as_secs_f64() * self.cpus;
        let windows = windows.max(1.0);
        let before = &self.before.probes;
        let all_ns =
            (probes.total_ns - before.total_ns) + recorder_ns.saturating_sub(self.before.recorder_ns) as f64;
        let blocked_ns = (probes.stacks_ns - before.stacks_ns).max(0.0);
        let wakers_ns = (probes.waker_stacks_ns - before.waker_stacks_ns).max(0.0);
        let costs = [
            StackCost::new((probes.stacks_ns, probes.stacks), blocked_ns / windows),
            StackCost::new((probes.waker_stacks_ns, probes.waker_stacks), wakers_ns / windows),
        ];
        self.adjusted = Instant::now();
        self.before = Spent { probes, recorder_ns };
        let others_ns = (all_ns - blocked_ns - wakers_ns).max(0.0) / windows;
        self.left = left_ns(self.share, others_ns) / (self.share * STACK_WINDOW.as_nanos() as f64).max(1.0);
        stacks_that_fit(self.share, others_ns, costs)
    }

    /// Which part of the budget is left to what may be left out, of 0 to 1.
    pub fn left(&self) -> f64 {
        self.left
    }
}

/// Returns the budget left in a window of one CPU after `others_ns` (ns).
fn left_ns(share: f64, others_ns: f64) -> f64 {
    let allowed_ns = share * STACK_WINDOW.as_nanos() as f64;
    (allowed_ns - others_ns).max(allowed_ns * LEAST_SHARE)
}

/// How many stacks of each kind fit a window of one CPU besides `others_ns`.
fn stacks_that_fit(share: f64, others_ns: f64, costs: [StackCost; 2]) -> [u32; 2] {
    let left_ns = left_ns(share, others_ns);
    let [blocked, wakers] = costs;
    let fit = |own: StackCost, other: StackCost| {
        let part_ns = (left_ns - other.used_ns * KEPT_FOR_OTHER).max(left_ns / 2.0);
        (part_ns / own.mean_ns.max(1.0)) as u32
    };
    [fit(blocked, wakers), fit(wakers, blocked)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(mean_ns: f64, used_ns: f64) -> StackCost {
        StackCost { mean_ns, used_ns }
    }

    #[test]
    fn what_switches_cost_is_taken_off() {
        let alone = [cost(1_000.0, 200_000.0), cost(1_000.0, 0.0)];
        // 2 % of 10 ms is 200 µs: two hundred stacks of a microsecond.
        assert_eq!(stacks_that_fit(0.02, 0.0, alone)[0], 200);
        assert_eq!(stacks_that_fit(0.02, 150_000.0, alone)[0], 50);
        // The rest is never less than a tenth.
        assert_eq!(stacks_that_fit(0.02, 500_000.0, alone)[0], 20);
    }

    #[test]
    fn both_kinds_of_stacks_share_what_is_left() {
        // Both want all: half each, in time.
        let both = [cost(1_000.0, 100_000.0), cost(500.0, 100_000.0)];
        assert_eq!(stacks_that_fit(0.02, 0.0, both), [100, 200]);
        // Blocking threads get what wakers leave unused. Wakers keep their half in case they need it.
        let few = [cost(1_000.0, 170_000.0), cost(1_000.0, 10_000.0)];
        assert_eq!(stacks_that_fit(0.02, 0.0, few), [180, 100]);
    }

    #[test]
    fn stacks_of_a_steady_program_stay_within_the_budget() {
        // How much each kind would use if it might (ns a window and CPU).
        for wants in [[1e9, 1e9], [1e9, 10_000.0], [10_000.0, 1e9], [1e9, 90_000.0], [20_000.0, 30_000.0]] {
            let mut used: [f64; 2] = [0.0, 0.0];
            for _ in 0..20 {
                let fit = stacks_that_fit(0.02, 50_000.0, [cost(1_000.0, used[0]), cost(700.0, used[1])]);
                used =
                    [(f64::from(fit[0]) * 1_000.0).min(wants[0]), (f64::from(fit[1]) * 700.0).min(wants[1])];
            }
            assert!(used[0] + used[1] <= 150_000.0, "{wants:?}: {used:?}");
            let least = f64::min(wants[0] + wants[1], 0.65 * 150_000.0);
            assert!(used[0] + used[1] >= least, "{wants:?}: {used:?}");
        }
    }

    #[test]
    fn what_may_be_left_out_has_what_is_left_and_a_tenth_at_least() {
        let window_ns = STACK_WINDOW.as_nanos() as f64;
        let left = |others: f64| left_ns(0.02, others * 0.02 * window_ns) / (0.02 * window_ns);
        assert!((left(0.25) - 0.75).abs() < 1e-9 && (left(3.0) - LEAST_SHARE).abs() < 1e-9);
        let mut budget = Budget::new(2.0, 2);
        assert_eq!(budget.left(), 1.0);
        // Before it began, and then in a moment: far more than it may.
        let probes = ProbeCost { total_ns: 1e12, ..ProbeCost::default() };
        budget.begin(probes, 1_000_000_000_000);
        budget.adjust(probes, 1_000_000_000_000);
        assert_eq!(budget.left(), 1.0);
        budget.adjust(ProbeCost { total_ns: 2e12, ..probes }, 1_000_000_000_000);
        assert!((budget.left() - LEAST_SHARE).abs() < 1e-9, "{}", budget.left());
    }

    #[test]
    fn the_first_numbers_fit() {
        let [blocked, wakers] = Budget::new(2.0, 4).first();
        assert_eq!((blocked, wakers), (66, 66));
    }
}
