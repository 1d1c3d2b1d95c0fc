//! What Go's `.debug_frame` leaves out: where stacks begin, and where they change. Both are flags in the line
//! table (`.gopclntab`), which every Go binary carries.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadRef};

use crate::symbols::go::MODULE_TEXT;

/// The line table's magic number since Go 1.20. Older tables have another layout.
const MAGIC: u32 = 0xffff_fff1;
/// `abi.FuncFlagTopFrame` (internal/abi/symtab.go).
const TOP_FRAME: u8 = 1;
/// `abi.FuncFlagSPWrite`: the function switches to another stack. The old one is known only from the frame
/// pointer.
const SP_WRITE: u8 = 2;
/// Where `runtime._func` has its name, as an offset into the names.
const NAME_AT: usize = 4;
/// Where `runtime._func` has its flags (runtime/runtime2.go).
const FLAG_AT: usize = 41;
/// Functions that run the runtime's own work or C code on the thread's stack, and then return.
/// runtime/asm_amd64.s: "The original frame pointer is stored in BP, which is useful for stack unwinding".
/// Before Go 1.21, bp holds the frame of their caller, which is then skipped. `mcall` does not return,
/// because the function that it calls continues with any next goroutine.
const CALLERS: [&[u8]; 2] = [b"runtime.systemstack", b"runtime.asmcgocall"];
/// `push bp; mov bp, sp`.
const PROLOGUE_BYTES: u64 = 4;
/// No binary has more functions.
const FUNCTIONS_MAX: u64 = 1 << 24;

/// Functions as ranges of linked addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoStacks {
    /// Functions at the root of a stack, without a caller.
    pub tops: Vec<(u64, u64)>,
    /// Functions that switch from one stack to another.
    pub switches: Vec<(u64, u64)>,
    /// The part of `switches` that call on the other stack, with bp at their own frame during the call.
    /// Ranges start after the prologue.
    pub framed: Vec<(u64, u64)>,
}

/// Evaluates the line table. `None` if the file is not a Go binary.
pub fn stacks<'a, R: ReadRef<'a>>(file: &ElfFile64<'a, Endianness, R>) -> Option<GoStacks> {
    let section = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| file.section_by_name(name));
    let table = section.and_then(|section| section.data().ok());
    let module = file.section_by_name(".go.module").and_then(|section| section.data().ok());
    let text = module.and_then(|module| number(module, MODULE_TEXT, 8)).filter(|text| *text != 0);
    // In a program with C code, the linker's `.text` begins before Go's.
    let text = text.or_else(|| file.section_by_name(".text").map(|section| section.address()));
    table.zip(text).and_then(|(table, text)| read(table, text))
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Reads the header (`runtime.pcHeader`), then each function's entry. Addresses are relative to `text` if the
/// header has no base (since Go 1.26).
fn read(table: &[u8], text: u64) -> Option<GoStacks> {
    if number(table, 0, 4)? != u64::from(MAGIC) || number(table, 7, 1)? != 8 {
        return None;
    }
    let count = number(table, 8, 8)?.min(FUNCTIONS_MAX);
    let start = match number(table, 24, 8)? {
        0 => text,
        start => start,
    };
    let names = table.get(usize::try_from(number(table, 32, 8)?).ok()?..)?;
    let functions = table.get(usize::try_from(number(table, 64, 8)?).ok()?..)?;
    let mut found = GoStacks::default();
    for index in 0..usize::try_from(count).ok()? {
        // Entries are (offset of the code, offset of the description). One more code offset ends the last
        // function.
        let entry = number(functions, index * 8, 4)?;
        let described = usize::try_from(number(functions, index * 8 + 4, 4)?).ok()?;
        let end = number(functions, index * 8 + 8, 4)?;
        let flag = number(functions, described.checked_add(FLAG_AT)?, 1)?;
        let range = (start.wrapping_add(entry), start.wrapping_add(end));
        if flag as u8 & TOP_FRAME != 0 && end > entry {
            found.tops.push(range);
        } else if flag as u8 & SP_WRITE != 0 && end > entry {
            let name = usize::try_from(number(functions, described + NAME_AT, 4)?).ok()?;
            let keeps_frame =
                names.get(name..).is_some_and(|name| CALLERS.iter().any(|of| is_named(name, of)));
            if keeps_frame && range.1.wrapping_sub(range.0) > PROLOGUE_BYTES {
                found.framed.push((range.0.wrapping_add(PROLOGUE_BYTES), range.1));
            } else {
                found.switches.push(range);
            }
        }
    }
    Some(found)
}

/// The zero-terminated name at the beginning of `bytes`, perhaps with its calling convention behind it.
fn is_named(bytes: &[u8], name: &[u8]) -> bool {
    bytes.strip_prefix(name).is_some_and(|rest| matches!(rest.first(), Some(0 | b'.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line table of functions with these flags. The last one has this name.
    fn line_table(flags: &[u8]) -> Vec<u8> {
        named_table(flags, b"runtime.gogo")
    }

    fn named_table(flags: &[u8], last: &[u8]) -> Vec<u8> {
        let mut table = vec![0u8; 72];
        table[..4].copy_from_slice(&MAGIC.to_le_bytes());
        table[7] = 8;
        table[8..16].copy_from_slice(&(flags.len() as u64).to_le_bytes());
        table[32..40].copy_from_slice(&72u64.to_le_bytes());
        table.extend([b"\0", last, b"\0"].concat());
        let functions = table.len() as u64;
        table[64..72].copy_from_slice(&functions.to_le_bytes());
        let described = flags.len() * 8 + 4;
        for index in 0..flags.len() {
            table.extend((index as u32 * 0x40).to_le_bytes());
            table.extend((described as u32 + index as u32 * 48).to_le_bytes());
        }
        table.extend((flags.len() as u32 * 0x40).to_le_bytes());
        for (index, flag) in flags.iter().enumerate() {
            let mut description = [0u8; 48];
            description[FLAG_AT] = *flag;
            description[NAME_AT] = u8::from(index + 1 == flags.len());
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
    fn of_functions_that_change_stacks_two_call_on_the_other_one() {
        for name in [&b"runtime.systemstack"[..], b"runtime.systemstack.abi0", b"runtime.asmcgocall"] {
            let stacks = read(&named_table(&[2, 2], name), 0x1000).unwrap();
            assert_eq!((stacks.switches, stacks.framed), (vec![(0x1000, 0x1040)], vec![(0x1044, 0x1080)]));
        }
        for (flags, name) in [([0, 2], &b"runtime.systemstack_switch"[..]), ([0, 0], b"runtime.systemstack")]
        {
            assert_eq!(read(&named_table(&flags, name), 0x1000).unwrap().framed, [], "{flags:?}");
        }
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
