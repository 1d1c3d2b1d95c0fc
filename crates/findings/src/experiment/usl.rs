//! The Universal Scalability Law, X(N) = γN / (1 + σ(N-1) + κN(N-1)), fitted to runs with different numbers
//! of workers.
//!
//! N/X is linear in 1/γ, σ/γ and κ/γ. So the fit is a least squares problem of three non-negative numbers, in
//! relative errors. Its uncertainty is the region of all (σ, κ) that are compatible with the runs (by the F
//! of the sum of squares). The two are strongly correlated, so separate intervals would be too narrow. The
//! intervals are the extent of that region.

use super::distributions::fisher_quantile;
use super::growth::SPARE_POINTS;

/// γ, σ and κ.
pub const COEFFICIENTS: usize = 3;
/// Minimum number of different numbers of workers for a fit.
pub const POINTS_MIN: usize = COEFFICIENTS + SPARE_POINTS;

/// A coefficient with the joint interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coefficient {
    /// Best estimate.
    pub value: f64,
    /// Lower end of the joint interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Throughput of one worker, in the unit of the runs.
    pub gamma: f64,
    /// Contention: the share that is done by one at a time.
    pub sigma: Coefficient,
    /// Coherence: the cost of each worker with each other.
    pub kappa: Coefficient,
    /// How many numbers of workers carry it.
    pub points: usize,
    /// The sum of squares up to which coefficients are compatible with the runs.
    limit: f64,
}

/// (number of workers, throughput) of each run → the law, if there are enough numbers of workers and runs.
pub fn fit(runs: &[(f64, f64)], risk: f64) -> Option<Usl> {
    let mut numbers: Vec<f64> = runs.iter().map(|run| run.0).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let freedom = runs.len() as f64 - COEFFICIENTS as f64;
    if numbers.len() < POINTS_MIN || freedom < 1.0 || runs.iter().any(|(_, x)| !x.is_finite() || *x <= 0.0) {
        return None;
    }
    let runs = Runs(runs);
    let sigma = minimise(|sigma| runs.best_kappa(sigma).1, 1.0);
    let (kappa, least) = runs.best_kappa(sigma);
    // Equal runs have no scatter. A part in a billion is below the resolution of the arithmetic.
    let least = least.max(1e-9 * runs.0.len() as f64);
    let limit = least * (1.0 + 2.0 / freedom * fisher_quantile(risk, 2.0, freedom));
    let of_sigma = |sigma: f64| runs.best_kappa(sigma).1;
    let of_kappa = |kappa: f64| of_best_sigma(&runs, kappa);
    Some(Usl {
        gamma: runs.gamma(sigma, kappa),
        sigma: extent(sigma, &of_sigma, limit),
        kappa: extent(kappa, &of_kappa, limit),
        points: numbers.len(),
        limit,
    })
}

impl Usl {
    /// Throughput with `workers` workers.
    pub fn at(&self, workers: f64) -> f64 {
        throughput(self.gamma, (self.sigma.value, self.kappa.value), workers)
    }

    /// The least and the greatest throughput with so many workers that any compatible law gives.
    pub fn range_at(&self, runs: &[(f64, f64)], workers: f64) -> (f64, f64) {
        const STEPS: usize = 60;
        let runs = Runs(runs);
        let mut range = (f64::INFINITY, 0.0f64);
        for step in 0..=STEPS {
            let sigma = self.sigma.low + (self.sigma.high - self.sigma.low) * step as f64 / STEPS as f64;
            let best = runs.best_kappa(sigma).0;
            let kappa = extent(best, &|kappa| runs.squares(sigma, kappa), self.limit);
            for kappa in [kappa.low, best, kappa.high] {
                let x = throughput(runs.gamma(sigma, kappa), (sigma, kappa), workers);
                range = (range.0.min(x), range.1.max(x));
            }
        }
        range
    }

    /// The number of workers beyond which more make it slower, if there is one.
    pub fn peak(&self) -> Option<f64> {
        let (sigma, kappa) = (self.sigma.value, self.kappa.value);
        (kappa > 0.0).then(|| ((1.0 - sigma).max(0.0) / kappa).sqrt().max(1.0))
    }
}

fn throughput(gamma: f64, (sigma, kappa): (f64, f64), n: f64) -> f64 {
    gamma * n / slowing(sigma, kappa, n)
}

fn slowing(sigma: f64, kappa: f64, n: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}

struct Runs<'a>(&'a [(f64, f64)]);

impl Runs<'_> {
    /// 1/γ that fits best.
    fn inverse_gamma(&self, sigma: f64, kappa: f64) -> f64 {
        let weight = |(n, x): &(f64, f64)| x / n * slowing(sigma, kappa, *n);
        let sum: f64 = self.0.iter().map(weight).sum();
        let squares: f64 = self.0.iter().map(|run| weight(run).powi(2)).sum();
        sum / squares
    }

    fn gamma(&self, sigma: f64, kappa: f64) -> f64 {
        1.0 / self.inverse_gamma(sigma, kappa)
    }

    /// Sum of squared relative errors with the best γ.
    fn squares(&self, sigma: f64, kappa: f64) -> f64 {
        let inverse = self.inverse_gamma(sigma, kappa);
        self.0.iter().map(|(n, x)| (inverse * x / n * slowing(sigma, kappa, *n) - 1.0).powi(2)).sum()
    }

    fn best_kappa(&self, sigma: f64) -> (f64, f64) {
        let kappa = minimise(|kappa| self.squares(sigma, kappa), 1.0);
        (kappa, self.squares(sigma, kappa))
    }
}

fn of_best_sigma(runs: &Runs, kappa: f64) -> f64 {
    let sigma = minimise(|sigma| runs.squares(sigma, kappa), 1.0);
    runs.squares(sigma, kappa)
}

/// Where a function with one valley is least, between 0 and `most` (golden section, in x² for small values).
fn minimise(of: impl Fn(f64) -> f64, most: f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let at = |u: f64| of(u * u * most);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let (left, right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        if at(left) <= at(right) { high = right } else { low = left }
    }
    let middle = (low + high) / 2.0;
    // The valley may be at the bound.
    if at(0.0) <= at(middle) { 0.0 } else { middle * middle * most }
}

/// How far from the best value the sum of squares stays below the limit.
fn extent(best: f64, squares: &impl Fn(f64) -> f64, limit: f64) -> Coefficient {
    let edge = |mut inside: f64, mut outside: f64| {
        if squares(outside) <= limit {
            return outside;
        }
        for _ in 0..40 {
            let middle = (inside + outside) / 2.0;
            if squares(middle) <= limit { inside = middle } else { outside = middle }
        }
        inside
    };
    Coefficient { value: best, low: edge(best, 0.0), high: edge(best, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;

    fn runs(seed: u64, (sigma, kappa): (f64, f64), scatter: f64) -> Vec<(f64, f64)> {
        let mut random = Random::part(seed, 5);
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let numbers = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0];
        let all = (0..5).flat_map(|_| numbers);
        all.map(|n| (n, throughput(100.0, (sigma, kappa), n) * (scatter * normal()).exp())).collect()
    }

    #[test]
    fn without_noise_the_law_is_found() {
        let found = fit(&runs(1, (0.05, 0.002), 0.0), 0.05).unwrap();
        assert!(
            (found.sigma.value - 0.05).abs() < 1e-3 && (found.kappa.value - 0.002).abs() < 1e-4,
            "{found:?}"
        );
        assert!((found.gamma - 100.0).abs() < 0.1 && (found.peak().unwrap() - 21.8).abs() < 0.5);
    }

    #[test]
    fn fewer_than_five_numbers_of_workers_carry_no_law() {
        let up_to = |most: f64| -> Vec<(f64, f64)> {
            runs(1, (0.05, 0.002), 0.02).into_iter().filter(|run| run.0 <= most).collect()
        };
        assert_eq!([2.0, 3.0, 4.0].map(|most| fit(&up_to(most), 0.05)), [None; 3]);
        assert_eq!(fit(&up_to(6.0), 0.05).map(|law| law.points), Some(5));
    }

    #[test]
    fn the_truth_is_in_the_joint_interval_in_nine_cases_of_ten() {
        for truth in [(0.0, 0.0), (0.05, 0.0), (0.02, 0.003), (0.2, 0.01)] {
            let holds = |seed: &u64| {
                let found = fit(&runs(*seed, truth, 0.03), 0.05).unwrap();
                let inside = |of: Coefficient, truth: f64| of.low <= truth + 1e-9 && truth <= of.high + 1e-9;
                inside(found.sigma, truth.0) && inside(found.kappa, truth.1)
            };
            let held = (0..60).filter(holds).count();
            assert!(held >= 54, "{truth:?}: {held} of 60");
        }
    }
}
