//! Cost of the BPF programs. They time one run in 32 themselves (`probe_begin` in `bpf/common.h`), which
//! needs no privilege and does not patch the kernel. The cost is mean × runs, per program.
//!
//! The kernel's own cost to call a program (`entry`) and to interrupt a thread for a sample (`interruption`)
//! is measured before the recording. Calls that return immediately are not included: wakeups of other
//! programs, changes of the memory that a CPU sees.

use super::trial::Trial;

/// Kinds of programs, as `enum` in `bpf/common.h`.
pub(super) const PROBES: usize = 11;
/// Taking samples.
pub(super) const SAMPLE_PROBE: usize = 2;
/// Counting syscalls.
pub(super) const SYSCALL_PROBE: usize = 5;
/// Index of the stacks of blocking threads, which are a part of the cost of switches. The next index has the
/// stacks of wakers, a part of wakeups.
pub(super) const STACK_PROBE: usize = 6;
/// How many are parts of others.
const STACK_PROBES: usize = 2;

/// CPU time of the kernel programs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProbeCost {
    /// Estimate (ns).
    pub total_ns: f64,
    /// Half the width of its 95 % interval, from the scatter of the timed runs (ns).
    pub error_ns: f64,
    /// Part of `total_ns` for stacks of blocking threads (ns).
    pub stacks_ns: f64,
    /// How many of those stacks were taken.
    pub stacks: u64,
    /// Part of `total_ns` for stacks of wakers (ns).
    pub waker_stacks_ns: f64,
    /// How many of those were taken.
    pub waker_stacks: u64,
}

impl ProbeCost {
    /// With what the kernel spends besides, as tried out.
    pub(super) fn and(self, more: Trial) -> ProbeCost {
        ProbeCost {
            total_ns: self.total_ns + more.median_ns,
            error_ns: self.error_ns.hypot(more.error_ns),
            ..self
        }
    }
}

/// `struct probe_time` of `bpf/common.h`, summed over CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeTime {
    pub runs: u64,
    pub timed_runs: u64,
    pub timed_ns: u64,
    pub timed_sq_ns2: u64,
}

/// Half the width of a 95 % confidence interval, in standard errors.
const ERRORS_95: f64 = 1.96;

/// How often a program was called.
pub(super) fn calls(probes: &[ProbeTime; PROBES]) -> u64 {
    let (others, stacks) = probes.split_at(STACK_PROBE);
    others.iter().chain(&stacks[STACK_PROBES..]).map(|probe| probe.runs).sum()
}

/// Mean × runs, with the error of a mean of a sample (Cochran, Sampling Techniques, §2.6).
pub(super) fn estimate(probes: &[ProbeTime; PROBES]) -> ProbeCost {
    let (mut total, mut variance) = (0.0, 0.0);
    let (others, stacks) = probes.split_at(STACK_PROBE);
    let (stacks, behind) = stacks.split_at(STACK_PROBES);
    for probe in others.iter().chain(behind).filter(|probe| probe.timed_runs > 0) {
        let (runs, timed) = (probe.runs as f64, probe.timed_runs as f64);
        let mean = probe.timed_ns as f64 / timed;
        let spread = (probe.timed_sq_ns2 as f64 / timed - mean * mean).max(0.0);
        total += mean * runs;
        variance += spread / timed * (1.0 - timed / runs.max(timed)) * runs * runs;
    }
    let [blocked, wakers] = [0, 1].map(|at| stacks.get(at).copied().unwrap_or_default());
    let all_ns =
        |probe: &ProbeTime| probe.timed_ns as f64 / probe.timed_runs.max(1) as f64 * probe.runs as f64;
    ProbeCost {
        total_ns: total,
        error_ns: ERRORS_95 * variance.sqrt(),
        stacks_ns: all_ns(&blocked),
        stacks: blocked.runs,
        waker_stacks_ns: all_ns(&wakers),
        waker_stacks: wakers.runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_have_no_error_and_scattered_ones_have() {
        let mut probes = [ProbeTime::default(); PROBES];
        assert_eq!(estimate(&probes), ProbeCost::default());
        probes[0] = ProbeTime { runs: 3200, timed_runs: 100, timed_ns: 10_000, timed_sq_ns2: 1_000_000 };
        assert_eq!(estimate(&probes), ProbeCost { total_ns: 320_000.0, ..ProbeCost::default() });
        // Half the runs take 50, half 150: a standard deviation of 50, over √100 runs.
        probes[0].timed_sq_ns2 = 50 * 2_500 + 50 * 22_500;
        let cost = estimate(&probes);
        assert!((cost.error_ns - 1.96 * 5.0 * 3200.0 * (1.0 - 1.0 / 32.0f64).sqrt()).abs() < 1.0, "{cost:?}");
        let more = cost.and(Trial { median_ns: 2_000.0, error_ns: 100.0 }.times(50));
        assert_eq!(more.total_ns, cost.total_ns + 100_000.0);
        assert!(
            (more.error_ns - cost.error_ns.hypot(5_000.0)).abs() < 1e-6,
            "their errors have nothing to do with each other"
        );
    }
}
