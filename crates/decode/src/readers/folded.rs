//! Folded stacks: `root;…;leaf count`, one stack a line, as flame graph tools exchange them.
//!
//! There is no time in them, no thread and no CPU: they become samples of one thread, one behind the other. A count of more
//! than a million samples in all is scaled down, each stack keeping its share.

use holdup_events::Event;
use holdup_events::event::RawStack;
use holdup_events::recording::{Rung, SourceState};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Laid, Names};

/// The format.
pub struct Format;

/// More samples than this are scaled down.
const SAMPLES_MAX: u64 = 1 << 20;
/// Recognising asks this many lines.
const LOOK_LINES: usize = 50;
/// What a sample is shown as (ns): nothing tells what it stands for.
const SAMPLE_NS: u64 = 1_000_000;

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "folded", summary: "Folded stacks: root;caller;leaf count, one a line" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        // The last line may be cut by the look, and is whole or empty otherwise.
        let mut some = false;
        let all = lines(bytes).take(LOOK_LINES).all(|line| {
            some = true;
            line.is_some()
        });
        some && all && !bytes.contains(&0)
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut names = Names::default();
        let total = lines(bytes).flatten().fold(0u64, |sum, (_, count)| sum.saturating_add(count));
        if total == 0 {
            return Err(ReadError::Empty);
        }
        let mut laid = Laid::new("folded", SAMPLE_NS, sink);
        let (mut seen, mut told, mut unreadable) = (0u64, 0, 0);
        for line in lines(bytes) {
            let Some((stack, count)) = line else {
                unreadable += 1;
                continue;
            };
            seen = seen.saturating_add(count);
            let until = scaled(seen, total);
            if until > told {
                laid.add(raw_stack(stack, &mut names), until - told);
            }
            told = until;
        }
        let span = laid.finish();
        Ok(Facts { span, ..facts(names, (total, told), unreadable) })
    }
}

fn facts(names: Names, (total, told): (u64, u64), unreadable: u64) -> Facts {
    let missing = match told < total {
        true => format!("{total} counts are scaled down to {told} samples"),
        false => String::new(),
    };
    Facts {
        rung: Rung::Proc,
        limits: "folded stacks: they have no times, threads or CPUs; each sample is shown as 1 ms of one thread, one behind \
                 the other: only their shares mean something"
            .to_owned(),
        sample_period_ns: SAMPLE_NS,
        sources: vec![SourceState {
            name: "folded-stacks".to_owned(),
            active: true,
            missing,
            events: told,
            lost: unreadable,
        }],
        names: Some(names),
        ..Facts::default()
    }
}

/// How many samples are told when `seen` of `total` counts have been seen.
fn scaled(seen: u64, total: u64) -> u64 {
    if total <= SAMPLES_MAX {
        return seen;
    }
    (u128::from(seen.min(total)) * u128::from(SAMPLES_MAX) / u128::from(total)) as u64
}

/// Stack and count of each line that is not empty; `None` for one that has none.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Option<(&str, u64)>> {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")).map(|line| {
        let (stack, count) = std::str::from_utf8(line).ok()?.trim_end().rsplit_once(' ')?;
        Some((stack, count.parse().ok()?)).filter(|(stack, _)| !stack.trim().is_empty())
    })
}

fn raw_stack(stack: &str, names: &mut Names) -> RawStack {
    let mut addresses = Vec::new();
    let mut kernel_frames: u16 = 0;
    for frame in stack.split(';').rev() {
        // The flame graph tools' marks: kernel, inlined, compiled at run time.
        let in_kernel = frame.ends_with("_[k]");
        let marks = ["_[k]", "_[i]", "_[j]"];
        let function = marks.iter().find_map(|mark| frame.strip_suffix(mark)).unwrap_or(frame);
        if in_kernel && usize::from(kernel_frames) == addresses.len() {
            kernel_frames = kernel_frames.saturating_add(1);
        }
        addresses.push(names.place(function.trim(), "", in_kernel));
    }
    RawStack { kernel_frames, addresses, ..RawStack::default() }
}
