//! Methods that the machine interprets: where its frames are found, and what a method that one of them names is.

use super::{Layout, frames_x86_64, is_name};
use crate::interpreted::{Interpreted, KernelLayout, Standing, identity};
use crate::process_memory::{Memory, NamedCode, int, pointer};

/// More code than this no interpreter has (bytes).
const CODE_BYTES_MAX: u32 = 16 << 20;

impl Layout {
    /// How frames of the interpreter are known and read (`struct frame_interpreter`); none before it was made.
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
        Some(KernelLayout::Frames(bytes))
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
