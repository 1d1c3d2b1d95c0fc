//! An ELF file: its segments, function symbols, sections and links to debug files. Data is read on demand.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use gimli::{BaseAddresses, EhFrame, EhFrameHdr, UnwindSection};
use object::elf::{PF_W, PF_X, PT_LOAD};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{CompressionFormat, File, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use super::place::Place;
use super::{demangle, go};

/// A symbol without a size ends at the next one, but not farther than this.
const SIZE_UNKNOWN_MAX: u64 = 1 << 16;
/// Maximum number of nested symbols that are checked for one that holds the address.
const NESTED_MAX: usize = 16;
/// Files are mapped in whole pages.
const PAGE_BYTES: u64 = 4096;
/// Sections are not uncompressed beyond this.
const SECTION_BYTES_MAX: u64 = 1 << 30;

/// An executable segment: file offset and length there, virtual address.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    length: u64,
    address: u64,
}

/// A little-endian ELF file, of 64 or 32 bits.
pub struct Elf<'a> {
    file: File<'a>,
    /// Executable ones.
    segments: Vec<Segment>,
    /// Addresses of memory that the file has for its variables.
    variables: Vec<Range<u64>>,
}

/// Mapped parts of a file: executable segments, and address ranges of writable data.
fn loaded<H: FileHeader>(file: &ElfFile<'_, H>) -> (Vec<Segment>, Vec<Range<u64>>) {
    let endian = file.endian();
    let of = |flag| {
        let headers = file.elf_program_headers().iter();
        headers
            .filter(move |header| header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(flag))
    };
    // Match by PF_X: linkers may place a read-only and an executable segment in one file page.
    let segments = of(PF_X).map(|header| Segment {
        offset: header.p_offset(endian).into(),
        length: header.p_filesz(endian).into(),
        address: header.p_vaddr(endian).into(),
    });
    let variables = of(PF_W).map(|header| {
        let start: u64 = header.p_vaddr(endian).into();
        start..start.saturating_add(header.p_memsz(endian).into())
    });
    (segments.collect(), variables.collect())
}

impl<'a> Elf<'a> {
    /// Reads the headers. `None` if it is no such file.
    pub fn parse(bytes: &'a [u8]) -> Option<Elf<'a>> {
        let file = File::parse(bytes).ok().filter(File::is_little_endian)?;
        let (segments, variables) = match &file {
            File::Elf64(elf) => loaded(elf),
            File::Elf32(elf) => loaded(elf),
            _ => return None,
        };
        Some(Elf { file, segments, variables })
    }

    /// A program of 32 bits, or a library of such.
    pub fn is_narrow(&self) -> bool {
        !self.file.is_64()
    }

    /// The GNU build id. For a Go program without one, Go's build id. Empty if there is neither.
    pub fn build_id(&self) -> &'a [u8] {
        match self.gnu_build_id() {
            [] => self.raw_section(".note.go.buildid").and_then(go::build_id).unwrap_or_default(),
            gnu => gnu,
        }
    }

    /// The GNU build id, empty if there is none.
    pub fn gnu_build_id(&self) -> &'a [u8] {
        self.file.build_id().ok().flatten().unwrap_or_default()
    }

    /// The virtual address of an executable byte of the file.
    pub fn address(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let distance = file_offset.checked_sub(segment.offset).filter(|far| *far < segment.length)?;
            segment.address.checked_add(distance)
        })
    }

    /// The virtual address of what a mapping of an executable segment begins with: whole pages are mapped, so it may
    /// begin before the segment.
    pub fn page_address(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let first = segment.offset - segment.offset % PAGE_BYTES;
            let end = segment.offset.saturating_add(segment.length);
            let inside = (first..end).contains(&file_offset);
            inside.then(|| segment.address.wrapping_sub(segment.offset).wrapping_add(file_offset))
        })
    }

    /// The virtual address is in memory that the file has for its variables.
    pub fn is_variable(&self, address: u64) -> bool {
        self.variables.iter().any(|memory| memory.contains(&address))
    }

    /// The code of each executable segment: offsets in the file, and the address of the first.
    pub fn segments(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        self.segments
            .iter()
            .map(|segment| (segment.offset..segment.offset.saturating_add(segment.length), segment.address))
    }

    /// Names of the variables that hold `addresses`, by address, and how far behind the first byte that is.
    pub fn variables(&self, addresses: &[u64]) -> BTreeMap<u64, (String, u64)> {
        if addresses.is_empty() {
            return BTreeMap::new();
        }
        let mut variables: Vec<(u64, u64, &str)> = self
            .file
            .symbols()
            .chain(self.file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
            .filter(|(_, _, name)| !name.is_empty())
            .collect();
        variables.sort_by(|a, b| (a.0, b.1, a.2.len(), a.2).cmp(&(b.0, a.1, b.2.len(), b.2)));
        variables.dedup_by_key(|variable| variable.0);
        addresses.iter().filter_map(|address| Some((*address, variable(&variables, *address)?))).collect()
    }

    /// A section as it stands in the file.
    pub fn raw_section(&self, name: &str) -> Option<&'a [u8]> {
        self.file.section_by_name(name)?.data().ok()
    }

    /// Virtual address of a section.
    pub fn section_address(&self, name: &str) -> Option<u64> {
        Some(self.file.section_by_name(name)?.address())
    }

    /// Virtual address of a symbol.
    pub fn function_address(&self, name: &str) -> Option<u64> {
        Some(self.file.symbol_by_name(name)?.address())
    }

    /// Virtual address of the first symbol whose demangled name ends so.
    #[cfg(test)]
    pub fn address_of_function_ending(&self, name: &str) -> Option<u64> {
        let is_it = |raw: &str| demangle::symbol(raw).ends_with(name);
        Some(self.file.symbols().find(|symbol| symbol.name().is_ok_and(is_it))?.address())
    }

    /// A section, uncompressed. Empty if there is none.
    pub fn section(&self, name: &str) -> Result<Cow<'a, [u8]>, String> {
        let Some(section) = self.file.section_by_name(name) else { return Ok(Cow::Borrowed(&[])) };
        let data = section.compressed_data().map_err(|error| format!("{name}: {error}"))?;
        if data.format != CompressionFormat::None && data.uncompressed_size > SECTION_BYTES_MAX {
            return Err(format!("{name}: {} bytes uncompressed", data.uncompressed_size));
        }
        data.decompress().map_err(|error| format!("{name}: {error}"))
    }

    /// Whether the file has its own debug information.
    pub fn has_dwarf(&self) -> bool {
        self.raw_section(".debug_info")
            .or_else(|| self.raw_section(".zdebug_info"))
            .is_some_and(|info| !info.is_empty())
    }

    /// Whether the file has a symbol table, which `strip` removes.
    pub fn has_symbol_table(&self) -> bool {
        self.file.symbols().next().is_some()
    }

    /// Name and CRC-32 of the separate debug file.
    pub fn debug_link(&self) -> Option<(String, u32)> {
        let (name, crc) = self.file.gnu_debuglink().ok()??;
        Some((String::from_utf8_lossy(name).into_owned(), crc))
    }

    /// Path and build id of the file that `dwz` moved common debug information to.
    pub fn shared_debug_link(&self) -> Option<(String, &'a [u8])> {
        let (path, build_id) = self.file.gnu_debugaltlink().ok()??;
        Some((String::from_utf8_lossy(path).into_owned(), build_id))
    }

    /// Starts of the functions that hold `addresses`, by address, from unwind tables. For functions without a
    /// symbol.
    pub fn starts(&self, addresses: &[u64]) -> BTreeMap<u64, u64> {
        self.unwind_starts(addresses).unwrap_or_default()
    }

    fn unwind_starts(&self, addresses: &[u64]) -> Option<BTreeMap<u64, u64>> {
        let endian = gimli::LittleEndian;
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(self.section_address(".eh_frame_hdr")?)
            .set_eh_frame(self.section_address(".eh_frame")?)
            .set_text(self.section_address(".text").unwrap_or(0));
        let header = EhFrameHdr::new(self.raw_section(".eh_frame_hdr")?, endian)
            .parse(&bases, if self.is_narrow() { 4 } else { 8 })
            .ok()?;
        let mut frames = EhFrame::new(self.raw_section(".eh_frame")?, endian);
        frames.set_address_size(if self.is_narrow() { 4 } else { 8 });
        let table = header.table()?;
        let start = |address: u64| {
            let entry = table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
            (entry.initial_address() <= address).then(|| entry.initial_address())
        };
        Some(addresses.iter().filter_map(|address| Some((*address, start(*address)?))).collect())
    }

    /// The functions that hold `addresses`, by address.
    pub fn functions(&self, addresses: &[u64]) -> BTreeMap<u64, Place> {
        let mut functions: Vec<(u64, u64, &str)> = self
            .file
            .symbols()
            .chain(self.file.dynamic_symbols())
            .filter(|symbol| symbol.is_definition() && self.is_code(symbol))
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
            .filter(|(_, _, name)| !name.is_empty())
            .collect();
        // If several names have one address, keep the largest symbol, then the shortest name. This is
        // deterministic.
        functions.sort_by(|a, b| (a.0, b.1, a.2.len(), a.2).cmp(&(b.0, a.1, b.2.len(), b.2)));
        functions.dedup_by_key(|function| function.0);
        let mut sections: Vec<u64> = self.file.sections().map(|section| section.address()).collect();
        sections.sort_unstable();
        let place = |address: u64| {
            let before = sections.get(..sections.partition_point(|start| *start <= address));
            holder(&functions, address, before.and_then(<[u64]>::last).copied().unwrap_or(0))
        };
        addresses.iter().filter_map(|address| Some((*address, place(*address)?))).collect()
    }
}

impl Elf<'_> {
    /// Also accepts symbols marked as data in the code section: GHC's functions are preceded by a table, and
    /// some have such symbols.
    fn is_code<'data>(&self, symbol: &impl ObjectSymbol<'data>) -> bool {
        let among_code = || {
            let section = self.file.section_by_index(symbol.section_index()?).ok()?;
            Some(section.kind() == SectionKind::Text)
        };
        match symbol.kind() {
            SymbolKind::Text => true,
            SymbolKind::Data => among_code().unwrap_or(false),
            _ => false,
        }
    }
}

/// The variable that holds the address.
fn variable(variables: &[(u64, u64, &str)], address: u64) -> Option<(String, u64)> {
    let behind = variables.partition_point(|variable| variable.0 <= address);
    let (start, size, name) = variables.get(behind.checked_sub(1)?)?;
    let distance = address - start;
    (distance == 0 || distance < *size).then(|| (demangle::symbol(name), distance))
}

/// The innermost function that holds the address. A function without a size ends with its section, because
/// linker-generated code without symbols follows `_init`.
fn holder(functions: &[(u64, u64, &str)], address: u64, section: u64) -> Option<Place> {
    let behind = functions.partition_point(|function| function.0 <= address);
    let before = functions.get(..behind)?;
    let nearest = before.last()?.0;
    before.iter().rev().take(NESTED_MAX).find_map(|(start, size, name)| {
        let reach = match size {
            0 if *start == nearest && *start >= section => SIZE_UNKNOWN_MAX,
            size => *size,
        };
        let distance = address - start;
        (distance < reach).then(|| Place::of_function(demangle::symbol(name), distance))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_that_reaches_far_enough() {
        let functions = [(10, 100, "outer"), (20, 5, "inner"), (40, 0, "label"), (50, 3, "next")];
        let name = |address| holder(&functions, address, 0).map(|place| place.calls[0].function.clone());
        assert_eq!(name(9), None);
        assert_eq!(name(21).as_deref(), Some("inner"));
        assert_eq!(name(30).as_deref(), Some("outer"));
        assert_eq!(name(45).as_deref(), Some("label"));
        assert_eq!(name(53).as_deref(), Some("outer"));
        assert_eq!(name(200), None);
        let behind_init = holder(&[(40, 0, "_init")], 60, 50);
        assert_eq!(behind_init, None, "another section begins at 50");
    }

    #[test]
    fn this_very_program_knows_its_functions() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        assert!(elf.has_symbol_table() && elf.has_dwarf());
        let address = elf.address_of_function_ending("symbols::elf::holder").unwrap();
        let places = elf.functions(&[address + 1]);
        assert!(places[&(address + 1)].calls[0].function.contains("symbols::elf::"), "{places:?}");
    }
}
