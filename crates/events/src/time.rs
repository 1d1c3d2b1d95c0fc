//! Units of time. All values are nanoseconds, and the type distinguishes a point from a length.

use std::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds of `CLOCK_MONOTONIC` of the recorded machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Timestamp(pub u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Duration(pub u64);

impl Timestamp {
    /// The length from `earlier` to `self`, zero if `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// Zero nanoseconds.
    pub const ZERO: Duration = Duration(0);

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The length minus `other`, zero if `other` is longer.
    #[inline]
    pub fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    #[inline]
    fn add(self, length: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(length.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    #[inline]
    fn sub(self, length: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(length.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    #[inline]
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    #[inline]
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(lengths: I) -> Duration {
        lengths.fold(Duration::ZERO, Add::add)
    }
}
