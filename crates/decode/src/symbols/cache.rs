//! Stored names by build id, as readable text.
//!
//! The file starts with `holdup names 2`, followed by lines with tab-separated words:
//!
//! - `s TEXT` defines the next text (numbered from 0).
//! - `@ OFFSET DISTANCE` starts a place.
//! - `+ LINE FUNCTION FILE` is one of its calls, leaf first, by text numbers.
//! - `= COUNT` ends the place.
//!
//! Incomplete data is ignored.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use super::place::{Call, Place};

const HEAD: &str = "holdup names 2";

/// Places by file offset. `None` marks an offset without information.
pub type Known = BTreeMap<u64, Option<Place>>;

/// As it is kept.
pub fn encode(known: &Known) -> Vec<u8> {
    let mut text = format!("{HEAD}\n");
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    // Writing to a string does not fail.
    for (offset, place) in known {
        let calls = place.as_ref().map_or(&[][..], |place| place.calls.as_slice());
        for word in calls.iter().flat_map(|call| [&call.function, &call.file]) {
            let next = numbers.len();
            if *numbers.entry(word).or_insert(next) == next {
                let _ = writeln!(text, "s\t{}", word.replace(['\t', '\n', '\r'], " "));
            }
        }
        let number = |word: &String| numbers.get(word.as_str()).copied().unwrap_or_default();
        let _ = writeln!(text, "@\t{offset:x}\t{:x}", place.as_ref().map_or(0, |place| place.distance));
        for call in calls {
            let _ = writeln!(text, "+\t{}\t{}\t{}", call.line, number(&call.function), number(&call.file));
        }
    }
    let _ = writeln!(text, "=\t{}", known.len());
    text.into_bytes()
}

/// Decodes the output of [`encode`]. `None` for anything else.
pub fn decode(bytes: &[u8]) -> Option<Known> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != HEAD {
        return None;
    }
    let mut known = Known::new();
    let mut present: Option<(u64, Place)> = None;
    let mut keep = |place: Option<(u64, Place)>| {
        if let Some((offset, place)) = place {
            known.insert(offset, (!place.calls.is_empty()).then_some(place));
        }
    };
    let mut count = None;
    let mut texts: Vec<&str> = Vec::new();
    for line in lines {
        let mut words = line.split('\t');
        match (words.next()?, count) {
            ("s", None) => texts.push(words.next()?),
            ("@", None) => {
                let offset = u64::from_str_radix(words.next()?, 16).ok()?;
                let distance = u64::from_str_radix(words.next()?, 16).ok()?;
                keep(present.replace((offset, Place { calls: Vec::new(), distance })));
            }
            ("+", None) => {
                let line = words.next()?.parse().ok()?;
                let mut text = || Some((*texts.get(words.next()?.parse::<usize>().ok()?)?).to_owned());
                let (function, file) = (text()?, text()?);
                present.as_mut()?.1.calls.push(Call { function, file, line });
            }
            ("=", None) => count = Some(words.next()?.parse::<usize>().ok()?),
            _ => return None,
        }
    }
    keep(present.take());
    (count? == known.len()).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let call = |function: &str, line| Call { function: function.into(), file: "/a b.c".into(), line };
        let inlined = Place { calls: vec![call("inner<T>", 3), call("outer", 9)], distance: 0x1f };
        BTreeMap::from([(0x10, Some(inlined)), (0x20, None), (0x30, Some(Place::of_function("f".into(), 0)))])
    }

    #[test]
    fn what_is_kept_comes_back() {
        assert_eq!(decode(&encode(&known())), Some(known()));
        assert_eq!(decode(&encode(&Known::new())), Some(Known::new()));
    }

    #[test]
    fn what_is_not_whole_is_not_used() {
        let bytes = encode(&known());
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut]), None, "{cut}");
        }
        for other in ["holdup names 1", "holdup names 3"] {
            assert_eq!(decode(format!("{other}\n=\t0\n").as_bytes()), None, "{other}");
        }
    }
}
