//! The machine code of one function of an ELF file: its bounds by its symbol, else by its unwind entry.

use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};
use object::elf::PF_X;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::symbols::demangle;

/// Larger functions are not read.
const BYTES_MAX: u64 = 1 << 20;

/// Why there is no code to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The file differs from the mapped one.
    #[error("the file has changed since it was recorded (another build id)")]
    Changed,
    /// The file is not readable as ELF.
    #[error("the file is no 64-bit ELF file that makes sense")]
    NoElf,
    /// Of a place.
    #[error("neither a symbol nor an unwind entry names the function there")]
    NoFunction,
    /// Of a function.
    #[error("the function is larger than {BYTES_MAX} bytes")]
    TooLarge,
}

/// One function's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionCode {
    /// Offset in the file of its first byte.
    pub offset: u64,
    /// Address of that byte in the file's own terms.
    pub address: u64,
    /// The code bytes.
    pub bytes: Vec<u8>,
}

/// An ELF file to read functions from.
pub struct Code<'a> {
    file: ElfFile64<'a, Endianness>,
    bytes: &'a [u8],
    /// Address, size, name of each function, by address.
    functions: Vec<(u64, u64, &'a str)>,
}

impl<'a> Code<'a> {
    /// Reads the file's tables. `build_id`, unless empty, must be the file's own.
    pub fn parse(bytes: &'a [u8], build_id: &[u8]) -> Result<Code<'a>, CodeError> {
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(|_| CodeError::NoElf)?;
        let own = file.build_id().ok().flatten().unwrap_or_default();
        if !build_id.is_empty() && !own.is_empty() && own != build_id {
            return Err(CodeError::Changed);
        }
        let mut functions: Vec<(u64, u64, &str)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
            .collect();
        functions.sort_by(|a, b| (a.0, b.1, a.2).cmp(&(b.0, a.1, b.2)));
        Ok(Code { file, bytes, functions })
    }

    /// Demangled name of the function that begins at an address.
    pub fn name_at(&self, address: u64) -> Option<String> {
        let at = self.functions.partition_point(|function| function.0 < address);
        let (start, _, name) = self.functions.get(at)?;
        (*start == address).then(|| demangle(name))
    }

    /// The function that holds an offset in the file.
    pub fn function_at(&self, file_offset: u64) -> Result<FunctionCode, CodeError> {
        let (address, lowest) = self.mapped(file_offset).ok_or(CodeError::NoFunction)?;
        let (start, end) = self
            .by_symbol(address)
            .or_else(|| self.by_unwind_entry(address))
            .filter(|(start, _)| *start >= lowest)
            .ok_or(CodeError::NoFunction)?;
        let offset = file_offset.checked_sub(address - start).ok_or(CodeError::NoFunction)?;
        self.between(offset, offset.saturating_add(end - start))
    }

    /// The code between two offsets in the file, for functions whose bounds only the recording knows.
    pub fn between(&self, from: u64, to: u64) -> Result<FunctionCode, CodeError> {
        let (address, _) = self.mapped(from).ok_or(CodeError::NoFunction)?;
        let length = to.checked_sub(from).ok_or(CodeError::NoFunction)?;
        if length > BYTES_MAX {
            return Err(CodeError::TooLarge);
        }
        let first = usize::try_from(from).map_err(|_| CodeError::NoFunction)?;
        let bytes = self.bytes.get(first..).unwrap_or_default();
        Ok(FunctionCode {
            offset: from,
            address,
            bytes: bytes.iter().copied().take(length as usize).collect(),
        })
    }

    /// Address of an offset in an executable segment, and that segment's first.
    fn mapped(&self, file_offset: u64) -> Option<(u64, u64)> {
        let endian = self.file.endian();
        self.file.elf_program_headers().iter().find_map(|header| {
            let code = header.p_type(endian) == object::elf::PT_LOAD && header.p_flags(endian).contains(PF_X);
            let distance = file_offset.checked_sub(header.p_offset(endian))?;
            let lowest = header.p_vaddr(endian);
            let inside = code && distance < header.p_filesz(endian);
            inside.then_some((lowest.checked_add(distance)?, lowest))
        })
    }

    fn by_symbol(&self, address: u64) -> Option<(u64, u64)> {
        let behind = self.functions.partition_point(|function| function.0 <= address);
        let before = self.functions.get(..behind)?.iter().rev().take(8);
        before
            .map(|(start, size, _)| (*start, start.saturating_add(*size)))
            .find(|(start, end)| *start <= address && address < *end)
    }

    fn by_unwind_entry(&self, address: u64) -> Option<(u64, u64)> {
        let section = self.file.section_by_name(".eh_frame")?;
        let eh_frame = EhFrame::new(section.data().ok()?, LittleEndian);
        let of = |name| self.file.section_by_name(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default().set_eh_frame(section.address()).set_text(of(".text"));
        let mut entries = eh_frame.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            if fde.initial_address() <= address && address < fde.end_address() {
                return Some((fde.initial_address(), fde.end_address()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own binary, whose content is known.
    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    fn offset_of_this(code: &Code) -> u64 {
        let (address, ..) = *code
            .functions
            .iter()
            .find(|(_, size, name)| *size > 64 && name.contains("offset_of_this"))
            .unwrap();
        let endian = code.file.endian();
        let headers = code.file.elf_program_headers();
        let header = headers
            .iter()
            .find(|header| {
                header.p_vaddr(endian) <= address && address < header.p_vaddr(endian) + header.p_memsz(endian)
            })
            .unwrap();
        address - header.p_vaddr(endian) + header.p_offset(endian)
    }

    #[test]
    fn symbols_and_unwind_entries_agree_on_our_own_code() {
        let bytes = own();
        let code = Code::parse(&bytes, &[]).unwrap();
        let offset = offset_of_this(&code);
        let function = code.function_at(offset + 5).unwrap();
        assert_eq!(function.offset, offset);
        assert!(code.name_at(function.address).unwrap().contains("offset_of_this"));
        assert_eq!(code.by_symbol(function.address + 5), code.by_unwind_entry(function.address + 5));
        assert_eq!(
            function.bytes.len() as u64,
            code.by_symbol(function.address).unwrap().1 - function.address
        );
        assert_eq!(code.between(offset, offset + function.bytes.len() as u64).unwrap(), function);
        assert_eq!(code.function_at(0).unwrap_err(), CodeError::NoFunction);
        assert_eq!(code.between(offset, offset - 1).unwrap_err(), CodeError::NoFunction);
        assert_eq!(code.between(offset, u64::MAX).unwrap_err(), CodeError::TooLarge);
    }

    #[test]
    fn another_build_is_refused_and_garbage_is_no_file() {
        assert_eq!(Code::parse(&[1, 2, 3], &[]).err(), Some(CodeError::NoElf));
        let bytes = own();
        let refused = Code::parse(&bytes, &[0xab; 20]).err();
        let has_id = Code::parse(&bytes, &[]).unwrap().file.build_id().unwrap().is_some();
        assert_eq!(refused, has_id.then_some(CodeError::Changed));
        // Cut anywhere: no panic.
        for length in (0..bytes.len()).step_by(bytes.len() / 40) {
            if let Ok(code) = Code::parse(&bytes[..length], &[]) {
                let _ = code.function_at(0x1000);
            }
        }
    }
}
