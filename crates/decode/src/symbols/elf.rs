//! Function symbols of an ELF file, found by file offset.

use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

/// A symbol without a size ends at the next one, but not farther than this.
const SIZE_UNKNOWN_MAX: u64 = 1 << 16;

/// Functions sorted by address, and how file offsets become addresses.
pub struct ElfSymbols {
    /// (virtual address, size, name as in the file)
    functions: Vec<(u64, u64, String)>,
    /// Executable segments: (file offset, length in the file, virtual address).
    segments: Vec<(u64, u64, u64)>,
    build_id: Option<Vec<u8>>,
}

impl ElfSymbols {
    /// Reads `.symtab` and `.dynsym`. `None` if it is no 64-bit ELF file that makes sense.
    pub fn parse(bytes: &[u8]) -> Option<ElfSymbols> {
        let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
        let endian = file.endian();
        // Match by PF_X: linkers may place a read-only and an executable segment in one file page.
        let segments = file
            .elf_program_headers()
            .iter()
            .filter(|header| {
                header.p_type(endian) == object::elf::PT_LOAD && header.p_flags(endian).contains(PF_X)
            })
            .map(|header| (header.p_offset(endian), header.p_filesz(endian), header.p_vaddr(endian)))
            .collect();
        let mut functions: Vec<(u64, u64, String)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
            .collect();
        // Of several names at one address keep the first by size, then the shortest: deterministic.
        functions.sort_by(|a, b| (a.0, b.1, a.2.len(), &a.2).cmp(&(b.0, a.1, b.2.len(), &b.2)));
        functions.dedup_by_key(|function| function.0);
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Some(ElfSymbols { functions, segments, build_id })
    }

    /// The file's own build id.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The segments of this file with the names of its separate debug file.
    pub fn with_names_of(mut self, debug: ElfSymbols) -> ElfSymbols {
        if debug.functions.len() > self.functions.len() {
            self.functions = debug.functions;
        }
        self
    }

    /// The demangled function at a file offset, and the distance from its start.
    pub fn find(&self, file_offset: u64) -> Option<(String, u64)> {
        let (offset, _, address) = self.segments.iter().find(|(offset, length, _)| {
            file_offset.checked_sub(*offset).is_some_and(|distance| distance < *length)
        })?;
        let address = address.checked_add(file_offset - offset)?;
        let behind = self.functions.partition_point(|function| function.0 <= address);
        let (start, size, name) = self.functions.get(behind.checked_sub(1)?)?;
        let distance = address - start;
        let reach = if *size > 0 { *size } else { SIZE_UNKNOWN_MAX };
        (distance < reach).then(|| (demangle(name), distance))
    }
}

/// The name as people write it: Rust and C++ demangled, versions (`@GLIBC…`) cut off.
pub fn demangle(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_people_write_them() {
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(
            demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)"
        );
        assert_eq!(demangle("read@@GLIBC_2.2.5"), "read");
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Znonsense"), "_Znonsense");
    }

    #[test]
    fn this_very_program_has_symbols() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = ElfSymbols::parse(&bytes).unwrap();
        assert!(symbols.functions.len() > 100);
        assert!(symbols.functions.iter().any(|function| demangle(&function.2).contains("symbols::elf")));
    }

    #[test]
    fn broken_files_have_no_symbols_and_do_no_harm() {
        let bytes = std::fs::read("/bin/true").unwrap_or_default();
        for cut in (0..bytes.len()).step_by(97) {
            if let Some(symbols) = ElfSymbols::parse(&bytes[..cut]) {
                symbols.find(0x1234);
            }
        }
        let mut state = 1u64;
        for _ in 0..2000 {
            let mut broken = bytes.clone();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % broken.len().clamp(1, 4096);
                if let Some(byte) = broken.get_mut(at) {
                    *byte = (state >> 17) as u8;
                }
            }
            if let Some(symbols) = ElfSymbols::parse(&broken) {
                symbols.find(state % 100_000);
            }
        }
    }
}
