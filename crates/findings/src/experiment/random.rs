//! A small seeded generator (splitmix64): a seed names an order of runs, and a resampling, for ever.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with a seed. Every seed is valid.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// One for each part of a whole that is named by a seed.
    pub fn part(seed: u64, part: u64) -> Random {
        let mut whole = Random(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        Random(whole.bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..below`, or 0 if the range is empty. Its bias is below 2⁻³² for ranges below 2³².
    pub fn below(&mut self, below: usize) -> usize {
        ((u128::from(self.bits()) * below as u128) >> 64) as usize
    }

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts a list into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_an_order() {
        let order = |seed| {
            let mut list: Vec<u32> = (0..20).collect();
            Random::new(seed).shuffle(&mut list);
            list
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn parts_differ() {
        assert_ne!(Random::part(1, 0).bits(), Random::part(1, 1).bits());
        let mean: f64 = (0..10_000).map(|part| Random::part(1, part).unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
