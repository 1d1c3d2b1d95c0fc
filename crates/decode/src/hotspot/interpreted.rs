//! Methods that the machine interprets: where its frames are found, and what a method that one of them names is.

use super::layout::Frames;
use super::{Layout, frames_x86_64, is_name};
use crate::interpreted::{Interpreted, KernelLayout, Standing, identity};
use crate::process_memory::{Memory, NamedCode, int, pointer};

/// More code than this no interpreter has (bytes).
const CODE_BYTES_MAX: u32 = 16 << 20;

/// `CODE_HEAPS_MAX`.
const HEAPS_MAX: usize = 4;

impl Layout {
    /// How to detect and read frames of the interpreter and of compiled code (`struct hotspot`). `None`
    /// before the interpreter is initialized.
    pub(super) fn frames(&self, memory: &dyn Memory) -> Option<KernelLayout> {
        let told = self.interpreter.as_ref()?;
        let queue = pointer(memory, told.queue).filter(|queue| *queue != 0)?;
        let start = pointer(memory, queue.checked_add(told.queue_start)?).filter(|start| *start != 0)?;
        let code_bytes = int(memory, queue.checked_add(told.queue_bytes)?)?;
        let mut bytes = start.to_ne_bytes().to_vec();
        let code_bytes = Some(code_bytes).filter(|bytes| (1..CODE_BYTES_MAX).contains(bytes))?;
        bytes.extend(u64::from(code_bytes).to_ne_bytes());
        bytes.extend(frames_x86_64::FUNCTION.to_ne_bytes());
        bytes.extend(frames_x86_64::AT.to_ne_bytes());
        bytes.extend(u32::try_from(self.method_constant).ok()?.to_ne_bytes());
        bytes.extend(u32::try_from(self.constant_bytes?).ok()?.to_ne_bytes());
        self.add_code(memory, &mut bytes)?;
        Some(KernelLayout::Frames(bytes))
    }

    /// Code heaps, and where a code block stores its frame size. No heaps if that is unknown.
    fn add_code(&self, memory: &dyn Memory, bytes: &mut Vec<u8>) -> Option<()> {
        let told = self.frames.as_ref();
        let mut heaps = told.and_then(|_| self.heaps(memory)).unwrap_or_default();
        heaps.truncate(HEAPS_MAX);
        let shift = heaps.first().map_or(0, |heap| heap.segment_shift);
        heaps.retain(|heap| heap.segment_shift == shift);
        for number in 0..HEAPS_MAX {
            let heap = heaps.get(number).map_or([0; 3], |heap| [heap.code.start, heap.end, heap.segments]);
            heap.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        }
        let offset = |of: fn(&Frames) -> u64| u32::try_from(told.map_or(0, of)).ok();
        let numbers = [
            heaps.len() as u32,
            shift,
            u32::try_from(self.block_header_bytes).ok()?,
            offset(|told| told.size)?,
            offset(|told| told.complete)?,
            offset(|told| told.begin)?,
        ];
        numbers.iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
        let widths = told.map_or([0; 2], |told| [told.complete_bytes, told.begin_bytes]);
        widths.iter().for_each(|width| bytes.extend(width.to_ne_bytes()));
        bytes.extend([0; 4]);
        Some(())
    }

    /// The method that a frame named, if it is still there.
    pub(super) fn interpreted(&self, memory: &dyn Memory, place: Interpreted) -> Option<NamedCode> {
        let constant = pointer(memory, place.code.checked_add(self.method_constant)?)?;
        if place.standing != Standing::InPlace || identity(&[constant]) != place.identity {
            return None;
        }
        let call = self.call(memory, place.code, place.units).filter(is_name)?;
        let address = place.address();
        Some(NamedCode { addresses: address..address, calls: vec![call] })
    }
}
