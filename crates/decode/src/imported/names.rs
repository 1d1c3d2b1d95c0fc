//! Stacks of files that carry names in place of addresses.

use std::collections::HashMap;

use holdup_events::tables::{Frame, FrameKind, Frames, StackRow, Stacks};
use holdup_events::{FrameId, StackId};

use crate::states::Catalogue;

/// Distinct frames; what readers give as the "address" of a frame is its place here.
#[derive(Clone, Debug, Default)]
pub struct Names {
    frames: Frames,
    places: HashMap<Frame, u64>,
}

impl Names {
    /// The place of a function of `module`.
    pub(crate) fn place(&mut self, function: &str, module: &str, in_kernel: bool) -> u64 {
        self.frame(Frame {
            kind: if in_kernel { FrameKind::Kernel } else { FrameKind::User },
            function: function.to_owned(),
            module: module.to_owned(),
            ..Frame::default()
        })
    }

    /// The place of a frame.
    pub(crate) fn frame(&mut self, frame: Frame) -> u64 {
        let next = self.frames.len() as u64;
        *self.places.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    /// Stacks and frames of a recording, in the order that [`crate::symbols::Symbols::resolve`] gives them.
    pub fn resolve(&self, catalogue: &Catalogue) -> (Stacks, Frames) {
        let mut frames = self.frames.clone();
        let unknown = FrameId(frames.len() as u32);
        frames.push(Frame::default());
        let leaves = catalogue.stacks.len().max(1);
        let mut rows = vec![StackRow::default(); leaves];
        let mut parents: Vec<StackRow> = Vec::new();
        let mut parent_ids: HashMap<StackRow, StackId> = HashMap::new();
        for (row, raw) in rows.iter_mut().zip(&catalogue.stacks).skip(1) {
            let mut below = StackId::NONE;
            *row = StackRow { frame: unknown, ..StackRow::default() };
            let addresses = raw.as_ref().map_or(&[][..], |raw| &raw.addresses);
            for (index, place) in addresses.iter().enumerate().rev() {
                let frame = u32::try_from(*place).map_or(unknown, |place| FrameId(place.min(unknown.0)));
                let level = StackRow { frame, parent: below, ..StackRow::default() };
                if index == 0 {
                    *row = level;
                    break;
                }
                let next = StackId((leaves + parents.len()) as u32);
                below = *parent_ids.entry(level).or_insert_with(|| {
                    parents.push(level);
                    next
                });
            }
        }
        rows.append(&mut parents);
        (Stacks::from_rows(rows), frames)
    }
}
