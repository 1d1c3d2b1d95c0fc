//! Names of the code that HotSpot made, read from the memory of a living virtual machine, which need not be asked for them.
//!
//! Where its structures hold what is told by tables in the library itself, for debuggers: `gHotSpotVMStructs` and `gHotSpotVMTypes`
//! (`src/hotspot/share/runtime/vmStructs.cpp`; the serviceability agent reads the same). Code lies in the heaps of the code cache:
//! a map of segments leads from an address to the block that holds it (`memory/heap.cpp`), and a compiled method's block to its method,
//! that to its names (`code/nmethod.hpp`, `oops/method.hpp`, `oops/constantPool.hpp`). Tried with versions 17 and 25.
//!
//! The machine goes on meanwhile, so that anything may be read: what makes no sense is left out.

mod layout;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use layout::{Layout, loaded, symbols};

/// Memory of a process.
pub trait Memory {
    /// Fills `bytes` with what is at `address`; none if not all of it can be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
}

/// A piece of code that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCode {
    /// Where it lies.
    pub addresses: Range<u64>,
    /// `package.Class.method`, or what the machine calls what is no method.
    pub name: String,
}

/// Heaps of code; there are three at the most.
const HEAPS_MAX: u32 = 16;
/// So many steps lead to the begin of the largest block: one passes 254 segments.
const STEPS_MAX: usize = 1 << 12;
/// A segment that holds no block.
const FREE: u8 = 0xff;
/// Larger blocks are none (bytes).
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Names are cut there (bytes).
const NAME_BYTES_MAX: usize = 512;

pub(crate) fn word<const BYTES: usize>(memory: &dyn Memory, address: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    memory.read(address, &mut bytes)?;
    Some(bytes)
}

pub(crate) fn pointer(memory: &dyn Memory, address: u64) -> Option<u64> {
    word(memory, address).map(u64::from_le_bytes)
}

pub(crate) fn int(memory: &dyn Memory, address: u64) -> Option<u32> {
    word(memory, address).map(u32::from_le_bytes)
}

/// Text that ends with a zero.
pub(crate) fn text(memory: &dyn Memory, address: u64) -> Option<String> {
    let mut bytes = Vec::new();
    // Piece by piece: behind it there may be nothing.
    while bytes.len() < NAME_BYTES_MAX {
        let piece = word::<8>(memory, address.checked_add(bytes.len() as u64)?)?;
        let end = piece.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(piece.get(..end.unwrap_or(piece.len()))?);
        if end.is_some() {
            break;
        }
    }
    String::from_utf8(bytes).ok()
}

/// A heap of code.
struct Heap {
    code: Range<u64>,
    segments: u64,
    segment_shift: u32,
}

impl Layout {
    /// The code that holds an address, if the machine has a name for it.
    pub fn code_at(&self, memory: &dyn Memory, address: u64) -> Option<NamedCode> {
        let heap = self.heaps(memory)?.into_iter().find(|heap| heap.code.contains(&address))?;
        let block = self.block(memory, &heap, address)?;
        let blob = block.start.checked_add(self.block_header_bytes)?;
        let kind = text(memory, pointer(memory, blob.checked_add(self.blob_name)?)?)?;
        let name = match kind.as_str() {
            "nmethod" | "native nmethod" => self.method_name(memory, blob)?,
            _ => kind,
        };
        let is_name = !name.is_empty() && !name.chars().any(char::is_control);
        is_name.then_some(NamedCode { addresses: block, name })
    }

    fn heaps(&self, memory: &dyn Memory) -> Option<Vec<Heap>> {
        let list = pointer(memory, self.heaps)?;
        let count = int(memory, list.checked_add(self.list_length)?)?.min(HEAPS_MAX);
        let first = pointer(memory, list.checked_add(self.list_data)?)?;
        let heap = |number: u32| {
            let heap = pointer(memory, first.checked_add(u64::from(number) * 8)?)?;
            let at = |offset: u64, within: u64| heap.checked_add(offset)?.checked_add(within);
            Some(Heap {
                code: pointer(memory, at(self.heap_memory, self.space_low)?)?
                    ..pointer(memory, at(self.heap_memory, self.space_high)?)?,
                segments: pointer(memory, at(self.heap_segments, self.space_low)?)?,
                segment_shift: int(memory, at(self.heap_segment_shift, 0)?).filter(|shift| *shift < 32)?,
            })
        };
        Some((0..count).filter_map(heap).collect())
    }

    /// The block of a heap that holds an address, and is in use (`CodeHeap::find_block_for`).
    fn block(&self, memory: &dyn Memory, heap: &Heap, address: u64) -> Option<Range<u64>> {
        let mut segment = (address - heap.code.start) >> heap.segment_shift;
        for _ in 0..STEPS_MAX {
            let [back] = word::<1>(memory, heap.segments.checked_add(segment)?)?;
            if back == FREE {
                return None;
            }
            if back == 0 {
                return self.used_block(memory, heap, segment).filter(|block| block.contains(&address));
            }
            segment = segment.checked_sub(u64::from(back))?;
        }
        None
    }

    fn used_block(&self, memory: &dyn Memory, heap: &Heap, segment: u64) -> Option<Range<u64>> {
        let start = heap.code.start.checked_add(segment.checked_shl(heap.segment_shift)?)?;
        let at = start.checked_add(self.block_length)?;
        let length =
            if self.block_length_bytes == 8 { pointer(memory, at)? } else { u64::from(int(memory, at)?) };
        let [is_used] = word::<1>(memory, start.checked_add(self.block_used)?)?;
        let bytes = length.checked_mul(1 << heap.segment_shift)?;
        (is_used != 0 && bytes <= BLOCK_BYTES_MAX).then_some(start..start.checked_add(bytes)?)
    }

    fn method_name(&self, memory: &dyn Memory, blob: u64) -> Option<String> {
        let follow =
            |from: u64, offset: u64| pointer(memory, from.checked_add(offset)?).filter(|to| *to != 0);
        let constant_method = follow(follow(blob, self.blob_method)?, self.method_constant)?;
        let pool = follow(constant_method, self.constant_pool)?;
        let index =
            word(memory, constant_method.checked_add(self.constant_name_index)?).map(u16::from_le_bytes)?;
        let name = follow(pool, self.pool_bytes.checked_add(u64::from(index) * 8)?)?;
        let class = follow(follow(pool, self.pool_holder)?, self.class_name)?;
        let (class, name) = (self.symbol(memory, class)?, self.symbol(memory, name)?);
        // What tells apart classes that were made while it ran is another address each time.
        let class = class.split_once("+0x").map_or(class.as_str(), |(class, _)| class);
        Some(format!("{}.{name}", class.replace('/', ".")))
    }

    fn symbol(&self, memory: &dyn Memory, symbol: u64) -> Option<String> {
        let length = word(memory, symbol.checked_add(self.symbol_length)?).map(u16::from_le_bytes)?;
        let mut bytes = vec![0; usize::from(length).min(NAME_BYTES_MAX)];
        memory.read(symbol.checked_add(self.symbol_body)?, &mut bytes)?;
        // Cut in the midst of a letter, at the worst.
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
