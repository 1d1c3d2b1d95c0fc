//! Which intervals of two lists overlap: a sweep, not each with each.

use std::collections::HashMap;

/// A row's interval. It is empty if it does not end behind its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Only intervals of one key are compared.
    pub key: u32,
    /// The first moment.
    pub start: i64,
    /// The first moment behind it.
    pub end: i64,
}

/// Rows of the two lists that last at the moment.
#[derive(Default)]
struct Lasting {
    a: Vec<u32>,
    b: Vec<u32>,
}

/// The pairs of rows that overlap, in the order of the rows of `a`, then of `b`. `grow` is asked for the bytes that
/// they take.
///
/// # Errors
/// That of `grow`.
pub fn pairs<E>(
    a: &[Interval],
    b: &[Interval],
    grow: impl Fn(usize) -> Result<(), E>,
) -> Result<Vec<(u32, u32)>, E> {
    let mut starts: Vec<(i64, bool, u32)> = Vec::with_capacity(a.len() + b.len());
    for (list, is_b) in [(a, false), (b, true)] {
        let rows = list.iter().enumerate().filter(|(_, one)| one.end > one.start);
        starts.extend(rows.map(|(row, one)| (one.start, is_b, row as u32)));
    }
    grow(starts.len() * size_of::<(i64, bool, u32)>())?;
    starts.sort_unstable();
    let mut lasting: HashMap<u32, Lasting> = HashMap::new();
    let mut found = Vec::new();
    let mut asked = 0;
    for (start, is_b, row) in starts {
        let key = if is_b { b[row as usize].key } else { a[row as usize].key };
        let now = lasting.entry(key).or_default();
        // Each pair is found when its later interval starts. Intervals that have ended by then are dropped.
        if is_b {
            now.a.retain(|other| a[*other as usize].end > start);
            found.extend(now.a.iter().map(|other| (*other, row)));
            now.b.push(row);
        } else {
            now.b.retain(|other| b[*other as usize].end > start);
            found.extend(now.b.iter().map(|other| (row, *other)));
            now.a.push(row);
        }
        if found.capacity() > asked {
            grow((found.capacity() - asked) * size_of::<(u32, u32)>())?;
            asked = found.capacity();
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(rows: &[(u32, i64, i64)]) -> Vec<Interval> {
        rows.iter().map(|(key, start, end)| Interval { key: *key, start: *start, end: *end }).collect()
    }

    fn swept(a: &[Interval], b: &[Interval]) -> Vec<(u32, u32)> {
        pairs(a, b, |_| Ok::<(), ()>(())).unwrap()
    }

    #[test]
    fn those_that_touch_do_not_overlap_and_empty_ones_neither() {
        let a = intervals(&[(0, 0, 10), (0, 20, 20)]);
        let b = intervals(&[(0, 10, 20), (0, 9, 10), (0, 5, 5), (1, 0, 10)]);
        assert_eq!(swept(&a, &b), [(0, 1)]);
    }

    #[test]
    fn it_finds_what_comparing_each_with_each_finds() {
        let mut seed = 1u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut list = |count: u64| -> Vec<Interval> {
                let mut one = |_| {
                    let start = random(50) as i64;
                    Interval { key: random(3) as u32, start, end: start + random(20) as i64 }
                };
                (0..count).map(&mut one).collect()
            };
            let (a, b) = (list(12), list(15));
            let mut wanted = Vec::new();
            for (row_a, one) in a.iter().enumerate() {
                for (row_b, other) in b.iter().enumerate() {
                    let longest = one.end.min(other.end) - one.start.max(other.start);
                    let real = one.end > one.start && other.end > other.start;
                    if one.key == other.key && longest > 0 && real {
                        wanted.push((row_a as u32, row_b as u32));
                    }
                }
            }
            assert_eq!(swept(&a, &b), wanted);
        }
    }

    #[test]
    fn one_long_interval_does_not_make_it_quadratic() {
        let mut a = intervals(&[(0, 0, 1_000_000)]);
        a.extend(intervals(&(0..300).map(|n| (0, 10 * n, 10 * n + 5)).collect::<Vec<_>>()));
        let b = intervals(&(0..300).map(|n| (0, 10 * n + 5, 10 * n + 10)).collect::<Vec<_>>());
        assert_eq!(swept(&a, &b).len(), 300);
    }

    #[test]
    fn a_refused_memory_request_ends_the_sweep() {
        let all = intervals(&(0..100).map(|_| (0, 0, 10)).collect::<Vec<_>>());
        let refused = pairs(&all, &all, |bytes| if bytes > 10_000 { Err(()) } else { Ok(()) });
        assert_eq!(refused, Err(()));
    }
}
