//! Saved memory of a virtual machine: the pages read to name one code address
//! (`fixtures/runtimes/*.pages.gz`).

use std::collections::{BTreeMap, HashMap};

use super::Layout;
use crate::process_memory::{Memory, NamedCode, Names};

const PAGE_BYTES: usize = 4096;
/// The library's variables whose addresses come first, in this order.
const SYMBOLS: [&str; 12] = [
    "Structs",
    "StructEntryArrayStride",
    "StructEntryTypeNameOffset",
    "StructEntryFieldNameOffset",
    "StructEntryTypeStringOffset",
    "StructEntryIsStaticOffset",
    "StructEntryOffsetOffset",
    "StructEntryAddressOffset",
    "Types",
    "TypeEntryArrayStride",
    "TypeEntryTypeNameOffset",
    "TypeEntrySizeOffset",
];

/// Saved memory. The file holds the addresses of the variables, the library's load bias, the address to name,
/// and pages with their addresses. All numbers are little-endian 64-bit words.
pub struct SavedMemory {
    symbols: HashMap<String, u64>,
    loaded: u64,
    asked: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl SavedMemory {
    /// `None` if the head is truncated. A truncated page is skipped.
    pub fn parse(bytes: &[u8]) -> Option<SavedMemory> {
        let (head, pages) = bytes.split_at_checked((SYMBOLS.len() + 2) * 8)?;
        let mut words = head.as_chunks::<8>().0.iter().copied().map(u64::from_le_bytes);
        let symbols =
            SYMBOLS.iter().zip(&mut words).map(|(name, at)| (format!("gHotSpotVM{name}"), at)).collect();
        let (loaded, asked) = (words.next()?, words.next()?);
        let page = |page: &[u8]| {
            let (address, bytes) = page.split_first_chunk::<8>()?;
            Some((u64::from_le_bytes(*address), bytes.to_vec()))
        };
        let pages = pages.chunks_exact(8 + PAGE_BYTES).filter_map(page).collect();
        Some(SavedMemory { symbols, loaded, asked, pages })
    }

    /// The code at the address to name.
    pub fn name(&self) -> Option<NamedCode> {
        Layout::read(self, &self.symbols, self.loaded)?.code_at(self, self.asked)
    }
}

impl Memory for SavedMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        for (number, byte) in bytes.iter_mut().enumerate() {
            let at = address.checked_add(number as u64)?;
            let into = at % PAGE_BYTES as u64;
            *byte = *self.pages.get(&(at - into))?.get(into as usize)?;
        }
        Some(())
    }
}
