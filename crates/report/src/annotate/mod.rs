//! One function's instructions with their cost, the targets of its branches, and the known source lines. For
//! an interpreted function, its lines. Reads no files: the caller provides code and sources, and
//! `derive::stacks::addresses` all figures.

mod arrows;
mod listing;

use holdup_findings::derive::stacks::FunctionCost;
use serde_json::{Value, json};

use crate::numbers::{count, counted, duration, percent, share};
use crate::text::{Style, Tint, clean, right, wrap};
use listing::Instruction;

/// Machine code of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCode {
    /// Offset of its first byte in the binary's file.
    pub offset: u64,
    /// Address of that byte in the file's own terms.
    pub address: u64,
    /// The code's bytes.
    pub bytes: Vec<u8>,
}

/// The function to annotate, with its code and sources.
pub struct Annotation<'a> {
    /// The function's cost.
    pub cost: &'a FunctionCost,
    /// The title.
    pub title: &'a str,
    /// The code.
    pub code: &'a MachineCode,
    /// Name of the function that begins at an address.
    pub name_at: &'a dyn Fn(u64) -> Option<String>,
    /// Text of a line (from 1) of a source file, if that can be read.
    pub source: &'a dyn Fn(&str, u32) -> Option<String>,
    /// Show every instruction, not only those near a cost.
    pub whole: bool,
}

/// Instructions without a cost that are shown before and after one that has.
const AROUND: usize = 6;
/// Lanes for branches on a narrow and on a wide terminal.
const LANES_NARROW: usize = 4;
const LANES_WIDE: usize = 8;

/// The listing for a terminal.
pub fn render(annotation: &Annotation, style: &Style) -> String {
    let instructions = listing::decode(annotation);
    let shown = shown(&instructions, annotation.whole);
    let lanes_max = if style.columns() < 100 { LANES_NARROW } else { LANES_WIDE };
    let arrows = arrows::Arrows::new(&instructions, &shown, lanes_max);
    let mut lines = head(annotation, style);
    let sums = Sums {
        own_ns: instructions.iter().map(|one| one.cost.own.ns).sum(),
        calls: instructions.iter().any(|one| one.cost.below.ns > 0),
    };
    let title = ["self", "samples", "share", "in calls"].map(str::to_owned);
    let place = if listing::is_by_line(annotation) { "  line" } else { "address" };
    let title = format!("{}  {place}", sums.columns(&title));
    lines.push(style.paint(Tint::Faint, &style.fit(&title, style.columns())));
    let (mut last, mut said) = (None, None);
    for index in shown {
        if let Some(last) = last
            && index > last + 1
        {
            let what = if listing::is_by_line(annotation) { "line" } else { "instruction" };
            let skipped = counted((index - last - 1) as u64, what);
            let text = format!("{}  ⋮ {skipped}", sums.columns(&Default::default()));
            lines.push(style.paint(Tint::Faint, &text));
        }
        last = Some(index);
        if let Some((file, number)) = instructions[index].place.as_ref().filter(|place| said != Some(*place))
            && !listing::is_by_line(annotation)
        {
            said = instructions[index].place.as_ref();
            lines.push(source_line(annotation, (file, *number), &sums, style));
        }
        let shown = &instructions[index];
        let text = match listing::is_by_line(annotation) {
            true => format!("  {:>4}  {}", shown.address, clean(shown.text.trim_end())),
            false => format!("  {}{:x}: {}", arrows.at(index), shown.address, clean(&shown.text)),
        };
        lines.push(line(shown, &sums, &text, style));
    }
    style.finish(&lines)
}

fn head(annotation: &Annotation, style: &Style) -> Vec<String> {
    let (cost, code) = (annotation.cost, annotation.code);
    let (sum, stands) = match listing::is_by_line(annotation) {
        true => (cost.between(0, u64::MAX), "The cost is shown at the line that was executing"),
        false => (
            cost.between(code.offset, code.offset + code.bytes.len() as u64),
            "The cost is shown at the next instruction when the sample was taken, often the one behind the slow one",
        ),
    };
    let title = format!("{} · {}", clean(annotation.title), clean(&cost.module));
    let mut lines = vec![style.paint(Tint::Strong, &style.fit(&title, style.columns()))];
    let text = format!(
        "{} in itself ({} of {}), {}. {stands}. A row of n samples has an error of about √n samples.",
        duration(sum.own.ns),
        percent(share(sum.own.ns, cost.all.ns)),
        duration(cost.all.ns),
        counted(sum.own.samples, "sample"),
    );
    lines.extend(wrap(&text, style.columns() - 2, 0).iter().map(|line| style.paint(Tint::Faint, line)));
    lines.push(String::new());
    lines
}

/// Indexes of the instructions that are shown.
fn shown(instructions: &[Instruction], whole: bool) -> Vec<usize> {
    let hot = |index: usize| instructions.get(index).is_some_and(Instruction::has_cost);
    let near = |index: &usize| whole || (index.saturating_sub(AROUND)..=index + AROUND).any(hot);
    (0..instructions.len()).filter(near).collect()
}

/// Sums of the whole function, for the columns of figures.
struct Sums {
    own_ns: u64,
    /// Something was called: there is a column for it.
    calls: bool,
}

impl Sums {
    fn columns(&self, [own, samples, part, below]: &[String; 4]) -> String {
        let calls = if self.calls { right(below, 10) } else { String::new() };
        format!("{}{}{}{calls}", right(own, 9), right(samples, 8), right(part, 8))
    }
}

fn line(instruction: &Instruction, sums: &Sums, text: &str, style: &Style) -> String {
    let spot = &instruction.cost;
    let figure = |ns: u64, said: String| if ns > 0 { said } else { String::new() };
    let part = share(spot.own.ns, sums.own_ns);
    let figures = sums.columns(&[
        figure(spot.own.ns, duration(spot.own.ns)),
        figure(spot.own.ns, count(spot.own.samples + spot.own.slices)),
        figure(spot.own.ns, percent(part)),
        figure(spot.below.ns, duration(spot.below.ns)),
    ]);
    let tint = match part {
        hot if hot >= 0.1 => Tint::Bad,
        warm if warm >= 0.02 => Tint::Warning,
        _ => Tint::Faint,
    };
    let room = style.columns().saturating_sub(crate::text::width(&figures));
    format!("{}{}", style.paint(tint, &figures), style.fit(text, room))
}

/// The source position of the next instructions, with its text.
fn source_line(annotation: &Annotation, (file, number): (&str, u32), sums: &Sums, style: &Style) -> String {
    let text = (annotation.source)(file, number).unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or(file);
    let said =
        format!("{}  {}:{number}  {}", sums.columns(&Default::default()), clean(name), clean(text.trim()));
    style.paint(Tint::Accent, style.fit(&said, style.columns()).trim_end())
}

/// The listing as JSON: every instruction, those without a cost, too.
pub fn to_json(annotation: &Annotation) -> Value {
    let rows = listing::decode(annotation);
    json!({
        "function": annotation.title,
        "module": annotation.cost.module,
        "total_ns": annotation.cost.all.ns,
        "instructions": rows.iter().map(|row| json!({
            "address": row.address,
            "text": row.text,
            "branch_to": row.target,
            "own_ns": row.cost.own.ns,
            "samples": row.cost.own.samples,
            "file": row.place.as_ref().map(|(file, _)| file),
            "line": row.place.as_ref().map(|(_, line)| line),
            "below_ns": row.cost.below.ns,
        })).collect::<Value>(),
    })
}
