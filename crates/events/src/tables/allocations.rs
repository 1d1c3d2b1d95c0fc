//! Sampled allocations of a program, in a recording with `--allocs`.

use crate::{StackId, ThreadId, Timestamp};

/// Bytes that `--allocs` adds to the size of each allocation for sampling, so that objects of a few bytes are
/// seen too. As in `preload/allocs.c`.
pub const ALLOCATION_OWN_BYTES: u64 = 32;

/// Value of `own_bytes` for a census weight: exact live data counted by a garbage collector, not an
/// allocation.
pub const CENSUS: u64 = 1;

/// The file name of the library that draws.
pub const ALLOCATION_LIBRARY: &str = "libholdup_allocs.so";

/// A sampled allocation. Its sampling probability is 1 - exp(-(bytes + own_bytes) / every_bytes). If
/// `every_bytes` is 0, the row is a [weight](AllocationRow::is_weight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationRow {
    /// The allocating thread.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Where the block lies.
    pub address: u64,
    /// Requested size in bytes. For a weight, the number of bytes that it represents.
    pub bytes: u64,
    /// Mean sampling interval in bytes, 0 for a weight.
    pub every_bytes: u64,
    /// Bytes added to the size of each allocation for sampling.
    pub own_bytes: u64,
    /// With which stack.
    pub stack: StackId,
    /// When the block was freed. `None` if it was not freed before the end of the recording, process or
    /// program.
    pub freed: Option<Timestamp>,
    /// The freeing thread, if known.
    pub freed_by: Option<ThreadId>,
}

impl AllocationRow {
    /// Whether the row represents a number of bytes of its thread, from a runtime that reports neither a
    /// number of objects nor frees.
    pub fn is_weight(&self) -> bool {
        self.every_bytes == 0
    }

    /// Whether a garbage collector counted it as live data.
    pub fn is_census(&self) -> bool {
        self.is_weight() && self.own_bytes == CENSUS
    }

    /// Sampling probability, 1 if a damaged recording has no usable value.
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
