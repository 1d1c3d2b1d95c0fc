//! Frames as a reader groups them: by module and function, without a symbol by module and offset.

use std::collections::{BTreeSet, HashMap};

use holdup_events::tables::{FrameKind, StackEnd};
use holdup_events::{FrameId, StackId, Trace};

use super::folding::matches;

/// A row of a profile's places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u32);

impl PlaceId {
    /// Row of the place.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A function, or a marker such as "(no stack)".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name for people: the function, `module+0xoffset`, or words in brackets.
    pub name: String,
    /// Path of the binary as the process saw it, or `[kernel]`, …. Empty if unknown.
    pub module: String,
    /// Where the code is.
    pub kind: FrameKind,
}

impl Place {
    /// File name of the module.
    pub fn file(&self) -> &str {
        self.module.rsplit('/').next().unwrap_or(&self.module)
    }
}

/// Places in `seen` that match `pattern`. Exact names come first, then matches with `*`, then names that
/// contain it. Returns the first of these groups that is not empty.
pub(super) fn find<'a>(
    places: &[Place],
    seen: impl Iterator<Item = &'a PlaceId>,
    pattern: &str,
) -> BTreeSet<PlaceId> {
    let seen: BTreeSet<PlaceId> = seen.copied().collect();
    let means: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name == pattern, &|name| matches(pattern, name), &|name| name.contains(pattern)];
    for meant in means {
        let is_meant = |id: &&PlaceId| places.get(id.index()).is_some_and(|place| meant(&place.name));
        let found: BTreeSet<PlaceId> = seen.iter().filter(is_meant).copied().collect();
        if !found.is_empty() {
            return found;
        }
    }
    BTreeSet::new()
}

/// Interned places, and the place of each frame.
pub(super) struct Places<'a> {
    trace: &'a Trace,
    list: Vec<Place>,
    index: HashMap<Place, PlaceId>,
    of_frame: Vec<Option<PlaceId>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(trace: &'a Trace) -> Places<'a> {
        Places { trace, list: Vec::new(), index: HashMap::new(), of_frame: vec![None; trace.frames.len()] }
    }

    pub(super) fn intern(&mut self, place: Place) -> PlaceId {
        if let Some(known) = self.index.get(&place) {
            return *known;
        }
        let id = PlaceId(self.list.len() as u32);
        self.list.push(place.clone());
        self.index.insert(place, id);
        id
    }

    pub(super) fn get(&self, id: PlaceId) -> &Place {
        &self.list[id.index()]
    }

    pub(super) fn finish(self) -> Vec<Place> {
        self.list
    }

    fn of_frame(&mut self, id: FrameId) -> PlaceId {
        if let Some(Some(known)) = self.of_frame.get(id.index()) {
            return *known;
        }
        let frame = self.trace.frames.get(id.index());
        let place = self.intern(Place {
            name: self.trace.frame_name(id),
            module: frame.map_or_else(String::new, |frame| frame.module.clone()),
            kind: frame.map_or(FrameKind::Unknown, |frame| frame.kind),
        });
        if let Some(slot) = self.of_frame.get_mut(id.index()) {
            *slot = Some(place);
        }
        place
    }

    /// Places of a stack, root first, with inlined calls unless `no_inlined`. A stack that was cut short
    /// begins with a marker.
    pub(super) fn of_stack(&mut self, stack: StackId, no_inlined: bool) -> Vec<PlaceId> {
        let is_inlined =
            |frame: &FrameId| self.trace.frames.get(frame.index()).is_some_and(|frame| frame.inlined);
        let frames: Vec<FrameId> =
            self.trace.stack_frames(stack).filter(|frame| !(no_inlined && is_inlined(frame))).collect();
        let mut path = Vec::with_capacity(frames.len() + 1);
        let end = self.trace.stacks.end(stack);
        if !matches!(end, StackEnd::Unknown | StackEnd::Root) {
            path.push(
                self.intern(Place { name: format!("(cut short: {})", end.name()), ..Place::default() }),
            );
        }
        path.extend(frames.iter().rev().map(|frame| self.of_frame(*frame)));
        path
    }
}
