//! The file: batches, each of one thread (M) and one generation. Strings and stacks have batches of their own and hold
//! for their generation.

use std::collections::HashMap;

use super::ids;
use crate::readers::ReadError;

/// Length of `go 1.NN trace` and zero bytes.
const MAGIC: usize = 16;
/// The first version of this format.
const VERSION_MIN: u32 = 22;
/// Frames of a stack that are kept.
const FRAMES_MAX: u64 = 128;
/// Nanoseconds per tick if the file has no frequency.
const TICK_NS: f64 = 1.0;

/// A cursor over variable-length numbers. Reading past the end returns `None`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'a>(pub &'a [u8]);

impl<'a> Numbers<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Events of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    pub generation: u64,
    /// Which thread.
    pub thread: u64,
    /// Before its first event (ticks).
    pub at: u64,
    pub body: &'a [u8],
}

/// The parts of a trace.
pub(super) struct Layout<'a> {
    /// Go version: the number after `1.`.
    pub version: u32,
    pub batches: Vec<Batch<'a>>,
    strings: HashMap<(u64, u64), &'a [u8]>,
    /// Functions of stacks, leaf first: numbers of strings.
    pub stacks: HashMap<(u64, u64), Vec<u64>>,
    pub tick_ns: f64,
    /// The end is missing.
    pub cut: bool,
}

/// The number behind `1.` of a trace, of this format or of the one before.
pub(super) fn version(bytes: &[u8]) -> Option<u32> {
    let head = bytes.get(..MAGIC)?.strip_prefix(b"go 1.")?;
    let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = head.split_at_checked(digits)?;
    let version = std::str::from_utf8(number).ok()?.parse().ok()?;
    rest.starts_with(b" trace").then_some(version)
}

impl<'a> Layout<'a> {
    /// Finds the batches.
    pub fn read(bytes: &'a [u8]) -> Result<Layout<'a>, ReadError> {
        let version = version(bytes).ok_or(ReadError::Broken { what: "its first bytes", offset: 0 })?;
        if version < VERSION_MIN {
            return Err(ReadError::Unsupported {
                what: format!("an execution trace of Go 1.{version}"),
                remedy: "from 1.22 on they are read",
            });
        }
        let mut layout = Layout {
            version,
            batches: Vec::new(),
            strings: HashMap::new(),
            stacks: HashMap::new(),
            tick_ns: TICK_NS,
            cut: false,
        };
        let mut rest = Numbers(bytes.get(MAGIC..).unwrap_or_default());
        while !rest.0.is_empty() {
            if layout.batch(&mut rest).is_none() {
                layout.cut = true;
                break;
            }
        }
        if layout.batches.is_empty() { Err(ReadError::Empty) } else { Ok(layout) }
    }

    /// A string of a generation.
    pub fn text(&self, generation: u64, id: u64) -> &'a str {
        let bytes = self.strings.get(&(generation, id)).copied().unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or("?")
    }

    fn batch(&mut self, rest: &mut Numbers<'a>) -> Option<()> {
        let kind = rest.byte()?;
        match kind {
            ids::END_OF_GENERATION => return Some(()),
            ids::EVENT_BATCH => {}
            ids::EXPERIMENTAL_BATCH => {
                rest.byte()?;
            }
            _ => return None,
        }
        let (generation, thread, at) = (rest.number()?, rest.number()?, rest.number()?);
        let length = rest.number()?;
        let body = rest.take(length)?;
        // The content is specific to an experiment and holds no events.
        if kind == ids::EXPERIMENTAL_BATCH {
            return Some(());
        }
        let mut inner = Numbers(body.get(1..).unwrap_or_default());
        match body.first() {
            // In a damaged batch, the rest is lost. Later batches are not affected.
            Some(&ids::STRINGS) => _ = self.take_strings(generation, &mut inner),
            Some(&ids::STACKS) => _ = self.take_stacks(generation, &mut inner),
            Some(&ids::FREQUENCY) => _ = self.take_frequency(inner),
            Some(&ids::SYNC) => _ = self.sync(inner),
            Some(&ids::CPU_SAMPLES) | None => {}
            Some(_) => self.batches.push(Batch { generation, thread, at, body }),
        }
        Some(())
    }

    fn take_strings(&mut self, generation: u64, rest: &mut Numbers<'a>) -> Option<()> {
        while rest.byte()? == ids::STRING {
            let (id, length) = (rest.number()?, rest.number()?);
            self.strings.insert((generation, id), rest.take(length)?);
        }
        None
    }

    fn take_stacks(&mut self, generation: u64, rest: &mut Numbers<'a>) -> Option<()> {
        while rest.byte()? == ids::STACK {
            let (id, frames) = (rest.number()?, rest.number()?);
            let mut functions = Vec::new();
            for _ in 0..frames {
                // Address, function, file, line.
                let (_, function) = (rest.number()?, rest.number()?);
                let _ = (rest.number()?, rest.number()?);
                if (functions.len() as u64) < FRAMES_MAX {
                    functions.push(function);
                }
            }
            self.stacks.insert((generation, id), functions);
        }
        None
    }

    /// Since Go 1.25, the frequency is among what begins a generation.
    fn sync(&mut self, mut rest: Numbers) -> Option<()> {
        loop {
            match rest.byte()? {
                ids::FREQUENCY => self.take_frequency(rest)?,
                ids::CLOCK_SNAPSHOT => {
                    for _ in 0..4 {
                        rest.number()?;
                    }
                    continue;
                }
                _ => return None,
            }
            rest.number()?;
        }
    }

    fn take_frequency(&mut self, mut rest: Numbers) -> Option<()> {
        let hertz = rest.number().filter(|hertz| (1_000..=100_000_000_000).contains(hertz))?;
        self.tick_ns = 1e9 / hertz as f64;
        Some(())
    }
}
