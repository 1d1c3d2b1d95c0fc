//! What Go's `.debug_frame` leaves out: where stacks begin, and where they change. Both are flags in the line
//! table (`.gopclntab`), which every Go binary carries.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadRef};

/// The line table's magic number since Go 1.20; older ones are laid out otherwise.
const MAGIC: u32 = 0xffff_fff1;
/// `abi.FuncFlagTopFrame` (internal/abi/symtab.go).
const TOP_FRAME: u8 = 1;
/// `abi.FuncFlagSPWrite`: it changes to another stack, and only the frame pointer tells from which.
const SP_WRITE: u8 = 2;
/// Where `runtime._func` has its flags (runtime/runtime2.go).
const FLAG_AT: usize = 41;
/// No binary has more functions.
const FUNCTIONS_MAX: u64 = 1 << 24;

/// Functions as ranges of linked addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoStacks {
    /// At the top of a stack: nobody called them.
    pub tops: Vec<(u64, u64)>,
    /// They go from one stack to another.
    pub switches: Vec<(u64, u64)>,
}

/// What the line table says; `None` if the file is no Go binary.
pub fn stacks<'a, R: ReadRef<'a>>(file: &ElfFile64<'a, Endianness, R>) -> Option<GoStacks> {
    let section = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| file.section_by_name(name));
    let table = section.and_then(|section| section.data().ok());
    let text = file.section_by_name(".text").map(|section| section.address());
    table.zip(text).and_then(|(table, text)| read(table, text))
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads the header (`runtime.pcHeader`), then each function's entry. `text` is where addresses count from
/// if the header does not say (since Go 1.26).
fn read(table: &[u8], text: u64) -> Option<GoStacks> {
    if number(table, 0, 4)? != u64::from(MAGIC) || number(table, 7, 1)? != 8 {
        return None;
    }
    let count = number(table, 8, 8)?.min(FUNCTIONS_MAX);
    let start = match number(table, 24, 8)? {
        0 => text,
        start => start,
    };
    let functions = table.get(usize::try_from(number(table, 64, 8)?).ok()?..)?;
    let mut found = GoStacks::default();
    for index in 0..usize::try_from(count).ok()? {
        // Entries are (offset of the code, offset of the description); one more code offset ends the last.
        let entry = number(functions, index * 8, 4)?;
        let described = usize::try_from(number(functions, index * 8 + 4, 4)?).ok()?;
        let end = number(functions, index * 8 + 8, 4)?;
        let flag = number(functions, described.checked_add(FLAG_AT)?, 1)?;
        let range = (start.wrapping_add(entry), start.wrapping_add(end));
        if flag as u8 & TOP_FRAME != 0 && end > entry {
            found.tops.push(range);
        } else if flag as u8 & SP_WRITE != 0 && end > entry {
            found.switches.push(range);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_table(flags: &[u8]) -> Vec<u8> {
        let mut table = vec![0u8; 72];
        table[..4].copy_from_slice(&MAGIC.to_le_bytes());
        table[7] = 8;
        table[8..16].copy_from_slice(&(flags.len() as u64).to_le_bytes());
        table[64..72].copy_from_slice(&72u64.to_le_bytes());
        let described = flags.len() * 8 + 4;
        for index in 0..flags.len() {
            table.extend((index as u32 * 0x40).to_le_bytes());
            table.extend((described as u32 + index as u32 * 48).to_le_bytes());
        }
        table.extend((flags.len() as u32 * 0x40).to_le_bytes());
        for flag in flags {
            let mut description = [0u8; 48];
            description[FLAG_AT] = *flag;
            table.extend(description);
        }
        table
    }

    #[test]
    fn flagged_functions_are_tops() {
        let table = line_table(&[0, 1, 4, 5, 2]);
        let stacks = read(&table, 0x1000).unwrap();
        assert_eq!(stacks.tops, [(0x1040, 0x1080), (0x10c0, 0x1100)]);
        assert_eq!(stacks.switches, [(0x1100, 0x1140)]);
    }

    #[test]
    fn a_cut_or_foreign_table_has_none() {
        let table = line_table(&[1, 1]);
        for length in 0..table.len() - 6 {
            assert_eq!(read(&table[..length], 0), None, "{length}");
        }
        assert_eq!(read(&[0; 200], 0), None);
    }
}
