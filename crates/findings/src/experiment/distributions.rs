//! Student's t, the normal and Fisher's F: tails and quantiles, from the incomplete beta function (its continued
//! fraction: Abramowitz and Stegun 26.5.8, by Lentz's method).

/// ln Γ(x) for x > 0 (Lanczos, g = 7).
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series: f64 = C[1..].iter().zip(1..).fold(C[0], |sum, (c, i)| sum + c / (x + f64::from(i)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

/// The regularised incomplete beta function I_x(a, b).
pub fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / nonzero(1.0 + step * d);
            c = nonzero(1.0 + step / c);
            fraction *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-12 {
            break;
        }
    }
    (front * fraction).clamp(0.0, 1.0)
}

/// Probability that |t| is at least this by chance, with `freedom` degrees of freedom.
pub fn student_tails(t: f64, freedom: f64) -> f64 {
    match t.is_finite() {
        true => beta(freedom / (freedom + t * t), freedom / 2.0, 0.5),
        false => 0.0,
    }
}

/// The t that is exceeded with probability `tail` (one side, below one half).
pub fn student_quantile(tail: f64, freedom: f64) -> f64 {
    bisect(|t| student_tails(t, freedom) / 2.0, tail)
}

/// Probability that F is at least this by chance.
pub fn fisher_tail(f: f64, above: f64, below: f64) -> f64 {
    match f.is_finite() {
        true => beta(below / (below + above * f.max(0.0)), below / 2.0, above / 2.0),
        false => 0.0,
    }
}

/// The F that is exceeded with this probability.
pub fn fisher_quantile(tail: f64, above: f64, below: f64) -> f64 {
    bisect(|f| fisher_tail(f, above, below), tail)
}

/// Probability that a standard normal is above `z` ≥ 0.
pub fn normal_tail(z: f64) -> f64 {
    // A t with this many degrees of freedom differs by less than 1e-7.
    student_tails(z, 1e7) / 2.0
}

/// The z that is exceeded with probability `tail` (below one half).
pub fn normal_quantile(tail: f64) -> f64 {
    bisect(normal_tail, tail)
}

/// Where a falling function of t ≥ 0 comes down to `wanted`.
fn bisect(falling: impl Fn(f64) -> f64, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while falling(high) > wanted && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if falling(middle) > wanted { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 2e-4 * wanted.abs().max(1e-3), "{found} is not {wanted}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        close(student_quantile(0.025, 1.0), 12.706);
        close(student_quantile(0.025, 4.0), 2.7764);
        close(student_quantile(0.025, 30.0), 2.0423);
        close(student_quantile(0.005, 9.0), 3.2498);
        close(normal_quantile(0.025), 1.959_96);
        close(normal_quantile(0.2), 0.841_62);
    }

    #[test]
    fn tails_are_those_of_the_tables() {
        close(student_tails(2.7764, 4.0), 0.05);
        close(fisher_tail(3.4903, 3.0, 12.0), 0.05);
        close(fisher_tail(4.9646, 1.0, 10.0), 0.05);
        assert_eq!(student_tails(f64::INFINITY, 3.0), 0.0);
        assert!((student_tails(0.0, 3.0) - 1.0).abs() < 1e-9);
    }
}
