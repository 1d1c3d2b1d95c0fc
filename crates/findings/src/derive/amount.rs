//! Estimated bytes and objects of sampled allocations, with their error.

use holdup_events::tables::AllocationRow;

use super::split::ERRORS_95;

/// Sum over sampled allocations, each weighted by the inverse of its sampling probability (Horvitz and
/// Thompson, JASA 1952). The estimate is unbiased for any sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Number of sampled allocations.
    pub drawn: u64,
    bytes: f64,
    objects: f64,
    /// Part of `drawn` that represents an unknown number of objects.
    weights: u64,
    bytes_variance: f64,
    objects_variance: f64,
}

impl Amount {
    /// Counts one in.
    pub fn add(&mut self, row: &AllocationRow) {
        self.drawn += 1;
        if row.is_weight() {
            // A sample of a low-probability event: variance as below, for a probability near 0.
            let bytes = row.bytes as f64;
            (self.weights, self.bytes) = (self.weights + 1, self.bytes + bytes);
            self.bytes_variance += if row.is_census() { 0.0 } else { bytes * bytes };
            return;
        }
        let (probability, bytes) = (row.probability(), row.bytes as f64);
        let missed = 1.0 - probability;
        self.bytes += bytes / probability;
        self.objects += 1.0 / probability;
        self.bytes_variance += bytes * bytes * missed / (probability * probability);
        self.objects_variance += missed / (probability * probability);
    }

    /// Counts another sum in.
    pub fn merge(&mut self, other: &Amount) {
        self.drawn += other.drawn;
        self.weights += other.weights;
        self.bytes += other.bytes;
        self.objects += other.objects;
        self.bytes_variance += other.bytes_variance;
        self.objects_variance += other.objects_variance;
    }

    /// Estimated number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.round() as u64
    }

    /// Estimated number of objects. `None` if objects were not counted.
    pub fn objects(&self) -> Option<u64> {
        (self.weights == 0).then_some(self.objects.round() as u64)
    }

    /// Half the width of the 95 % interval of [`Amount::bytes`].
    pub fn bytes_error(&self) -> u64 {
        self.error(self.bytes, self.bytes_variance)
    }

    /// Half the width of the 95 % interval of [`Amount::objects`].
    pub fn objects_error(&self) -> Option<u64> {
        self.objects().map(|_| self.error(self.objects, self.objects_variance))
    }

    /// Mean bytes per object. 0 without objects, `None` if they were not counted.
    pub fn mean_bytes(&self) -> Option<u64> {
        self.objects().map(|_| (self.bytes / self.objects.max(1.0)).round() as u64)
    }

    /// Half width of an interval that covers the true value on both sides. This is the upper end of the score
    /// interval of a count, in units of one sampled allocation's weight. A sum that is low by chance has few
    /// terms, so its variance alone would be too small. With few samples the coverage is above 95 %.
    fn error(&self, sum: f64, variance: f64) -> u64 {
        let one = variance / sum.max(f64::MIN_POSITIVE);
        let half = ERRORS_95 * one / 2.0;
        (ERRORS_95 * half + ERRORS_95 * (variance + half * half).sqrt()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::tables::CENSUS;

    use super::*;
    use crate::experiment::random::Random;

    const EVERY: u64 = 524_288;

    /// Samples `objects` objects of one size like the allocation library, but object by object.
    fn drawn(random: &mut Random, objects: u64, bytes: u64) -> Amount {
        let row = AllocationRow { bytes, every_bytes: EVERY, own_bytes: 32, ..AllocationRow::default() };
        let mut amount = Amount::default();
        // Number of objects to the next sampled one: geometric, by inversion.
        let (mut at, step) = (0.0, (1.0 - row.probability()).ln());
        loop {
            at += ((1.0 - random.unit()).ln() / step).floor() + 1.0;
            if at > objects as f64 {
                return amount;
            }
            amount.add(&row);
        }
    }

    #[test]
    fn the_truth_lies_inside_in_95_of_100_cases_however_few_are_drawn() {
        let mut random = Random::new(7);
        for (objects, bytes) in
            [(30_000u64, 64u64), (60_000, 64), (400_000, 64), (200, 40_000), (40, 600_000)]
        {
            let (mut inside, mut sum) = (0, 0.0);
            for _ in 0..2_000 {
                let amount = drawn(&mut random, objects, bytes);
                let truth = objects * bytes;
                inside += u32::from(amount.bytes().abs_diff(truth) <= amount.bytes_error());
                sum += amount.bytes / truth as f64;
            }
            assert!((sum / 2_000.0 - 1.0).abs() < 0.03, "{objects} x {bytes}: biased, {sum}");
            assert!(inside >= 1_900, "{objects} x {bytes}: {inside} of 2000");
        }
    }

    #[test]
    fn what_is_always_drawn_is_exact() {
        let mut amount = Amount::default();
        amount.add(&AllocationRow {
            bytes: 1 << 30,
            every_bytes: EVERY,
            own_bytes: 32,
            ..AllocationRow::default()
        });
        assert_eq!((amount.bytes(), amount.bytes_error(), amount.objects()), (1 << 30, 0, Some(1)));
        assert_eq!(Amount::default().mean_bytes(), Some(0));
    }

    #[test]
    fn weights_have_bytes_and_an_error_but_no_objects() {
        let mut amount = Amount::default();
        (0..100).for_each(|_| amount.add(&AllocationRow { bytes: 1 << 20, ..AllocationRow::default() }));
        assert_eq!((amount.drawn, amount.bytes()), (100, 100 << 20));
        assert_eq!((amount.objects(), amount.objects_error(), amount.mean_bytes()), (None, None, None));
        // As of a hundred draws, 10 % to one sigma.
        let relative = amount.bytes_error() as f64 / amount.bytes() as f64;
        assert!((0.19..0.23).contains(&relative), "{relative}");
        let mut sum = Amount::default();
        sum.merge(&amount);
        assert_eq!(sum.objects(), None);
        let mut counted = Amount::default();
        counted.add(&AllocationRow { bytes: 1 << 20, own_bytes: CENSUS, ..AllocationRow::default() });
        assert_eq!((counted.bytes(), counted.bytes_error(), counted.objects()), (1 << 20, 0, None));
    }
}
