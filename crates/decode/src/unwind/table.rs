//! The table of one binary, and where in the address space its rows apply.

use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian};
use object::elf::{PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{ElfFile32, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ReadRef};

use super::frames::Rows;
use super::go;
use super::late_calls::{self, Binary};
use super::row::{Kind, Row};

/// Maximum number of rows (150 MB of code has 1.2 million). Limits damaged files.
const ROWS_MAX: usize = 1 << 23;

/// Why a binary has no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Not an ELF file of this machine.
    #[error("it is no 64-bit x86 ELF file")]
    NotElf,
    /// A 32-bit program, with 32-bit code, words and stacks.
    #[error("it is a program of 32 bits: their stacks are not followed, and end at the first frame")]
    Narrow,
    /// Neither section is there.
    #[error("it has neither .eh_frame nor .debug_frame, and is no Go binary")]
    NoFrames,
}

/// An executable segment of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where in the file.
    pub file_offset: u64,
    /// How long (bytes).
    pub length: u64,
    /// Linked address.
    pub address: u64,
}

/// The compiled rows of one binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// In the order of pc.
    pub rows: Vec<Row>,
    /// Linked address of pc 0 of the rows.
    pub base: u64,
    /// Executable segments, for [`Table::base_when_mapped`].
    pub segments: Vec<Segment>,
    /// The file's own build id, empty if it has none.
    pub build_id: Vec<u8>,
    /// Number of functions with an invalid description. Their rows are marked as such.
    pub broken: usize,
}

impl Table {
    /// Compiles the table of an ELF file. With `object::ReadCache`, only the needed sections are read.
    pub fn compile<'a, R: ReadRef<'a>>(bytes: R) -> Result<Table, TableError> {
        let file = ElfFile64::<Endianness, R>::parse(bytes).map_err(|_| no_table(bytes))?;
        let endian = file.endian();
        if file.elf_header().e_machine(endian) != object::elf::EM_X86_64 || !file.is_little_endian() {
            return Err(TableError::NotElf);
        }
        // Match by PF_X: linkers may place a read-only and an executable segment in one file page.
        let executable = |header: &&object::elf::ProgramHeader64<Endianness>| {
            header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(PF_X)
        };
        let segments: Vec<Segment> = file
            .elf_program_headers()
            .iter()
            .filter(executable)
            .map(|header| Segment {
                file_offset: header.p_offset(endian),
                length: header.p_filesz(endian),
                address: header.p_vaddr(endian),
            })
            .collect();
        let base = segments.iter().map(|segment| segment.address).min().unwrap_or(0);
        let mut rows = Rows::new(base, ROWS_MAX);
        let bases = base_addresses(&file);
        let eh_frame = section(&file, ".eh_frame").or_else(|| eh_frame_by_header(&file, bytes));
        let debug_frame = section(&file, ".debug_frame");
        let go = go::stacks(&file);
        if eh_frame.is_none() && debug_frame.is_none() && go.is_none() {
            return Err(TableError::NoFrames);
        }
        if let Some((data, address)) = &eh_frame {
            rows.collect(&EhFrame::new(data, LittleEndian), &bases.clone().set_eh_frame(*address));
        }
        let mut described = Rows::new(base, ROWS_MAX);
        if let Some((data, _)) = &debug_frame {
            let mut frames = DebugFrame::new(data, LittleEndian);
            frames.set_address_size(8);
            described.collect(&frames, &bases);
        }
        // Stripped Go binaries have just this: all else keeps frame pointers.
        if let Some(stacks) = &go {
            described.apply_go(stacks);
        }
        rows.append(described);
        let broken = rows.broken;
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
        let (changing, functions) = rows.take_functions();
        let mut rows = rows.finish();
        if !changing.is_empty()
            && let Some((text, address)) = section(&file, ".text")
        {
            let binary = Binary { base, changing: &changing, text: (address, &text) };
            late_calls::mend(&mut rows, &functions, &binary);
        }
        Ok(Table { rows, base, segments, build_id, broken })
    }

    /// The row of code that runs on a frame which a function of this binary makes for it, if one does. Such code may be
    /// in other binaries (GHC's shared libraries, on the frame of the runtime's `StgRun`).
    pub fn lent(&self) -> Option<Row> {
        self.rows.iter().find(|row| row.kind == Kind::Lent).copied()
    }

    /// The value to subtract from an address to get a row's pc, if the file is mapped from `file_offset` on
    /// at `start`. `None` if no executable segment is mapped like this.
    pub fn base_when_mapped(&self, start: u64, length: u64, file_offset: u64) -> Option<u64> {
        Table::base_of(&self.segments, self.base, (start, length, file_offset))
    }

    /// [`Table::base_when_mapped`], with the segments and the base of a table that is not kept.
    pub fn base_of(
        segments: &[Segment],
        base: u64,
        (start, length, file_offset): (u64, u64, u64),
    ) -> Option<u64> {
        let mapped = file_offset..file_offset.checked_add(length)?;
        let segment = segments.iter().find(|segment| {
            segment.file_offset < mapped.end
                && mapped.start < segment.file_offset.saturating_add(segment.length)
        })?;
        // The file's byte at `segment.file_offset` has the linked address `segment.address`.
        let bias =
            start.wrapping_sub(file_offset).wrapping_add(segment.file_offset).wrapping_sub(segment.address);
        Some(bias.wrapping_add(base))
    }
}

fn no_table<'a, R: ReadRef<'a>>(bytes: R) -> TableError {
    match ElfFile32::<Endianness, R>::parse(bytes) {
        Ok(_) => TableError::Narrow,
        Err(_) => TableError::NotElf,
    }
}

/// The build id of an ELF file. Empty if it has none, or for any other file.
pub fn build_id<'a, R: ReadRef<'a>>(bytes: R) -> Vec<u8> {
    let narrow = || Some(ElfFile32::<Endianness, R>::parse(bytes).ok()?.build_id().ok()??.to_vec());
    match ElfFile64::<Endianness, R>::parse(bytes) {
        Ok(file) => file.build_id().ok().flatten().map(<[u8]>::to_vec),
        Err(_) => narrow(),
    }
    .unwrap_or_default()
}

/// A section's bytes, uncompressed, and its linked address.
fn section<'a, R: ReadRef<'a>>(
    file: &ElfFile64<'a, Endianness, R>,
    name: &str,
) -> Option<(std::borrow::Cow<'a, [u8]>, u64)> {
    let section = file.section_by_name(name)?;
    let data = section.uncompressed_data().ok()?;
    (!data.is_empty()).then_some((data, section.address()))
}

fn base_addresses<'a, R: ReadRef<'a>>(file: &ElfFile64<'a, Endianness, R>) -> BaseAddresses {
    let address = |name: &str| file.section_by_name(name).map(|section| section.address());
    let mut bases = BaseAddresses::default();
    if let Some(address) = address(".text") {
        bases = bases.set_text(address);
    }
    if let Some(address) = address(".got") {
        bases = bases.set_got(address);
    }
    if let Some(address) = address(".eh_frame_hdr") {
        bases = bases.set_eh_frame_hdr(address);
    }
    bases
}

/// In a file without section headers, a program header leads to `.eh_frame_hdr`, and that leads to
/// `.eh_frame`.
fn eh_frame_by_header<'a, R: ReadRef<'a>>(
    file: &ElfFile64<'a, Endianness, R>,
    bytes: R,
) -> Option<(std::borrow::Cow<'a, [u8]>, u64)> {
    let endian = file.endian();
    let headers = file.elf_program_headers();
    let header = headers.iter().find(|header| header.p_type(endian) == PT_GNU_EH_FRAME)?;
    let hdr_address = header.p_vaddr(endian);
    let hdr = header.data(endian, bytes).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(hdr_address);
    let parsed = gimli::EhFrameHdr::new(hdr, LittleEndian).parse(&bases, 8).ok()?;
    let address = parsed.eh_frame_ptr().direct().ok()?;
    let load = headers.iter().find(|header| {
        let start = header.p_vaddr(endian);
        header.p_type(endian) == PT_LOAD
            && (start..start.saturating_add(header.p_filesz(endian))).contains(&address)
    })?;
    let data = load.data(endian, bytes).ok()?;
    let data = data.get(usize::try_from(address - load.p_vaddr(endian)).ok()?..)?;
    Some((std::borrow::Cow::Borrowed(data), address))
}
