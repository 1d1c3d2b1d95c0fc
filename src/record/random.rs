//! Random moments: where windows are placed.

/// A generator (Marsaglia, Xorshift RNGs, 2003).
pub struct Random(u64);

impl Random {
    /// Begins with `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number in 0..1.
    pub fn draw(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
