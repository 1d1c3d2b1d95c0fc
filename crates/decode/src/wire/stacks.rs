//! Stacks, walked in the kernel or as registers and memory.

use holdup_events::event::{RawMemory, RawStack};
use holdup_events::tables::{FrameVia, StackEnd};

use super::layout::{Fields, size};
use crate::interpreted::Interpreted;

/// A stack that was walked in the kernel.
pub fn stack(fields: &Fields<'_>) -> Option<RawStack> {
    let (kernel_frames, user_frames) = (fields.u16(28), fields.u16(30));
    let count = usize::from(kernel_frames) + usize::from(user_frames);
    let bytes = fields.0.get(size::STACK..size::STACK + count * 8)?;
    let sent = Fields(bytes);
    let user = usize::from(kernel_frames)..count;
    Some(RawStack {
        at: fields.at(),
        id: fields.u64(16),
        tgid: fields.u32(24),
        kernel_frames,
        addresses: (0..count)
            .map(|index| {
                let word = sent.u64(index * 8);
                if user.contains(&index) { user_address(word) } else { word }
            })
            .collect(),
        vias: user.map(|index| via_of(sent.u64(index * 8))).collect(),
        end: StackEnd::from_code(fields.flags()).unwrap_or_default(),
        raw: None,
    })
}

/// Registers and memory of a stack that is still to be walked.
pub fn raw_stack(fields: &Fields<'_>) -> Option<RawStack> {
    let kernel_frames = fields.u16(28);
    let memory_at = size::RAW_STACK + usize::from(kernel_frames) * 8;
    let addresses = Fields(fields.0.get(size::RAW_STACK..memory_at)?);
    let memory = fields.0.get(memory_at..memory_at + usize::from(fields.u16(30)))?;
    Some(RawStack {
        at: fields.at(),
        id: fields.u64(16),
        tgid: fields.u32(24),
        kernel_frames,
        addresses: (0..usize::from(kernel_frames)).map(|index| addresses.u64(index * 8)).collect(),
        vias: Vec::new(),
        end: StackEnd::from_code(fields.flags()).unwrap_or_default(),
        raw: Some(Box::new(RawMemory {
            ip: fields.u64(32),
            sp: fields.u64(40),
            bp: fields.u64(48),
            bx: fields.u64(56),
            bytes: memory.to_vec(),
        })),
    })
}

/// User addresses have at most 56 bits. The rest is `enum wire_via`.
const USER_ADDRESS: u64 = u64::MAX >> 8;

/// The stored address of a user frame.
fn user_address(word: u64) -> u64 {
    if Interpreted::from_address(word).is_some() { word } else { word & USER_ADDRESS }
}

/// How a user frame was found.
fn via_of(word: u64) -> FrameVia {
    if Interpreted::from_address(word).is_some() { FrameVia::Interpreted } else { via((word >> 56) as u8) }
}

/// Decodes `enum wire_via`. The codes of `enum wire_end` equal those of [`StackEnd`].
fn via(code: u8) -> FrameVia {
    match code {
        0 => FrameVia::Registers,
        1 => FrameVia::Table,
        2 => FrameVia::FramePointer,
        3 => FrameVia::SignalFrame,
        4 => FrameVia::Scan,
        5 => FrameVia::LentFrame,
        _ => FrameVia::Unknown,
    }
}
