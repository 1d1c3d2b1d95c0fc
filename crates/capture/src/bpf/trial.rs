//! Cost of an operation, from repeated measurements.

/// The cost of one (ns).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Trial {
    /// The median: interference by the host or other devices only makes measurements longer, or is rare.
    pub median_ns: f64,
    /// Half the width of the 95 % interval of that.
    pub error_ns: f64,
}

impl Trial {
    /// From the times of the measurements (ns). The interval has the ranks between which the median lies with
    /// 95 % probability (binomial, by its normal approximation; Conover, Practical Nonparametric Statistics,
    /// §3.2). `None` without measurements.
    pub fn from_times(tries_ns: &mut [f64]) -> Option<Trial> {
        tries_ns.sort_unstable_by(f64::total_cmp);
        let last = tries_ns.len().checked_sub(1)?;
        let at = |rank: f64| tries_ns.get((rank.max(0.0) as usize).min(last)).copied().unwrap_or_default();
        let (middle, off) = (tries_ns.len() as f64 / 2.0, 0.98 * (tries_ns.len() as f64).sqrt());
        Some(Trial { median_ns: at(middle), error_ns: (at(middle + off) - at(middle - off)) / 2.0 })
    }

    /// How much dearer this is than `other`, never less than nothing.
    pub fn above(self, other: Trial) -> Trial {
        Trial {
            median_ns: (self.median_ns - other.median_ns).max(0.0),
            error_ns: self.error_ns.hypot(other.error_ns),
        }
    }

    /// Cost of `count` operations. Their errors add up, because they share one measurement.
    pub fn times(self, count: u64) -> Trial {
        Trial { median_ns: self.median_ns * count as f64, error_ns: self.error_ns * count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_long_tries_do_not_count() {
        let mut tries = vec![2_000.0; 90];
        tries.extend([1e6, 4e6]);
        assert_eq!(Trial::from_times(&mut tries), Some(Trial { median_ns: 2_000.0, error_ns: 0.0 }));
        assert_eq!(Trial::from_times(&mut []), None);
        // Scattered evenly from 1 to 3 µs: ranks 40 to 60 of a hundred.
        let mut tries: Vec<f64> = (0..100).map(|nth| f64::from(1_000 + nth * 20)).collect();
        let found = Trial::from_times(&mut tries).unwrap();
        assert!(
            (found.median_ns - 2_000.0).abs() < 1.0 && (150.0..250.0).contains(&found.error_ns),
            "{found:?}"
        );
    }

    #[test]
    fn differences_have_the_errors_of_both() {
        let trial = |median_ns, error_ns| Trial { median_ns, error_ns };
        assert_eq!(trial(300.0, 3.0).above(trial(200.0, 4.0)), trial(100.0, 5.0));
        assert_eq!(trial(200.0, 3.0).above(trial(300.0, 4.0)).median_ns, 0.0);
        assert_eq!(trial(100.0, 5.0).times(1_000), trial(100_000.0, 5_000.0));
    }
}
