//! The rows of a long table that have an entry in a shorter one, with that entry's index. One bit per row,
//! and a count per 64 rows. A binary search among millions of entries would miss the cache at every step.

const BITS: usize = u64::BITS as usize;

/// A set of a table's rows, with constant-time lookup of a row's index in ascending order.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    bits: Vec<u64>,
    /// How many there are before each word of `bits`.
    before: Vec<u32>,
}

impl RowSet {
    /// A set for a table of `len` rows. Rows beyond `len` are dropped.
    pub fn new(rows: impl IntoIterator<Item = u32>, len: usize) -> RowSet {
        let mut bits = vec![0u64; len.div_ceil(BITS)];
        for row in rows {
            if let Some(word) = bits.get_mut(row as usize / BITS) {
                *word |= 1 << (row as usize % BITS);
            }
        }
        let mut sum = 0;
        let counted = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        let before = bits.iter().map(counted).collect();
        RowSet { bits, before }
    }

    /// Index of `row` in the set, from 0. `None` if not contained.
    #[inline]
    pub fn number(&self, row: usize) -> Option<usize> {
        self.has(row).then(|| self.before(row))
    }

    /// Whether the set contains `row`.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        self.bits.get(row / BITS).is_some_and(|word| word & 1 << (row % BITS) != 0)
    }

    /// Number of rows in the set before `row`. Counting is slow without the processor's `popcnt` instruction,
    /// so callers that visit consecutive rows should count themselves.
    #[inline]
    pub fn before(&self, row: usize) -> usize {
        let Some(word) = self.bits.get(row / BITS) else { return 0 };
        let within = (word & ((1 << (row % BITS)) - 1)).count_ones();
        (self.before[row / BITS] + within) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_in_order() {
        let rows: Vec<u32> = (0..500).filter(|row| row % 7 < 3).collect();
        let table = RowSet::new(rows.iter().copied(), 500);
        for row in 0..600 {
            assert_eq!(table.number(row), rows.binary_search(&(row as u32)).ok(), "{row}");
            let before = rows.partition_point(|one| *one < row as u32);
            assert!(row >= 500 || table.before(row) == before, "{row}");
        }
    }
}
