//! Folded stacks: `root;…;leaf count`, one stack a line, as flame graph tools exchange them.
//!
//! There is no time in them, no thread and no CPU: they become samples of one thread, one behind the other. Counts may have
//! fractions. A file of more than a million samples is scaled down, each stack keeping its share.

use std::borrow::Cow;

use holdup_events::event::RawStack;
use holdup_events::recording::{Backend, SourceState};
use holdup_events::{CpuId, Event, Loss};

use super::{Facts, Info, ReadError, Reader, Wanted};
use crate::imported::{Laid, Names};

/// The format.
pub struct Format;

/// More samples than this are scaled down.
const SAMPLES_MAX: u64 = 1 << 20;
/// Recognition needs at least this many readable lines for each unreadable one: headers and output of programs may be among them.
const READABLE_MIN: u64 = 2;
/// Length of a sample in the recording (ns). The file does not state what a sample represents.
const SAMPLE_NS: u64 = 1_000_000;
/// Digits of a fraction that are kept.
const DIGITS: u32 = 6;
/// A count of 1.
const ONE: u128 = 10_u128.pow(DIGITS);

impl Reader for Format {
    fn info(&self) -> Info {
        Info { name: "folded", summary: "Folded stacks: root;caller;leaf count, one a line" }
    }

    fn recognises(&self, bytes: &[u8]) -> bool {
        if bytes.contains(&0) {
            return false;
        }
        let (mut readable, mut unreadable, mut is_stack) = (0u64, 0u64, false);
        for line in lines(bytes) {
            match line {
                Some((stack, _)) => (readable, is_stack) = (readable + 1, is_stack || stack.contains(';')),
                None => unreadable += 1,
            }
        }
        readable > 0 && (unreadable == 0 || is_stack && readable / READABLE_MIN >= unreadable)
    }

    fn read(&self, bytes: &[u8], _: &Wanted, sink: &mut dyn FnMut(Event)) -> Result<Facts, ReadError> {
        let mut names = Names::default();
        let scale = Scale::new(bytes);
        if scale.samples == 0 {
            return Err(ReadError::Empty);
        }
        let mut laid = Laid::new("folded", scale.sample_ns, sink);
        let (mut seen, mut told, mut unreadable) = (0u128, 0, 0);
        for line in lines(bytes) {
            let Some((stack, count)) = line else {
                unreadable += 1;
                continue;
            };
            seen = seen.saturating_add(count);
            let until = scale.samples_of(seen);
            if until > told {
                laid.add(raw_stack(&stack, &mut names), until - told);
            }
            told = until;
        }
        let (start, end) = laid.finish();
        if unreadable > 0 {
            let (source, reason) = ("folded-stacks".to_owned(), "unreadable".to_owned());
            sink(Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start, end, events: unreadable }));
        }
        Ok(Facts { span: (start, end), ..facts(names, &scale, unreadable) })
    }
}

fn facts(names: Names, scale: &Scale, unreadable: u64) -> Facts {
    let missing = match scale.samples < scale.wanted {
        true => format!("{} counts are scaled down to {} samples", scale.wanted, scale.samples),
        false => String::new(),
    };
    let each = scale.sample_ns as f64 / SAMPLE_NS as f64;
    Facts {
        backend: Backend::Proc,
        limits: format!(
            "folded stacks: they have no times, threads or CPUs; each sample is shown as {each} ms of one thread, one behind the \
             other: only their shares mean something"
        ),
        sample_period_ns: scale.sample_ns,
        sources: vec![SourceState {
            name: "folded-stacks".to_owned(),
            active: true,
            missing,
            events: scale.samples,
            lost: unreadable,
        }],
        names: Some(names),
        ..Facts::default()
    }
}

/// How many samples the counts of a file become.
struct Scale {
    /// Sum of all counts, in parts of [`ONE`].
    total: u128,
    /// Samples that there would be without a limit.
    wanted: u64,
    /// Samples that there are.
    samples: u64,
    sample_ns: u64,
}

impl Scale {
    /// The unit of all counts: the largest power of ten that divides all of them, at most 1.
    fn new(bytes: &[u8]) -> Scale {
        let (mut total, mut unit) = (0u128, ONE);
        for (_, count) in lines(bytes).flatten() {
            total = total.saturating_add(count);
            while !count.is_multiple_of(unit) {
                unit /= 10;
            }
        }
        let wanted = u64::try_from(total / unit).unwrap_or(u64::MAX);
        let sample_ns = u64::try_from(u128::from(SAMPLE_NS) * unit / ONE).unwrap_or(SAMPLE_NS);
        Scale { total, wanted, samples: wanted.min(SAMPLES_MAX), sample_ns }
    }

    /// Samples for the first counts whose sum is `seen`.
    fn samples_of(&self, seen: u128) -> u64 {
        let samples = seen.min(self.total).saturating_mul(self.samples.into()) / self.total.max(1);
        u64::try_from(samples).unwrap_or(self.samples)
    }
}

/// Stack and count (in multiples of 1/[`ONE`]) of each non-empty line. `None` for an invalid line.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Option<(Cow<'_, str>, u128)>> {
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).map(|line| {
        let place = line.iter().rposition(|byte| matches!(byte, b' ' | b'\t'))?;
        let (stack, count) = line.split_at_checked(place)?;
        let count = parts(std::str::from_utf8(count.trim_ascii()).ok()?)?;
        // Names come from binaries as they are: not all of them are UTF-8.
        Some((String::from_utf8_lossy(stack.trim_ascii_end()), count))
            .filter(|(stack, _)| !stack.trim().is_empty())
    })
}

/// A count in parts of [`ONE`]: `12`, `10.5`, `10,5` or `1e+06`.
fn parts(count: &str) -> Option<u128> {
    if let Ok(whole) = count.parse::<u64>() {
        return Some(u128::from(whole).saturating_mul(ONE));
    }
    let is_number = count.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '.' | ','));
    let number: f64 = count.replace(',', ".").parse().ok().filter(|_| is_number)?;
    let parts = (number * ONE as f64).round();
    parts.is_finite().then_some(parts as u128)
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
