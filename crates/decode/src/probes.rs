//! Where to put a probe in a binary: at the entry of a function, or at a USDT probe.
//!
//! USDT probes are notes of type 3 with the name `stapsdt` in `.note.stapsdt` (systemtap,
//! UserSpaceProbeImplementation). A note holds:
//!
//! - the address of a `nop`,
//! - the link-time address of `.stapsdt.base`,
//! - the address of a semaphore (0: none), which must be incremented so that the program prepares the probe's
//!   arguments,
//! - three texts.

mod arguments;
mod spans;

use object::elf::{FileHeader64, NoteType, PT_LOAD};
use object::read::elf::{ElfFile, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::symbols::demangle_symbol;
pub use spans::{Functions, Prober};

type Binary<'a> = ElfFile<'a, FileHeader64<LittleEndian>>;

/// One place, by offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// Of the instruction.
    pub offset: u64,
    /// Address of the 16-bit semaphore to increment, 0 if none.
    pub semaphore: u64,
}

/// The entry of a function, by its symbol name or demangled name. The error text states why there is none.
pub fn function(bytes: &[u8], name: &str) -> Result<Vec<Site>, String> {
    let binary = parse(bytes)?;
    let symbols = || binary.symbols().chain(binary.dynamic_symbols());
    let code = symbols().filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text);
    let named = code.filter_map(|symbol| Some((symbol.name().ok()?, symbol.address())));
    let mut exact = Vec::new();
    let mut shown = Vec::new();
    for (symbol, address) in named {
        if symbol == name {
            exact.push(address);
        } else if demangle_symbol(symbol) == name {
            shown.push(address);
        }
    }
    let found = if exact.is_empty() { shown } else { exact };
    if found.is_empty() {
        return Err(match symbols().next() {
            None => "it has no symbols: it is stripped".to_owned(),
            Some(_) => format!("it has no function {name} (one that was inlined everywhere has no entry)"),
        });
    }
    let mut sites: Vec<Site> = found
        .into_iter()
        .filter_map(|address| Some(Site { offset: offset(&binary, address)?, semaphore: 0 }))
        .collect();
    sites.sort_unstable();
    sites.dedup();
    Ok(sites)
}

/// All places of a probe that the program's authors put there.
pub fn usdt(bytes: &[u8], provider: &str, name: &str) -> Result<Vec<Site>, String> {
    let binary = parse(bytes)?;
    let all = notes(&binary);
    let mut sites: Vec<Site> = all
        .iter()
        .filter(|note| (note.provider.as_str(), note.name.as_str()) == (provider, name))
        .filter_map(|note| {
            let semaphore = if note.semaphore == 0 { 0 } else { offset(&binary, note.semaphore)? };
            Some(Site { offset: offset(&binary, note.address)?, semaphore })
        })
        .collect();
    sites.sort_unstable();
    sites.dedup();
    if !sites.is_empty() {
        return Ok(sites);
    }
    let mut others: Vec<String> = all.iter().map(|note| format!("{}:{}", note.provider, note.name)).collect();
    others.sort_unstable();
    others.dedup();
    others.truncate(8);
    Err(if others.is_empty() {
        "it has no USDT probes".to_owned()
    } else {
        format!("it has no probe {provider}:{name}, its probes are {}", others.join(", "))
    })
}

struct Note {
    address: u64,
    semaphore: u64,
    provider: String,
    name: String,
}

const STAPSDT: NoteType = NoteType(3);

fn notes(binary: &Binary<'_>) -> Vec<Note> {
    let endian = LittleEndian;
    let base = binary.section_by_name(".stapsdt.base").map(|section| section.address());
    let Some(section) = binary.section_by_name(".note.stapsdt") else { return Vec::new() };
    let Ok(Some(mut all)) = section.elf_section_header().notes(endian, binary.data()) else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    while let Ok(Some(one)) = all.next() {
        if one.n_type(endian) == STAPSDT && one.name() == b"stapsdt" {
            notes.extend(note(one.desc(), base));
        }
    }
    notes
}

fn note(bytes: &[u8], base: Option<u64>) -> Option<Note> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (address, linked_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let mut texts = bytes.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    // prelink(8) moves code and the base alike, but not these words.
    let moved = base.map_or(0, |base| base.wrapping_sub(linked_base));
    let semaphore = if semaphore == 0 { 0 } else { semaphore.wrapping_add(moved) };
    Some(Note { address: address.wrapping_add(moved), semaphore, provider: text()?, name: text()? })
}

fn parse(bytes: &[u8]) -> Result<Binary<'_>, String> {
    Binary::parse(bytes).map_err(|_| "it is no 64-bit ELF file".to_owned())
}

/// Where in the file the byte at a virtual address is.
fn offset(binary: &Binary<'_>, address: u64) -> Option<u64> {
    let endian = LittleEndian;
    binary.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD).find_map(|header| {
        let within = address.checked_sub(header.p_vaddr(endian))?;
        let inside = within < header.p_filesz(endian);
        inside.then(|| header.p_offset(endian).checked_add(within)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_binary_is_an_error() {
        assert!(function(b"#!/bin/sh\n", "main").unwrap_err().contains("no 64-bit ELF"));
        assert!(usdt(b"", "a", "b").unwrap_err().contains("no 64-bit ELF"));
    }

    #[test]
    fn this_test_program_has_its_functions() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let sites = function(&bytes, "main").unwrap();
        assert!(sites.len() == 1 && sites[0].offset > 0 && sites[0].semaphore == 0, "{sites:?}");
        assert!(function(&bytes, "no_such_function").unwrap_err().contains("no function no_such_function"));
    }

    #[test]
    fn a_note_has_its_place_and_its_names() {
        let mut description: Vec<u8> = [0x1010u64, 0x2000, 0x3008].map(u64::to_le_bytes).concat();
        description.extend(b"provider\0name\0-4@%edi\0");
        let found = note(&description, Some(0x2100)).unwrap();
        assert_eq!((found.address, found.semaphore), (0x1110, 0x3108));
        assert_eq!((found.provider.as_str(), found.name.as_str()), ("provider", "name"));
        for cut in 0..description.len() - 14 {
            let _ = note(&description[..cut], None);
        }
    }
}
