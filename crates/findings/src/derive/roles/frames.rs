//! Which rules each frame of a recording matches, whoever's stack it is in.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use holdup_events::Trace;
use holdup_events::tables::{Frame, FrameKind};

use crate::derive::stacks::folding::matches;
use crate::descriptors::{Descriptors, plain_name};

/// Rules that match a frame, by the position of the frame that they require. Ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Matched {
    /// The frame must be the innermost.
    pub leaf: Vec<u16>,
    /// The frame may be at any depth.
    pub any: Vec<u16>,
    /// The frame must be in the stack in addition to the rule's own match.
    pub within: Vec<u16>,
}

/// Matching rules of each frame.
pub(super) struct FrameRules {
    /// Row of `sets` by frame. Row 0 matches nothing.
    of_frame: Vec<u32>,
    sets: Vec<Matched>,
    /// By rule: whether it requires another function in addition to its match.
    asks_more: Vec<bool>,
}

impl FrameRules {
    /// Evaluates each distinct name once.
    pub fn new(trace: &Trace, descriptors: &Descriptors) -> FrameRules {
        let functions = Patterns::new(descriptors, |rule| [&rule.leaf, &rule.any, &rule.within]);
        let modules = Patterns::new(descriptors, |rule| [&rule.leaf_module, &rule.module, &NO_PATTERNS]);
        let nameless = Patterns::new(descriptors, |rule| [&rule.leaf_nameless, &NO_PATTERNS, &NO_PATTERNS]);
        let asks_more = descriptors.rules().map(|(_, rule)| !rule.within.is_empty()).collect();
        let mut of_function: HashMap<&str, Matched> = HashMap::new();
        let mut of_module: HashMap<&str, Matched> = HashMap::new();
        let mut of_nameless: HashMap<&str, Matched> = HashMap::new();
        let mut sets = vec![Matched::default()];
        let mut index: HashMap<Matched, u32> = HashMap::from([(Matched::default(), 0)]);
        let of_frame = trace.frames.iter().map(|frame| {
            if frame.kind == FrameKind::Kernel {
                return 0;
            }
            let by_function = of_function
                .entry(&frame.function)
                .or_insert_with(|| functions.match_name(&plain_name(&frame.function)));
            let by_module = of_module
                .entry(&frame.module)
                .or_insert_with(|| modules.match_name(&file_name(&frame.module)));
            let both = if frame.function.is_empty() {
                let of_module = || nameless.match_name(&file_name(&frame.module));
                of_nameless.entry(&frame.module).or_insert_with(of_module).merged(by_module)
            } else {
                by_function.merged(by_module)
            };
            *index.entry(both).or_insert_with_key(|both| {
                sets.push(both.clone());
                sets.len() as u32 - 1
            })
        });
        let of_frame = of_frame.collect();
        FrameRules { of_frame, sets, asks_more }
    }

    /// Rules that match a frame.
    pub fn rules_of(&self, frame: usize) -> &Matched {
        &self.sets[self.of_frame.get(frame).copied().unwrap_or(0) as usize]
    }

    /// Whether a rule matches only where [`Matched::within`] has it, too.
    pub fn asks_more(&self, rule: u16) -> bool {
        self.asks_more.get(usize::from(rule)).copied().unwrap_or(false)
    }
}

impl Matched {
    fn merged(&self, other: &Matched) -> Matched {
        let both = |a: &[u16], b: &[u16]| -> Vec<u16> {
            a.iter().chain(b).copied().collect::<BTreeSet<u16>>().into_iter().collect()
        };
        Matched {
            leaf: both(&self.leaf, &other.leaf),
            any: both(&self.any, &other.any),
            within: both(&self.within, &other.within),
        }
    }
}

/// A rule has none of that kind.
static NO_PATTERNS: Vec<String> = Vec::new();

/// Patterns of all rules for one kind of name. Patterns without `*` are in a hash table. Each has its rule,
/// and its list in the rule: leaf, any, within.
struct Patterns<'a> {
    literal: HashMap<&'a str, Vec<(u16, usize)>>,
    starred: Vec<(&'a str, u16, usize)>,
}

impl<'a> Patterns<'a> {
    fn new(
        descriptors: &'a Descriptors,
        lists: impl Fn(&'a crate::descriptors::Rule) -> [&'a Vec<String>; 3],
    ) -> Patterns<'a> {
        let mut patterns = Patterns { literal: HashMap::new(), starred: Vec::new() };
        for (id, (_, rule)) in descriptors.rules().enumerate() {
            let all = lists(rule).into_iter().enumerate();
            for (text, list) in all.flat_map(|(list, texts)| texts.iter().map(move |text| (text, list))) {
                match text.contains('*') {
                    true => patterns.starred.push((text, id as u16, list)),
                    false => patterns.literal.entry(text).or_default().push((id as u16, list)),
                }
            }
        }
        patterns
    }

    fn match_name(&self, name: &str) -> Matched {
        if name.is_empty() {
            return Matched::default();
        }
        let literal = self.literal.get(name).into_iter().flatten().copied();
        let starred = self.starred.iter().filter(|(pattern, ..)| matches(pattern, name));
        let all: BTreeSet<(u16, usize)> = literal.chain(starred.map(|(_, id, list)| (*id, *list))).collect();
        let only =
            |wanted: usize| all.iter().filter(|(_, list)| *list == wanted).map(|(id, _)| *id).collect();
        Matched { leaf: only(0), any: only(1), within: only(2) }
    }
}

/// Which runtimes are in which binaries: row of the descriptors by path of the module.
pub(super) fn runtimes_by_module<'a>(
    trace: &'a Trace,
    descriptors: &Descriptors,
) -> HashMap<&'a str, BTreeSet<usize>> {
    let mut found: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    let frames = trace.frames.iter().filter(|frame| frame.kind != FrameKind::Kernel);
    let paths: BTreeSet<&str> = frames
        .clone()
        .map(module_of)
        .chain(trace.mappings.iter().map(|mapping| mapping.path.as_str()))
        .collect();
    let functions: BTreeSet<(&str, &str)> =
        frames.map(|frame| (module_of(frame), frame.function.as_str())).collect();
    for (row, runtime) in descriptors.runtimes().iter().enumerate() {
        let by_file = |path: &&&str| runtime.module_marks.iter().any(|mark| matches(mark, &file_name(path)));
        for path in paths.iter().filter(by_file) {
            found.entry(path).or_default().insert(row);
        }
    }
    for (module, function) in functions.into_iter().filter(|(_, function)| !function.is_empty()) {
        let plain = plain_name(function);
        for (row, runtime) in descriptors.runtimes().iter().enumerate() {
            if runtime.function_marks.iter().any(|mark| matches(mark, &plain)) {
                found.entry(module).or_default().insert(row);
            }
        }
    }
    found
}

fn module_of(frame: &Frame) -> &str {
    &frame.module
}

/// File name of a path, under the library's usual name. A package with its own copy (a Python wheel) appends
/// a hash of eight digits to the name, which is removed.
pub fn file_name(path: &str) -> Cow<'_, str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, version)) = name.find(".so").map(|at| name.split_at(at)) else { return name.into() };
    let is_hash = |part: &str| part.len() == HASH_DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut library = stem;
    while let Some((rest, _)) = library.rsplit_once('-').filter(|(_, last)| is_hash(last)) {
        library = rest;
    }
    if library == stem { name.into() } else { format!("{library}{version}").into() }
}

/// As auditwheel makes it.
const HASH_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheels_copy_of_a_library_is_that_library() {
        assert_eq!(file_name("/lib/sklearn.libs/libgomp-e985bcbb.so.1.0.0"), "libgomp.so.1.0.0");
        assert_eq!(file_name("libgfortran-040039e1-0352e75f.so.5"), "libgfortran.so.5");
        for same in
            ["/usr/lib/libgomp.so.1", "/bin/java", "libfoo-deadbeef", "libc-2.31.so", "lib-12345678x.so"]
        {
            assert_eq!(file_name(same), same.rsplit('/').next().unwrap());
        }
    }
}
