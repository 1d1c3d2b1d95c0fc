//! Converts code to instructions with their cost. For an interpreted function, to lines.

use holdup_events::tables::PYTHON_MODULE;
use holdup_findings::derive::stacks::Spot;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter};

use super::Annotation;

/// One instruction, or a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Instruction {
    /// In the file's own terms. For a line, its number.
    pub address: u64,
    /// As an assembler writes it. For a line, its source text.
    pub text: String,
    /// Where it jumps to, if that is within the function.
    pub target: Option<u64>,
    /// Source file and line, where known: only of instructions with a cost.
    pub place: Option<(String, u32)>,
    /// The cost.
    pub cost: Spot,
}

impl Instruction {
    pub(super) fn has_cost(&self) -> bool {
        self.cost.own.ns > 0 || self.cost.below.ns > 0
    }
}

/// Whether the function is interpreted, so that its cost is by line.
pub(super) fn is_by_line(annotation: &Annotation) -> bool {
    annotation.cost.module == PYTHON_MODULE
}

/// More lines are no function's.
const LINES_MAX: u32 = 10_000;

/// The lines from the first to the last in which it was seen.
fn lines(annotation: &Annotation) -> Vec<Instruction> {
    let spots = || annotation.cost.spots.values().filter(|spot| spot.line > 0);
    let Some(file) = spots().map(|spot| &spot.file).next() else { return Vec::new() };
    let seen = || spots().filter(|spot| spot.file == *file).map(|spot| spot.line);
    let (first, last) = (seen().min().unwrap_or(0), seen().max().unwrap_or(0));
    let row = |number: u32| {
        let mut cost = Spot::default();
        for spot in spots().filter(|spot| spot.line == number && spot.file == *file) {
            cost.own.merge(&spot.own);
            cost.below.merge(&spot.below);
        }
        let text = (annotation.source)(file, number).unwrap_or_default();
        let has_cost = cost.own.ns > 0 || cost.below.ns > 0;
        let place = has_cost.then(|| (file.clone(), number));
        Instruction { address: u64::from(number), text, target: None, place, cost }
    };
    (first..=last.min(first.saturating_add(LINES_MAX))).map(row).collect()
}

pub(super) fn decode(annotation: &Annotation) -> Vec<Instruction> {
    if is_by_line(annotation) {
        return lines(annotation);
    }
    let code = annotation.code;
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_branch_leading_zeros(false);
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    let mut decoder = Decoder::with_ip(64, &code.bytes, code.address, DecoderOptions::NONE);
    let end = code.address.saturating_add(code.bytes.len() as u64);
    let mut rows = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let (from, to) = (instruction.ip(), instruction.next_ip());
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let flow = instruction.flow_control();
        let jumps = matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch);
        let goes_to = instruction.near_branch_target();
        let inside = (code.address..end).contains(&goes_to);
        if (jumps || flow == FlowControl::Call)
            && !inside
            && let Some(name) = (annotation.name_at)(goes_to)
        {
            let verb = text.split(' ').next().unwrap_or("call").to_owned();
            text = format!("{verb} {name}");
        }
        let offset = |address: u64| code.offset.wrapping_add(address.wrapping_sub(code.address));
        let spots = annotation.cost.spots.range(offset(from)..offset(to).max(offset(from)));
        let known = spots.map(|(_, spot)| spot).find(|spot| spot.line > 0);
        rows.push(Instruction {
            place: known.map(|spot| (spot.file.clone(), spot.line)),
            address: from,
            text,
            target: (jumps && inside).then_some(goes_to),
            cost: annotation.cost.between(offset(from), offset(to)),
        });
    }
    rows
}
