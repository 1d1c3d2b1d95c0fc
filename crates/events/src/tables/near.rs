//! Searching sorted rows from a place that is likely near.
//!
//! Facts are derived by walks through time that ask one table after another for the moment at which they are. From the
//! last answer's place the next one is a step or two away; a search from the middle of ten million rows misses the
//! cache twenty times.

/// The same as `rows.partition_point(before)`; looks from `near` in doubling steps, so that it costs the logarithm of
/// the distance. Any `near` is allowed.
#[inline]
pub fn partition_point_near<T>(rows: &[T], near: usize, before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(rows.len());
    let (mut low, mut high) = (near, near);
    let mut step = 1;
    if rows.get(near).is_some_and(&before) {
        // All below `low` are before; `high` is not, or the end.
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
