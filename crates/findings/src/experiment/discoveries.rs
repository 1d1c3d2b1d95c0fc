//! Corrections for many simultaneous tests.

/// Benjamini and Hochberg: for each p, whether it is among the discoveries of which at most a share `rate` is wrong.
pub fn discoveries(p: &[f64], rate: f64) -> Vec<bool> {
    let mut sorted: Vec<f64> = p.iter().copied().filter(|p| p.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let rows = sorted.len() as f64;
    let is_one = |(index, p): &(usize, &f64)| **p <= rate * (index + 1) as f64 / rows;
    let limit = sorted.iter().enumerate().rfind(is_one).map_or(-1.0, |(_, p)| *p);
    p.iter().map(|p| *p <= limit).collect()
}

/// Holm: each p as if it were the only one, corrected for all of them (the chance that any of them is wrong).
pub fn corrected(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut greatest: f64 = 0.0;
    for (rank, index) in order.iter().enumerate() {
        greatest = greatest.max(p[*index] * (p.len() - rank) as f64).min(1.0);
        corrected[*index] = greatest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::random::Random;

    #[test]
    fn textbook_rows() {
        // Benjamini and Hochberg (1995), their example of 15 at 5 %: four discoveries.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        assert_eq!(discoveries(&p, 0.05).iter().filter(|found| **found).count(), 4);
        let corrected = corrected(&[0.01, 0.04, 0.03]);
        let rounded: Vec<f64> = corrected.iter().map(|p| (p * 1000.0).round() / 1000.0).collect();
        assert_eq!(rounded, [0.03, 0.06, 0.06]);
        assert!(discoveries(&[], 0.05).is_empty() && super::corrected(&[]).is_empty());
    }

    #[test]
    fn twenty_null_effects_give_few_false_discoveries() {
        let mut claims = [0, 0];
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let p: Vec<f64> = (0..20).map(|_| random.unit()).collect();
            claims[0] += u32::from(discoveries(&p, 0.05).contains(&true));
            claims[1] += u32::from(corrected(&p).iter().any(|p| *p <= 0.05));
        }
        assert!(claims.iter().all(|claims| *claims <= 125), "{claims:?} of 2000");
    }
}
