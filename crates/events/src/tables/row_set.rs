//! Which rows of a long table have an entry in a shorter one, and which entry that is: a bit a row, and a count each 64.
//! A search among millions of entries would miss the cache at every step.

const BITS: usize = u64::BITS as usize;

/// Rows of a table; a row's number among them, in ascending order, is found at once.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    bits: Vec<u64>,
    /// How many there are before each word of `bits`.
    before: Vec<u32>,
}

impl RowSet {
    /// Of a table of `len` rows; what is beyond it is left out.
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

    /// Which one `row` is, from 0 on; `None` if it is not among them.
    #[inline]
    pub fn number(&self, row: usize) -> Option<usize> {
        self.has(row).then(|| self.before(row))
    }

    /// It is among them.
    #[inline]
    pub fn has(&self, row: usize) -> bool {
        self.bits.get(row / BITS).is_some_and(|word| word & 1 << (row % BITS) != 0)
    }

    /// How many of them come before `row`. To count is dear where the processor's own instruction is not used: who asks
    /// for one row after the other counts along.
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
