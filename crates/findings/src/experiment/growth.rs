//! Growth of a time with a number: t = a·n^b, optionally plus a constant, and the nearest well-known curve.
//!
//! Least squares in relative errors. The interval of b contains all values that are compatible with the runs
//! (by the F of the sum of squares). So a curve that is no power has a wide interval.

use super::distributions::fisher_quantile;

/// A law is fitted only if there are this many more numbers than it has coefficients: with fewer it passes near any points.
pub const SPARE_POINTS: usize = 2;
/// Minimum number of different n for a power, which has two coefficients.
pub const POINTS_MIN: usize = 2 + SPARE_POINTS;
/// Greatest exponent that is looked for.
const EXPONENT_MAX: f64 = 4.0;
/// Step of the search.
const STEP: f64 = 0.005;

/// A fitted power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// b.
    pub exponent: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// a (ns).
    pub factor: f64,
    /// The constant part, independent of n (ns).
    pub constant: f64,
    /// The curve that fits best.
    pub curve: Curve,
    /// Ratio of the likelihoods of n·log n and n² for these runs, if the runs can distinguish the two.
    pub nlogn_over_square: f64,
}

/// Familiar curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// The same whatever n.
    Constant,
    /// n
    Linear,
    /// n·log n
    LogLinear,
    /// n·√n
    ThreeHalves,
    /// n²
    Square,
    /// n³
    Cube,
}

impl Curve {
    const ALL: [Curve; 6] =
        [Curve::Constant, Curve::Linear, Curve::LogLinear, Curve::ThreeHalves, Curve::Square, Curve::Cube];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Curve::Constant => "constant",
            Curve::Linear => "n",
            Curve::LogLinear => "n log n",
            Curve::ThreeHalves => "n^1.5",
            Curve::Square => "n^2",
            Curve::Cube => "n^3",
        }
    }

    fn at(self, n: f64) -> f64 {
        match self {
            Curve::Constant => 1.0,
            Curve::Linear => n,
            Curve::LogLinear => n * n.max(1.0).ln_1p(),
            Curve::ThreeHalves => n.powf(1.5),
            Curve::Square => n * n,
            Curve::Cube => n * n * n,
        }
    }
}

/// One run: the number, the time (ns), and how much it counts (1 where nothing is known).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// n.
    pub n: f64,
    /// t (ns).
    pub ns: f64,
    /// Weight of the point.
    pub weight: f64,
}

/// Fits the growth. `None` if there are too few numbers. The fit has a constant only if `constant` is set.
pub fn fit(points: &[Point], constant: bool, risk: f64) -> Option<Growth> {
    let points: Vec<Point> = points.iter().copied().filter(|point| point.n > 0.0 && point.ns > 0.0).collect();
    let mut numbers: Vec<f64> = points.iter().map(|point| point.n).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    // A constant is one more coefficient.
    let constant = constant && numbers.len() > POINTS_MIN;
    let freedom = points.len() as f64 - if constant { 3.0 } else { 2.0 };
    if numbers.len() < POINTS_MIN || freedom < 1.0 {
        return None;
    }
    let scale = numbers[numbers.len() - 1];
    let power = |b: f64| solve(&points, constant, |n| (n / scale).powf(b));
    let steps = (EXPONENT_MAX / STEP) as usize;
    let squares: Vec<f64> = (0..=steps).map(|step| power(step as f64 * STEP).squares).collect();
    let best = (0..=steps).min_by(|a, b| squares[*a].total_cmp(&squares[*b]))?;
    let least = squares[best].max(1e-9);
    let limit = least * (1.0 + fisher_quantile(risk, 1.0, freedom) / freedom);
    let inside = |step: &usize| squares[*step] <= limit;
    let (low, high) = ((0..=best).find(inside)?, (best..=steps).rev().find(inside)?);
    let exponent = best as f64 * STEP;
    let found = power(exponent);
    let of_curve =
        |curve: Curve| solve(&points, constant, |n| curve.at(n) / curve.at(scale)).squares.max(1e-9);
    let curve = Curve::ALL.into_iter().min_by(|a, b| of_curve(*a).total_cmp(&of_curve(*b)))?;
    let ratio = (of_curve(Curve::Square) / of_curve(Curve::LogLinear)).powf(points.len() as f64 / 2.0);
    Some(Growth {
        exponent,
        low: low as f64 * STEP,
        high: high as f64 * STEP,
        factor: found.factor / scale.powf(exponent),
        constant: found.constant,
        curve,
        nlogn_over_square: ratio,
    })
}

impl Growth {
    /// The time at n (ns).
    pub fn at(&self, n: f64) -> f64 {
        self.constant + self.factor * n.powf(self.exponent)
    }
}

struct Solution {
    constant: f64,
    factor: f64,
    squares: f64,
}

/// The non-negative constant and factor that fit best.
fn solve(points: &[Point], constant: bool, of: impl Fn(f64) -> f64) -> Solution {
    let (mut aa, mut ab, mut bb, mut a, mut b, mut all) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let (one, power, weight) = (1.0 / point.ns, of(point.n) / point.ns, point.weight);
        aa += weight * one * one;
        ab += weight * one * power;
        bb += weight * power * power;
        a += weight * one;
        b += weight * power;
        all += weight;
    }
    let determinant = aa * bb - ab * ab;
    let free = ((bb * a - ab * b) / determinant, (aa * b - ab * a) / determinant);
    let is_good = constant && determinant > 1e-12 * aa * bb && free.0 >= 0.0 && free.1 >= 0.0;
    let (constant, factor) = if is_good { free } else { (0.0, b / bb) };
    let squares = all - constant * a - factor * b;
    Solution { constant, factor, squares: squares.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;

    fn grown(seed: u64, of: impl Fn(f64) -> f64) -> Vec<Point> {
        let mut random = Random::part(seed, 9);
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let numbers = (0..5).flat_map(|_| [1e3, 3e3, 1e4, 3e4, 1e5]);
        numbers.map(|n| Point { n, ns: of(n) * (0.05 * normal()).exp(), weight: 1.0 }).collect()
    }

    #[test]
    fn exponents_are_recovered_and_covered() {
        for (exponent, curve) in [(1.0, Curve::Linear), (1.5, Curve::ThreeHalves), (2.0, Curve::Square)] {
            let (mut near, mut covered) = (0, 0);
            for seed in 0..100 {
                let found = fit(&grown(seed, |n| 40.0 * n.powf(exponent)), true, 0.05).unwrap();
                near += u32::from((found.exponent - exponent).abs() <= 0.15 && found.curve == curve);
                covered += u32::from(found.low <= exponent && exponent <= found.high);
            }
            assert!(near >= 97 && covered >= 88, "{exponent}: {near} near, {covered} covered");
        }
    }

    #[test]
    fn a_constant_does_not_bend_the_exponent() {
        let found = fit(&grown(3, |n| 5e8 + 0.5 * n * n), true, 0.05).unwrap();
        assert!((found.exponent - 2.0).abs() < 0.15 && (found.constant / 5e8 - 1.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn n_log_n_growth_is_distinguished_from_quadratic() {
        let found = fit(&grown(4, |n| 20.0 * n * n.ln()), true, 0.05).unwrap();
        assert!(found.nlogn_over_square > 1e6 && found.high < 1.5, "{found:?}");
        let found = fit(&grown(4, |n| 0.01 * n * n), true, 0.05).unwrap();
        assert!(found.nlogn_over_square < 1e-6, "{found:?}");
        assert_eq!(fit(&grown(1, |n| n)[..2], true, 0.05), None);
    }

    #[test]
    fn a_law_takes_two_numbers_more_than_it_has_coefficients() {
        let numbers = |count: usize| {
            let points = (1..=count).flat_map(|n| [n as f64 * 1e3; 3]);
            points.map(|n| Point { n, ns: 5e6 + 0.5 * n * n, weight: 1.0 }).collect::<Vec<Point>>()
        };
        assert_eq!(fit(&numbers(3), true, 0.05), None);
        let four = fit(&numbers(4), true, 0.05).unwrap();
        assert_eq!(four.constant, 0.0, "a constant would be a third coefficient");
        assert!(fit(&numbers(5), true, 0.05).unwrap().constant > 0.0);
    }
}
