//! Search in sorted rows from a nearby start.
//!
//! Facts are derived by walks through time that look up one table after another at the current moment. The
//! next result is a step or two from the last one. A binary search over ten million rows would miss the cache
//! twenty times.

/// The same as `rows.partition_point(before)`, for any `near`. Searches from `near` in doubling steps, so the
/// cost is the logarithm of the distance.
#[inline]
pub fn partition_point_near<T>(rows: &[T], near: usize, before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(rows.len());
    let (mut low, mut high) = (near, near);
    let mut step = 1;
    if rows.get(near).is_some_and(&before) {
        // `before` holds for all rows below `low`. It does not hold at `high`, or `high` is the end.
        low = near + 1;
        loop {
            high = (low + step - 1).min(rows.len());
            match rows.get(high) {
                Some(row) if before(row) => low = high + 1,
                _ => break,
            }
            step *= 2;
        }
    } else {
        while high > 0 {
            low = high.saturating_sub(step);
            if rows.get(low).is_some_and(&before) {
                low += 1;
                break;
            }
            high = low;
            step *= 2;
        }
    }
    low + rows.get(low..high).map_or(0, |between| between.partition_point(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_finds_the_same_place() {
        let rows: Vec<u32> = (0..40).map(|row| row / 3 * 2).collect();
        for length in [0, 1, 2, 7, 40] {
            for at in 0..30 {
                let expected = rows[..length].partition_point(|row| *row <= at);
                for near in 0..=length + 2 {
                    let found = partition_point_near(&rows[..length], near, |row| *row <= at);
                    assert_eq!(found, expected, "{at} from {near} of {length}");
                }
            }
        }
    }
}
