//! Input about code, by section: an ELF file is built around the bytes, so that no input is spent on finding
//! the sections.

use holdup_decode::unwind::{Code, Registers, Row, Table, walk};

use super::{Foreign, name};

/// Debug sections, in the order that [`debug_info`] expects. Each follows its length (4 bytes).
pub const DEBUG_SECTIONS: &[&str] = &[
    ".debug_abbrev",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_str",
    ".debug_rnglists",
    ".debug_ranges",
    ".debug_aranges",
];

/// Where the sections are linked: above the code that they describe by distances.
const SECTIONS_AT: u64 = 1 << 30;
const CODE_BYTES: u64 = 1 << 20;
const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;

/// An ELF file of these sections, whose code is at address 0.
fn elf_of(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let half = |number: usize| (number as u16).to_le_bytes();
    const PROGBITS: u64 = 1;
    const STRTAB: u64 = 3;
    // The first section has no name.
    let names = sections.iter().flat_map(|(name, _)| name.bytes().chain([0]));
    let names: Vec<u8> = [0].into_iter().chain(names).collect();
    let mut headers = vec![[0u64; 6]]; // name and type, flags, address, offset, size, link and info
    let mut contents = vec![0; HEADER_BYTES + PROGRAM_HEADER_BYTES];
    let mut name_at = 1;
    let whole = sections.iter().map(|(name, bytes)| (name.len() + 1, PROGBITS, *bytes));
    for (name_bytes, kind, bytes) in whole.chain([(0, STRTAB, &names[..])]) {
        let offset = contents.len() as u64;
        let name = if kind == STRTAB { 0 } else { name_at as u64 };
        headers.push([name | kind << 32, 0, SECTIONS_AT + offset, offset, bytes.len() as u64, 0]);
        contents.extend_from_slice(bytes);
        name_at += name_bytes;
    }
    let headers_at = contents.len() as u64;
    for header in &headers {
        header.iter().chain(&[1, 0]).for_each(|word| contents.extend(word.to_le_bytes()));
    }
    let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    [0, HEADER_BYTES as u64, headers_at].iter().for_each(|word| head.extend(word.to_le_bytes()));
    head.extend([0; 4]);
    [HEADER_BYTES, PROGRAM_HEADER_BYTES, 1, 64, headers.len(), headers.len() - 1]
        .iter()
        .for_each(|number| head.extend(half(*number)));
    // PT_LOAD, readable and executable: all of it.
    [1 | 5 << 32, 0, 0, 0, CODE_BYTES, CODE_BYTES, 4096]
        .iter()
        .for_each(|word: &u64| head.extend(word.to_le_bytes()));
    contents[..head.len()].copy_from_slice(&head);
    contents
}

/// Descriptions of frames (`.eh_frame`, `.debug_frame`), and walks by the rows that are made of them: the same bytes
/// are the stack.
pub fn frames(bytes: &[u8]) {
    rows_made(bytes);
}

/// How many rows are made of them.
pub fn rows_made(bytes: &[u8]) -> usize {
    let mut rows = 0;
    for section in [".eh_frame", ".debug_frame"] {
        if let Ok(table) = Table::compile(&*elf_of(&[(section, bytes)])) {
            assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc), "rows are in order");
            let few = table.rows.len() / 64 + 1;
            table.rows.iter().step_by(few).for_each(|row| walk_from(row, &table, bytes));
            rows += table.rows.len();
        }
    }
    rows
}

fn walk_from(row: &Row, table: &Table, stack: &[u8]) {
    const STACK_AT: u64 = 0x7fff_0000_0000;
    let word = |address: u64| {
        let at = usize::try_from(address.checked_sub(STACK_AT)?).ok()?;
        Some(u64::from_le_bytes(stack.get(at..at.checked_add(8)?)?.try_into().ok()?))
    };
    let mut code = |address: u64| {
        // Any number is an address of some code.
        let pc = (address % CODE_BYTES) as u32;
        let behind = table.rows.partition_point(|row| row.pc <= pc);
        behind.checked_sub(1).map_or(Code::Bare, |last| Code::Row(table.rows[last]))
    };
    let registers = Registers { ip: u64::from(row.pc), sp: STACK_AT, bp: STACK_AT + 64, bx: STACK_AT + 32 };
    let walked = walk(registers, &word, &mut code);
    assert_eq!(walked.addresses.len(), walked.vias.len());
}

/// Debug information: see [`DEBUG_SECTIONS`].
pub fn debug_info(bytes: &[u8]) {
    lines_known(bytes);
}

/// Number of places for which debug information gives the line.
pub fn lines_known(bytes: &[u8]) -> usize {
    let program = Foreign { binary: Some(elf_of_debug_info(bytes)), map: None };
    // Functions begin at multiples of 16, and linkers put them behind the first page.
    name(program, (0..CODE_BYTES).step_by(16).take(512))
}

fn elf_of_debug_info(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    let mut sections = Vec::new();
    for name in DEBUG_SECTIONS {
        let Some((length, behind)) = rest.split_first_chunk::<4>() else { break };
        let length = (u32::from_le_bytes(*length) as usize).min(behind.len());
        let (section, behind) = behind.split_at(length);
        sections.push((*name, section));
        rest = behind;
    }
    elf_of(&sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_one() {
        let file = elf_of(&[(".eh_frame", &[0; 4]), (".debug_info", b"abc")]);
        assert!(Table::compile(&*file).is_ok());
        assert!(Table::compile(&*elf_of(&[(".debug_info", b"abc")])).is_err(), "it says nothing of frames");
    }
}
