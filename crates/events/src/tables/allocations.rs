//! Allocations that were drawn of all that a program makes, where a recording was asked for them.

use crate::{StackId, ThreadId, Timestamp};

/// With `--allocs`, each allocation counts for so many bytes more than asked for when bytes are drawn, so that objects of a few
/// bytes are seen, too; as in `preload/allocs.c`.
pub const ALLOCATION_OWN_BYTES: u64 = 32;

/// In place of `own_bytes` of a weight: it is no allocation, but what lived when a collector counted, exactly.
pub const CENSUS: u64 = 1;

/// The file name of the library that draws.
pub const ALLOCATION_LIBRARY: &str = "libholdup_allocs.so";

/// One of them. It was drawn with probability 1 - exp(-(bytes + own_bytes) / every_bytes); or, if `every_bytes` is 0, it is a
/// [weight](AllocationRow::is_weight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationRow {
    /// Who allocated.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Where the block lies.
    pub address: u64,
    /// How many bytes were asked for; of a weight, for how many it stands.
    pub bytes: u64,
    /// One byte in so many is drawn; 0 of a weight.
    pub every_bytes: u64,
    /// So many bytes are added to each allocation when bytes are drawn.
    pub own_bytes: u64,
    /// With which stack.
    pub stack: StackId,
    /// When it was freed; `None` if it was not, to the end of the recording, of the process or of its program.
    pub freed: Option<Timestamp>,
    /// Who freed it, if that is known.
    pub freed_by: Option<ThreadId>,
}

impl AllocationRow {
    /// It stands for so many bytes of its thread, as a runtime tells that keeps no count of objects and no word of frees.
    pub fn is_weight(&self) -> bool {
        self.every_bytes == 0
    }

    /// It was counted by a collector as what lives.
    pub fn is_census(&self) -> bool {
        self.is_weight() && self.own_bytes == CENSUS
    }

    /// With which probability it was drawn; 1 where a damaged recording says nothing of use.
    pub fn probability(&self) -> f64 {
        let part = (self.bytes as f64 + self.own_bytes as f64) / self.every_bytes.max(1) as f64;
        let probability = -(-part).exp_m1();
        if probability > 0.0 { probability } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ones_are_drawn_for_sure_and_small_ones_by_their_bytes() {
        let of = |bytes, every_bytes| {
            AllocationRow { bytes, every_bytes, own_bytes: 32, ..Default::default() }.probability()
        };
        assert!((of(64, 524_288) * 524_288.0 / 96.0 - 1.0).abs() < 1e-3);
        assert!((of(524_256, 524_288) - (1.0 - (-1.0f64).exp())).abs() < 1e-12);
        assert!(of(0, 524_288) > 0.0, "an object of no bytes is seen, too");
        assert_eq!(of(1 << 40, 524_288), 1.0);
        assert!(of(0, 0) > 0.999, "a damaged row");
    }
}
