//! Stacks of addresses → rows of (frame, caller's stack), each distinct one once.

use std::collections::HashMap;

use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, Frames, StackEnd, StackRow, Stacks};
use holdup_events::{FrameId, ProcessId, StackId};

use super::interpreter::order;
use super::kernel::KernelSymbols;
use super::spots::{Spots, looked_up, via};
use crate::states::Catalogue;

/// Row k is the catalogue's stack k. Callers are later rows.
pub fn build(catalogue: &Catalogue, spots: &Spots<'_>, kernel: &KernelSymbols) -> (Stacks, Frames) {
    let leaves = catalogue.stacks.len().max(1);
    let mut interned = Interned::new(spots, kernel, leaves as u32);
    let mut rows = vec![StackRow::default(); leaves];
    for (row, raw) in rows.iter_mut().zip(&catalogue.stacks) {
        if let Some(stack) = raw.as_ref().and_then(|raw| interned.stack(raw)) {
            *row = stack;
        }
    }
    // A stack that was never defined has no frame to show.
    let unknown = interned.frame(Frame::default());
    for (row, raw) in rows.iter_mut().zip(&catalogue.stacks).skip(1) {
        if raw.is_none() {
            *row = StackRow { frame: unknown, ..StackRow::default() };
        }
    }
    rows.append(&mut interned.callers);
    (Stacks::from_rows(rows), interned.frames)
}

/// An address of a process, or of the kernel.
type Code = (ProcessId, u64, bool);

/// Frames and stacks while they are interned.
struct Interned<'a> {
    spots: &'a Spots<'a>,
    kernel: &'a KernelSymbols,
    leaves: u32,
    frames: Frames,
    frame_ids: HashMap<Frame, FrameId>,
    /// The frames at an address, outermost first.
    codes: HashMap<Code, Vec<FrameId>>,
    /// The same, by binary and offset in its file.
    named: HashMap<(usize, u64), Vec<FrameId>>,
    callers: Vec<StackRow>,
    caller_ids: HashMap<StackRow, u32>,
}

impl<'a> Interned<'a> {
    fn new(spots: &'a Spots<'a>, kernel: &'a KernelSymbols, leaves: u32) -> Interned<'a> {
        Interned {
            spots,
            kernel,
            leaves,
            frames: Frames::new(),
            frame_ids: HashMap::new(),
            codes: HashMap::new(),
            named: HashMap::new(),
            callers: Vec::new(),
            caller_ids: HashMap::new(),
        }
    }

    fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(id) = self.frame_ids.get(&frame) {
            return *id;
        }
        let id = self.push(frame.clone());
        self.frame_ids.insert(frame, id);
        id
    }

    fn push(&mut self, frame: Frame) -> FrameId {
        self.frames.push(frame);
        FrameId((self.frames.len() - 1) as u32)
    }

    fn caller(&mut self, row: StackRow) -> StackId {
        let next = self.leaves + self.callers.len() as u32;
        let id = *self.caller_ids.entry(row).or_insert(next);
        if id == next {
            self.callers.push(row);
        }
        StackId(id)
    }

    /// The row of the leaf. The rows of its callers are interned.
    fn stack(&mut self, raw: &RawStack) -> Option<StackRow> {
        let codes = self.codes_of(raw);
        let mut leaf: Option<StackRow> = None;
        for index in order(raw, |index| self.outermost(codes.get(index)?)).into_iter().rev() {
            let Some(code) = codes.get(index).copied() else { continue };
            let via = via(raw, index);
            let count = self.codes.get(&code).map_or(0, Vec::len);
            for number in 0..count {
                let Some(frame) = self.codes.get(&code).and_then(|ids| ids.get(number)).copied() else {
                    continue;
                };
                let (parent, end) = match leaf {
                    Some(row) => (self.caller(row), StackEnd::Unknown),
                    None => (StackId::NONE, raw.end),
                };
                leaf = Some(StackRow { frame, parent, via, end });
            }
        }
        leaf
    }

    /// The code of each address in a stack, resolved to names.
    fn codes_of(&mut self, raw: &RawStack) -> Vec<Code> {
        let process = self.spots.process(raw.tgid);
        let mut codes = Vec::with_capacity(raw.addresses.len());
        for (index, address) in raw.addresses.iter().enumerate() {
            let code = (process, looked_up(raw, index, *address), index < usize::from(raw.kernel_frames));
            self.name(code, raw);
            codes.push(code);
        }
        codes
    }

    /// The function there, without the functions inlined into it.
    fn outermost(&self, code: &Code) -> Option<&Frame> {
        self.frames.get(self.codes.get(code)?.first()?.index())
    }

    fn name(&mut self, code: Code, raw: &RawStack) {
        if self.codes.contains_key(&code) {
            return;
        }
        let (process, address, in_kernel) = code;
        if in_kernel {
            let frame = self.frame(self.kernel.frame(address));
            self.codes.insert(code, vec![frame]);
            return;
        }
        // Names may be long, so code at the same place of a file is compared by place.
        let named = self.spots.named((process, address));
        if let Some(ids) = named.and_then(|named| self.named.get(&named)) {
            self.codes.insert(code, ids.clone());
            return;
        }
        let frames = self.spots.frames((process, address), raw.at).into_iter().rev();
        let ids: Vec<FrameId> = match named {
            Some(_) => frames.map(|frame| self.push(frame)).collect(),
            None => frames.map(|frame| self.frame(frame)).collect(),
        };
        if let Some(named) = named {
            self.named.insert(named, ids.clone());
        }
        self.codes.insert(code, ids);
    }
}
