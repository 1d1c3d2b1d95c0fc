//! A sum of weights, and how far it can be off.

use super::observations::{Basis, Observation};
use crate::derive::split::ERRORS_95;

/// Estimated part of a sum, for one kind of observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part {
    ns: f64,
    /// Σ of the observations' [`Observation::doubt`].
    doubt: f64,
    count: u64,
}

/// Time that a set of stacks represents, with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Time (ns).
    pub ns: u64,
    /// On-CPU samples in it.
    pub samples: u64,
    /// Blocked slices in it with a recorded stack.
    pub slices: u64,
    on_cpu: Part,
    blocked: Part,
}

impl Tally {
    /// Counts one observation in.
    pub fn add(&mut self, seen: &Observation) {
        self.ns += seen.weight_ns;
        let part = match seen.basis {
            Basis::Exact => {
                self.slices += u64::from(seen.stack != holdup_events::StackId::NONE);
                return;
            }
            Basis::Samples => {
                self.samples += u64::from(!seen.lent);
                &mut self.on_cpu
            }
            Basis::Slices => {
                self.slices += u64::from(!seen.lent);
                &mut self.blocked
            }
        };
        part.ns += seen.weight_ns as f64;
        part.doubt += seen.doubt;
        part.count += u64::from(!seen.lent);
    }

    /// Counts another sum in.
    pub fn merge(&mut self, other: &Tally) {
        self.ns += other.ns;
        self.samples += other.samples;
        self.slices += other.slices;
        for (mine, theirs) in [(&mut self.on_cpu, &other.on_cpu), (&mut self.blocked, &other.blocked)] {
            mine.ns += theirs.ns;
            mine.doubt += theirs.doubt;
            mine.count += theirs.count;
        }
    }

    /// Whether nothing in it was estimated.
    pub fn is_exact(&self) -> bool {
        self.on_cpu.ns + self.blocked.ns == 0.0
    }

    /// Half the width of the 95 % confidence interval (ns) of this part of `all`, whose own total is known. 0
    /// if nothing was estimated. Otherwise greater than 0, because no hit in ten samples does not prove a
    /// share of zero.
    pub fn error_ns(&self, all: &Tally) -> u64 {
        let variance = variance(&self.on_cpu, &all.on_cpu) + variance(&self.blocked, &all.blocked);
        (ERRORS_95 * variance.sqrt()).round() as u64
    }
}

/// Pseudo-observations on each side (Wilson's plus four), so that a share of nothing or of all has an error.
const SIDE: f64 = 2.0;

/// Variance of a part's share of a known total: of a sum over a sample with unequal weights, linearised.
/// For equal weights it is the binomial `total² p (1 - p) / n`.
fn variance(part: &Part, all: &Part) -> f64 {
    if part.ns <= 0.0 || all.count == 0 {
        return 0.0;
    }
    let count = all.count as f64;
    let usual = all.doubt / count;
    let share = (part.ns / all.ns * count + SIDE) / (count + 2.0 * SIDE);
    let inside = part.doubt + SIDE * usual;
    let outside = (all.doubt - part.doubt).max(0.0) + SIDE * usual;
    let variance = inside * (1.0 - share).powi(2) + outside * share.powi(2);
    // The pseudo-observations widen the share, not the sum.
    variance * count / (count + 2.0 * SIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: u64) -> Tally {
        let mut tally = Tally::default();
        for _ in 0..count {
            tally.add(&Observation {
                weight_ns: 1_000,
                basis: Basis::Samples,
                doubt: 1e6,
                ..Observation::default()
            });
        }
        tally
    }

    #[test]
    fn equal_weights_have_the_binomial_error() {
        let error = samples(2_500).error_ns(&samples(10_000)) as f64;
        let binomial = 10_000.0 * 1_000.0 * (0.25f64 * 0.75 / 10_000.0).sqrt();
        assert!((error / binomial / 1.96 - 1.0).abs() < 0.01, "{error} {binomial}");
        assert!(samples(10).error_ns(&samples(10)) > 0);
        assert_eq!(Tally::default().error_ns(&samples(10)), 0);
    }
}
