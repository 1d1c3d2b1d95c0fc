//! The cost of one function by the exact place in its code.

use std::collections::{BTreeMap, BTreeSet};

use holdup_events::tables::{Frame, FrameKind};
use holdup_events::{FrameId, StackId, Trace};

use super::folding::matches;
use super::observations::{Observation, Selection, observe};
use super::tally::Tally;

/// Cost of one place in the code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spot {
    /// There itself.
    pub own: Tally,
    /// Time in calls made from there. A recursive call counts once.
    pub below: Tally,
    /// Source file of the innermost inlined call, as in the debug information. Empty if unknown.
    pub file: String,
    /// Line in `file`, from 1. 0 if unknown.
    pub line: u32,
}

/// A function's cost by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionCost {
    /// Display name of the function. For code without a symbol, the name of the first place seen.
    pub function: String,
    /// Path of its binary as the process saw it.
    pub module: String,
    /// Build id of the mapped binary. Empty if unknown.
    pub build_id: Vec<u8>,
    /// Offset of the function's start in the file, if it has a symbol.
    pub start: Option<u64>,
    /// By offset in the binary's file. For a call, an offset within the call instruction.
    pub spots: BTreeMap<u64, Spot>,
    /// Total of the selection, over all functions.
    pub all: Tally,
}

impl FunctionCost {
    /// Time between two offsets.
    pub fn between(&self, from: u64, to: u64) -> Spot {
        let mut sum = Spot::default();
        for spot in self.spots.range(from..to.max(from)).map(|(_, spot)| spot) {
            sum.own.merge(&spot.own);
            sum.below.merge(&spot.below);
        }
        sum
    }
}

/// Functions of a binary that match `pattern` (like [`super::Profile::find`]), most own time first. A place
/// without a symbol is named `file+0xoffset`. All such places of its binary are then one row.
pub fn derive(trace: &Trace, selection: &Selection, pattern: &str) -> Vec<FunctionCost> {
    let wanted = wanted(trace, pattern);
    let mut functions: BTreeMap<(String, String), FunctionCost> = BTreeMap::new();
    let mut all = Tally::default();
    for seen in observe(trace, selection).observations {
        all.add(&seen);
        if seen.stack != StackId::NONE {
            add(trace, &wanted, &seen, &mut functions);
        }
    }
    let mut list: Vec<FunctionCost> = functions.into_values().collect();
    for function in &mut list {
        function.all = all;
        let mapped = trace.mappings.iter().find(|mapping| mapping.path == function.module);
        function.build_id = mapped.map(|mapping| mapping.build_id.clone()).unwrap_or_default();
    }
    let cost = |function: &FunctionCost| {
        let spot = function.between(0, u64::MAX);
        // A caller of all others has much time below, and none that its instructions could explain.
        (spot.own.ns, spot.below.ns)
    };
    list.sort_by(|a, b| cost(b).cmp(&cost(a)).then_with(|| a.module.cmp(&b.module)));
    list
}

/// User frames that match the pattern.
fn wanted(trace: &Trace, pattern: &str) -> BTreeSet<FrameId> {
    let ids = || (0..trace.frames.len() as u32).map(FrameId);
    let user = |id: &FrameId| trace.frames[id.index()].kind == FrameKind::User;
    let means: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name == pattern, &|name| matches(pattern, name), &|name| name.contains(pattern)];
    for meant in means {
        let found: BTreeSet<FrameId> =
            ids().filter(user).filter(|id| meant(&trace.frame_name(*id))).collect();
        if !found.is_empty() {
            // A place without a symbol represents its whole function, whose other places have other names.
            let bare: BTreeSet<&str> = found
                .iter()
                .map(|id| &trace.frames[id.index()])
                .filter(|frame| frame.function.is_empty())
                .map(|frame| frame.module.as_str())
                .collect();
            let alike = |id: &FrameId| {
                let frame = &trace.frames[id.index()];
                frame.function.is_empty() && bare.contains(frame.module.as_str())
            };
            return ids().filter(user).filter(|id| found.contains(id) || alike(id)).collect();
        }
    }
    BTreeSet::new()
}

/// Counts each wanted place of a stack once, however often it recurs and whatever was inlined there.
fn add(
    trace: &Trace,
    wanted: &BTreeSet<FrameId>,
    seen: &Observation,
    functions: &mut BTreeMap<(String, String), FunctionCost>,
) {
    let frames: Vec<FrameId> = trace.stack_frames(seen.stack).collect();
    let mut counted: BTreeSet<(&str, u64)> = BTreeSet::new();
    for (at, id) in frames.iter().enumerate().filter(|(_, id)| wanted.contains(id)) {
        let frame = &trace.frames[id.index()];
        if !counted.insert((&frame.module, frame.offset)) {
            continue;
        }
        let function =
            functions.entry((frame.module.clone(), frame.function.clone())).or_insert_with(|| FunctionCost {
                function: trace.frame_name(*id),
                module: frame.module.clone(),
                start: frame.offset.checked_sub(frame.function_offset).filter(|_| !frame.function.is_empty()),
                ..FunctionCost::default()
            });
        let spot = function.spots.entry(frame.offset).or_default();
        let inlined = same_place(trace, &frames[..at], frame);
        let innermost = &trace.frames[frames[at - inlined].index()];
        if spot.line == 0 {
            (spot.file, spot.line) = (innermost.file.clone(), innermost.line);
        }
        let own = inlined == at;
        if own { spot.own.add(seen) } else { spot.below.add(seen) }
    }
}

/// Number of callee frames (leaf first) that were inlined at the frame's own place.
fn same_place(trace: &Trace, above: &[FrameId], frame: &Frame) -> usize {
    let same = |id: &&FrameId| {
        let other = &trace.frames[id.index()];
        other.inlined && other.offset == frame.offset && other.module == frame.module
    };
    above.iter().rev().take_while(same).count()
}
