//! Lines of collections: names, durations, and heap usage.

use super::line::length;

/// `GC(3) Pause Young (Normal) (G1 Evacuation Pause) 27M->5M(64M) 139.931ms`: the name without cause and sizes, and the
/// length. Lines that only announce have none.
pub(super) fn collection(text: &str) -> Option<(&str, u64)> {
    let (number, rest) = text.strip_prefix("GC(")?.split_once(") ")?;
    number.parse::<u64>().ok()?;
    // The generations of generational ZGC.
    let rest = ["Y: ", "y: ", "O: "].iter().find_map(|prefix| rest.strip_prefix(prefix)).unwrap_or(rest);
    // ZGC's whole collections, whose durations are in seconds.
    let whole = rest.starts_with("Major Collection ") || rest.starts_with("Minor Collection ");
    if !rest.starts_with("Pause ") && !rest.starts_with("Concurrent ") && !whole {
        return None;
    }
    let (rest, length_text) = rest.rsplit_once(' ')?;
    let length_ns = length(length_text)?;
    // A second pair of parentheses is the cause. Words with digits are sizes.
    let name = rest.split(" (").next().map_or(rest, |first| match rest.strip_prefix("Pause Young (") {
        Some(kind) => kind.find(')').and_then(|end| rest.get(..14 + end)).unwrap_or(first),
        None => first,
    });
    let name_end = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(name.len());
    Some((name.get(..name_end)?.trim_end(), length_ns))
}

/// A collection of ZGC's whole heap, of which the log has begin and end but no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<'a> {
    /// Collection number in the log.
    pub number: u64,
    pub name: &'a str,
    /// Cause and sizes, as they are written.
    pub about: &'a str,
    /// The line that ends it has sizes.
    pub ends: bool,
}

/// `GC(3) Garbage Collection (Allocation Rate) 40M(62%)->6M(9%)`, or without sizes the line that announces it.
pub(super) fn whole(text: &str) -> Option<Whole<'_>> {
    let (number, rest) = text.strip_prefix("GC(")?.split_once(") ")?;
    let number = number.parse().ok()?;
    let names = ["Garbage Collection", "Major Collection", "Minor Collection"];
    let name = names.into_iter().find(|name| rest.starts_with(name))?;
    let about = rest.get(name.len()..)?.trim();
    // A line with a length is read as other collections are.
    let is_whole = about.starts_with('(') && collection(text).is_none();
    is_whole.then_some(Whole { number, name, about, ends: about.contains("->") })
}

/// Heap usage before and after a collection, and the heap's size if it is not a percentage (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heap {
    pub before: u64,
    pub after: u64,
    pub size: Option<u64>,
}

/// `27M->5M(64M)` or `40M(62%)->6M(9%)`.
pub(super) fn heap(text: &str) -> Option<Heap> {
    let word = text.split(' ').find(|word| word.contains("->") && word.ends_with(')'))?;
    let (before, rest) = word.split_once("->")?;
    let (after, size) = rest.trim_end_matches(')').split_once('(')?;
    let before = before.split_once('(').map_or(before, |(used, _)| used);
    let size = if size.ends_with('%') { None } else { Some(bytes(size)?) };
    Some(Heap { before: bytes(before)?, after: bytes(after)?, size })
}

fn bytes(text: &str) -> Option<u64> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let shift = match unit {
        "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
