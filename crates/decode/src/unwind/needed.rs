//! Which libraries a binary asks its loader for.

use object::Endianness;
use object::ReadRef;
use object::elf::DT_NEEDED;
use object::read::elf::{Dyn, ElfFile64, FileHeader};

/// No binary asks for more.
const NEEDED_MAX: usize = 1000;

/// The names in `DT_NEEDED` of an ELF file. Empty for other files, and without dependencies.
pub fn needed<'a, R: ReadRef<'a>>(bytes: R) -> Vec<String> {
    names(bytes).unwrap_or_default()
}

fn names<'a, R: ReadRef<'a>>(bytes: R) -> Option<Vec<String>> {
    let file = ElfFile64::<Endianness, R>::parse(bytes).ok()?;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes).ok()?;
    let (entries, link) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, link).ok()?;
    let wanted = entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED);
    let name = |entry: &object::elf::Dyn64<Endianness>| {
        let offset = u32::try_from(entry.d_val(endian)).ok()?;
        Some(String::from_utf8_lossy(strings.get(offset).ok()?).into_owned())
    };
    Some(wanted.take(NEEDED_MAX).filter_map(name).collect())
}
