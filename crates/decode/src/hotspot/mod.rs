//! Names of HotSpot's generated code, read from the memory of a running Java virtual machine without its
//! cooperation.
//!
//! The library publishes the offsets in its structures for debuggers: `gHotSpotVMStructs` and
//! `gHotSpotVMTypes` (`src/hotspot/share/runtime/vmStructs.cpp`, also read by the serviceability agent). Code
//! lies in the heaps of the code cache. A segment map leads from an address to its code block
//! (`memory/heap.cpp`). A compiled method's block leads to its method and names (`code/nmethod.hpp`,
//! `oops/method.hpp`, `oops/constantPool.hpp`). Tested with versions 17 and 25.
//!
//! The machine keeps running, so any value may be read. Implausible values are dropped.

mod frames_x86_64;
mod interpreted;
mod layout;
mod methods;
mod saved;
mod scopes;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::interpreted::{Interpreted, KernelLayout};
use crate::process_memory::{Memory, NamedCode, Names, int, pointer, word};
use crate::symbols::Call;

pub use layout::{Layout, loaded, symbols};
pub use saved::SavedMemory;

/// Maximum number of code heaps. There are at most three.
const HEAPS_MAX: u32 = 16;
/// Maximum steps to the start of the largest block. One step passes 254 segments.
const STEPS_MAX: usize = 1 << 12;
/// A segment that holds no block.
const FREE: u8 = 0xff;
/// Larger blocks are none (bytes).
const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Names are cut there (bytes).
const NAME_BYTES_MAX: usize = 512;

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
    /// Where code may come to be.
    end: u64,
    segments: u64,
    segment_shift: u32,
}

impl Names for Layout {
    /// The code at an address, if the machine has a name for it. The machine knows the inlined calls only at
    /// places where the method can be stopped. At other addresses, the calls of the next such place are
    /// returned.
    fn code_at(&self, memory: &dyn Memory, address: u64) -> Option<NamedCode> {
        if let Some(place) = Interpreted::from_address(address) {
            return self.interpreted(memory, place);
        }
        let heap = self.heaps(memory)?.into_iter().find(|heap| heap.code.contains(&address))?;
        let block = self.block(memory, &heap, address)?;
        let blob = block.start.checked_add(self.block_header_bytes)?;
        let kind = text(memory, pointer(memory, blob.checked_add(self.blob_name)?)?)?;
        let calls = match kind.as_str() {
            "nmethod" | "native nmethod" => {
                let inlined =
                    self.scopes.as_ref().and_then(|scopes| self.inlined(memory, scopes, blob, address));
                inlined.or_else(|| Some(vec![self.call(memory, self.method_of(memory, blob)?, None)?]))?
            }
            _ => vec![Call { function: kind, ..Call::default() }],
        };
        calls.iter().all(is_name).then_some(NamedCode { addresses: block, calls })
    }

    /// An address lies where the machine keeps its code, or may: heaps grow.
    fn is_code(&self, memory: &dyn Memory, address: u64) -> bool {
        let is_of = |heap: &Heap| (heap.code.start..heap.end).contains(&address);
        Interpreted::from_address(address).is_some()
            || self.heaps(memory).is_some_and(|heaps| heaps.iter().any(is_of))
    }

    fn kernel_layout(&self, memory: &dyn Memory) -> Option<KernelLayout> {
        self.frames(memory)
    }
}

/// Memory that changes while it is read may give any text.
fn is_name(call: &Call) -> bool {
    !call.function.is_empty() && !call.function.chars().any(char::is_control)
}

impl Layout {
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
                end: pointer(memory, at(self.heap_memory, self.space_end)?)?,
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
}
