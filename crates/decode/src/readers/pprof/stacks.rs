//! The stacks of a profile, each defined once.

use std::collections::HashMap;

use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, FrameKind};

use super::message::{Function, Location, Mapping, Profile};
use crate::imported::{Names, TEXT_MAX, cut};

/// Frames of a stack that are kept, the leaf's side.
const FRAMES_MAX: usize = 512;

/// Binaries and functions by their numbers.
struct Known<'a> {
    mappings: HashMap<u64, &'a Mapping>,
    functions: HashMap<u64, &'a Function>,
}

/// Places of the profile by their numbers.
pub(super) struct Places {
    texts: Vec<String>,
    /// The frame addresses of each location.
    addresses: HashMap<u64, Vec<u64>>,
    /// Distinct frames.
    pub names: Names,
}

impl Places {
    pub fn new(profile: &Profile) -> Places {
        // A writer may take names from binaries as they are: not all of them are UTF-8.
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let texts = profile.string_table.iter().map(text).collect();
        let mut places = Places { texts, addresses: HashMap::new(), names: Names::default() };
        let known = Known {
            mappings: profile.mapping.iter().map(|mapping| (mapping.id, mapping)).collect(),
            functions: profile.function.iter().map(|function| (function.id, function)).collect(),
        };
        let mut names = Names::default();
        for location in &profile.location {
            let addresses = places.frames(location, &known, &mut names);
            places.addresses.insert(location.id, addresses);
        }
        places.names = names;
        places
    }

    /// The stack of these locations, leaf first, without a number.
    pub fn stack(&self, locations: &[u64]) -> RawStack {
        let frames = locations.iter().filter_map(|location| self.addresses.get(location)).flatten();
        let addresses = frames.take(FRAMES_MAX).copied().collect();
        RawStack { addresses, ..RawStack::default() }
    }

    /// A text by its index. Truncated to [`TEXT_MAX`], because many items may refer to one long text.
    pub fn text(&self, number: i64) -> &str {
        let text = usize::try_from(number).ok().and_then(|number| self.texts.get(number));
        text.map_or("", |text| cut(text, TEXT_MAX))
    }

    /// The frame addresses of a location, innermost first.
    fn frames(&self, location: &Location, known: &Known<'_>, names: &mut Names) -> Vec<u64> {
        let mapping = known.mappings.get(&location.mapping_id);
        let module = mapping.map_or("", |mapping| self.text(mapping.filename));
        let kind = if module == "[kernel.kallsyms]" { FrameKind::Kernel } else { FrameKind::User };
        let (start, shift) = mapping.map_or((0, 0), |mapping| (mapping.memory_start, mapping.file_offset));
        let base = Frame {
            kind,
            module: module.to_owned(),
            offset: location.address.wrapping_sub(start).wrapping_add(shift),
            ..Frame::default()
        };
        let last = location.line.len().saturating_sub(1);
        let frame = |(index, line): (usize, &super::message::Line)| {
            let function = known.functions.get(&line.function_id)?;
            Some(names.frame(Frame {
                function: self.text(function.name).to_owned(),
                file: self.text(function.filename).to_owned(),
                line: u32::try_from(line.line).unwrap_or(0),
                inlined: index < last,
                ..base.clone()
            }))
        };
        let frames: Vec<u64> = location.line.iter().enumerate().filter_map(frame).collect();
        if frames.is_empty() { vec![names.frame(base)] } else { frames }
    }
}
