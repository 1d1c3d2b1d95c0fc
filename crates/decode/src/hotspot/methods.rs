//! Names, source files and lines of methods.

use super::{Layout, NAME_BYTES_MAX};
use crate::process_memory::{Memory, pointer, word};
use crate::symbols::Call;

/// The table of lines follows the method's byte code, if there is one (`ConstMethodFlags`).
const HAS_LINES: u8 = 1;
/// Longer tables are cut (bytes).
const LINES_BYTES_MAX: usize = 1 << 15;
/// Read at a time (bytes): behind it there may be nothing.
const PIECE_BYTES: usize = 256;
/// A pair of the table that does not fit into one byte.
const LONG_PAIR: u8 = 0xff;

/// Numbers as the machine packs them (`UNSIGNED5`): a byte holds six bits where others follow.
pub(super) struct Packed<'a> {
    pub(super) bytes: &'a [u8],
    /// 1 from version 20 on, where no encoded byte is 0. Otherwise 0.
    pub(super) excluded: u8,
}

impl Packed<'_> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        let last = 192 - self.excluded;
        let mut sum = 0u32;
        for place in 0..5 {
            let byte = self.byte()?.checked_sub(self.excluded)?;
            sum = sum.wrapping_add(u32::from(byte) << (6 * place));
            if byte < last {
                break;
            }
        }
        Some(sum)
    }

    fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

/// As much of memory as can be read, up to `most` bytes.
pub(super) fn readable(memory: &dyn Memory, address: u64, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let mut piece = vec![0; PIECE_BYTES.min(most - bytes.len())];
        let read = address.checked_add(bytes.len() as u64).and_then(|at| memory.read(at, &mut piece));
        if read.is_none() {
            break;
        }
        bytes.append(&mut piece);
    }
    bytes
}

impl Layout {
    /// The pointer at `from` + `offset`, if not null.
    fn follow(&self, memory: &dyn Memory, from: u64, offset: u64) -> Option<u64> {
        pointer(memory, from.checked_add(offset)?).filter(|to| *to != 0)
    }

    /// The method that a block was compiled from.
    pub(super) fn method_of(&self, memory: &dyn Memory, blob: u64) -> Option<u64> {
        self.follow(memory, blob, self.blob_method)
    }

    /// A method's name, and its file and line at an index of its byte code.
    pub(super) fn call(&self, memory: &dyn Memory, method: u64, index: Option<u32>) -> Option<Call> {
        let constant = self.follow(memory, method, self.method_constant)?;
        let pool = self.follow(memory, constant, self.constant_pool)?;
        let number = |at: u64| word(memory, at).map(u16::from_le_bytes);
        let entry =
            |number: u16| self.follow(memory, pool, self.pool_bytes.checked_add(u64::from(number) * 8)?);
        let name = self.symbol(memory, entry(number(constant.checked_add(self.constant_name_index)?)?)?)?;
        let class = self.follow(memory, self.follow(memory, pool, self.pool_holder)?, self.class_name)?;
        let class = self.symbol(memory, class)?;
        // Removes the address in the name of a hidden class, because it differs in each run.
        let class = class.split_once("+0x").map_or(class.as_str(), |(class, _)| class);
        let function = format!("{}.{name}", class.replace('/', "."));
        let file = || {
            let number = number(pool.checked_add(self.pool_source_file?)?).filter(|number| *number != 0)?;
            self.symbol(memory, entry(number)?)
        };
        let line = index.and_then(|index| self.line(memory, constant, index)).unwrap_or(0);
        Some(Call { function, file: file().filter(|_| line > 0).unwrap_or_default(), line })
    }

    /// The line of an index of byte code (`Method::line_number_from_bci`).
    fn line(&self, memory: &dyn Memory, constant: u64, index: u32) -> Option<u32> {
        let [flags] = word::<1>(memory, constant.checked_add(self.constant_flags?)?)?;
        let code_bytes =
            word(memory, constant.checked_add(self.constant_code_bytes?)?).map(u16::from_le_bytes)?;
        if flags & HAS_LINES == 0 {
            return None;
        }
        let table = constant.checked_add(self.constant_bytes?)?.checked_add(u64::from(code_bytes))?;
        let bytes = readable(memory, table, LINES_BYTES_MAX.min(usize::from(code_bytes) * 8 + PIECE_BYTES));
        line_at(Packed { bytes: &bytes, excluded: self.excluded }, index)
    }

    fn symbol(&self, memory: &dyn Memory, symbol: u64) -> Option<String> {
        let length = word(memory, symbol.checked_add(self.symbol_length)?).map(u16::from_le_bytes)?;
        let mut bytes = vec![0; usize::from(length).min(NAME_BYTES_MAX)];
        memory.read(symbol.checked_add(self.symbol_body)?, &mut bytes)?;
        // Cut in the midst of a letter, at the worst.
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Pairs of steps, of the index and the line, up to a zero.
fn line_at(mut table: Packed<'_>, index: u32) -> Option<u32> {
    let (mut at, mut line) = (0i64, 0i64);
    let mut best: Option<(i64, i64)> = None;
    while let Some(pair) = table.byte().filter(|pair| *pair != 0) {
        let (step, lines) = match pair {
            LONG_PAIR => (table.signed()?, table.signed()?),
            short => (i32::from(short >> 3), i32::from(short & 7)),
        };
        (at, line) = (at + i64::from(step), line + i64::from(lines));
        if at <= i64::from(index) && best.is_none_or(|(before, _)| before <= at) {
            best = Some((at, line));
        }
    }
    best.and_then(|(_, line)| u32::try_from(line).ok()).filter(|line| *line > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_to_five_bytes() {
        let read = |bytes: &[u8], excluded| Packed { bytes, excluded }.number();
        assert_eq!([read(&[0], 0), read(&[191], 0), read(&[192, 0], 0)], [Some(0), Some(191), Some(192)]);
        assert_eq!([read(&[1], 1), read(&[191], 1), read(&[192, 1], 1)], [Some(0), Some(190), Some(191)]);
        assert_eq!(read(&[255, 255, 255, 255, 255], 0), Some(255u32.wrapping_mul(0x0104_1041)));
        assert_eq!([read(&[], 0), read(&[200], 0), read(&[0], 1)], [None; 3]);
        let signed = |bytes: &[u8]| Packed { bytes, excluded: 0 }.signed();
        assert_eq!(
            [signed(&[0]), signed(&[1]), signed(&[2]), signed(&[3])],
            [Some(0), Some(-1), Some(1), Some(-2)]
        );
    }

    #[test]
    fn the_line_is_that_of_the_last_index_before() {
        // 0: 10, 4: 12, 5: 9 (a step back takes the long way).
        let table = [LONG_PAIR, 0, 20, 4 << 3 | 2, LONG_PAIR, 2, 5, 0];
        let line = |index| line_at(Packed { bytes: &table, excluded: 0 }, index);
        assert_eq!([0, 3, 4, 5, 900].map(line), [10, 10, 12, 9, 9].map(Some));
        assert_eq!(line_at(Packed { bytes: &[0], excluded: 0 }, 3), None);
        assert_eq!(line_at(Packed { bytes: &[LONG_PAIR], excluded: 0 }, 3), None);
    }
}
