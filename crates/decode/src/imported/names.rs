//! Stacks of files with names instead of addresses.

use std::collections::HashMap;

use holdup_events::tables::{Frame, FrameKind, Frames, StackRow, Stacks};
use holdup_events::{FrameId, StackId};

use crate::states::Catalogue;

/// Longer names of threads are cut (bytes).
pub(crate) const NAME_MAX: usize = 256;
/// Longer names of functions and paths are cut (bytes): files have numbers for them, so that each costs next to nothing there.
pub(crate) const TEXT_MAX: usize = 1 << 12;
/// Distinct frames take no more (bytes): later ones share one without a name.
const FRAMES_BYTES_MAX: usize = 1 << 30;

/// A text, truncated to at most `bytes_max` bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or("")
}

/// Distinct frames. An importer uses a frame's index here as its "address".
#[derive(Clone, Debug, Default)]
pub struct Names {
    frames: Frames,
    places: HashMap<Frame, u64>,
    /// Size of the frames, see [`FRAMES_BYTES_MAX`].
    bytes: usize,
}

impl Names {
    /// The place of a function of `module`.
    pub(crate) fn place(&mut self, function: &str, module: &str, in_kernel: bool) -> u64 {
        self.frame(Frame {
            kind: if in_kernel { FrameKind::Kernel } else { FrameKind::User },
            function: cut(function, TEXT_MAX).to_owned(),
            module: cut(module, TEXT_MAX).to_owned(),
            ..Frame::default()
        })
    }

    /// The place of a frame.
    pub(crate) fn frame(&mut self, mut frame: Frame) -> u64 {
        let mut bytes = size_of::<Frame>();
        for text in [&mut frame.function, &mut frame.module, &mut frame.file] {
            if text.len() > TEXT_MAX {
                *text = cut(text, TEXT_MAX).to_owned();
            }
            bytes += text.len();
        }
        if let Some(place) = self.places.get(&frame) {
            return *place;
        }
        if self.bytes.saturating_add(bytes) > FRAMES_BYTES_MAX {
            frame = Frame { kind: frame.kind, ..Frame::default() };
        } else {
            self.bytes += bytes;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame {
        Frame { kind: FrameKind::User, function: function.to_owned(), line, ..Frame::default() }
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!((cut("abc", 3), cut("abc", 2), cut("", 2)), ("abc", "ab", ""));
        assert_eq!((cut("aé", 2), cut("aé", 3)), ("a", "aé"));
    }

    #[test]
    fn long_names_are_cut_wherever_they_come_from() {
        let (long, mut names) = ("x".repeat(10 * TEXT_MAX), Names::default());
        names.place(&long, &long, false);
        names.frame(Frame { file: long.clone(), ..frame(&long, 7) });
        assert_eq!((names.frame(frame(&long, 3)), names.frame(frame(&long, 3))), (2, 2));
        assert!(names.bytes < 10 * TEXT_MAX, "counted once each");
        for frame in &names.frames {
            assert_eq!(frame.function.len(), TEXT_MAX);
            assert!(frame.module.len() <= TEXT_MAX && frame.file.len() <= TEXT_MAX);
        }
    }

    #[test]
    fn more_frames_than_there_is_room_for_share_one_without_a_name() {
        let mut names = Names::default();
        let first = names.frame(frame("first", 1));
        names.bytes = FRAMES_BYTES_MAX - size_of::<Frame>() - 10;
        assert_eq!((names.frame(frame("second", 1)), names.frame(frame("third", 1))), (1, 2));
        let (third, fourth) = (names.frame(frame("third", 2)), names.frame(frame("fourth", 1)));
        assert_eq!((third, fourth), (2, 2), "the same");
        assert_eq!((names.frame(frame("first", 1)), first), (0, 0));
        let shared = Frame { kind: FrameKind::User, ..Frame::default() };
        assert_eq!(names.frames.get(2), Some(&shared));
    }
}
