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
        let word = *self.bits.get(row / BITS)?;
        let bit = 1u64 << (row % BITS);
        let within = (word & (bit - 1)).count_ones();
        (word & bit != 0).then(|| (self.before[row / BITS] + within) as usize)
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
        }
    }
}
