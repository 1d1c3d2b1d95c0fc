//! Detects whether code at an address only waits. Such code is in a loop that changes nothing but a counter
//! and reads the same memory again, or that executes `pause`. Detection uses the instructions, never names.
//!
//! A path from the address back to itself is searched and executed on symbolic values. The test is whether
//! each round repeats the previous one while memory is unchanged. A search or a sum does not, because its
//! pointer or its result changes.
//!
//! Some loops are not reported:
//!
//! - A loop that needs a change between two reads (a sequence lock's reader) ends while memory is unchanged,
//!   so it is not a wait.
//! - A loop that counts up to a value in memory is not a wait either.
//! - Loops that wait inside functions that they call are not detected.

mod cycle;
mod trial;

pub(crate) use cycle::is_write;

use std::ops::Range;

use holdup_events::tables::FrameSpin;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

/// A place that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    /// How.
    pub how: FrameSpin,
    /// Link-time address of the variable that the loop reads, if the code contains it.
    pub watches: Option<u64>,
}

/// Machine code of one segment.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    bytes: &'a [u8],
    /// Address of the first byte.
    address: u64,
}

/// `pause`, as it is encoded.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// `mov $24,%eax; syscall`: sched_yield.
const YIELD: [u8; 7] = [0xb8, 24, 0, 0, 0, 0x0f, 0x05];

impl<'a> Segment<'a> {
    /// Code that begins at `address`.
    pub fn new(bytes: &'a [u8], address: u64) -> Segment<'a> {
        Segment { bytes, address }
    }

    fn from(&self, address: u64) -> Option<&'a [u8]> {
        let distance = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(distance..)
    }

    /// The instruction that begins at `address`.
    fn instruction(&self, address: u64) -> Option<Instruction> {
        let bytes = self.from(address)?;
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Whether a thread at `address` is spinning, as far as its code shows.
    pub fn spin_at(&self, address: u64) -> Option<Spin> {
        let trial = cycle::back_to(self, address).and_then(|way| trial::run(&way));
        let pauses = self.has(&PAUSE, address.checked_sub(PAUSE.len() as u64))
            || self.instruction(address).is_some_and(|one| is_pause(&one));
        // Where a thread is while it enters and leaves the kernel.
        let yields = [0, 5, 7].into_iter().any(|into| self.has(&YIELD, address.checked_sub(into)));
        let plain = |how| Some(Spin { how, watches: None });
        match trial {
            None if yields => plain(FrameSpin::Yields),
            // A CPU that pauses spends the time there, whatever else the loop does.
            None if pauses => plain(FrameSpin::Pauses),
            spin => spin,
        }
    }

    fn has(&self, code: &[u8], address: Option<u64>) -> bool {
        address.and_then(|address| self.from(address)).is_some_and(|bytes| bytes.starts_with(code))
    }
}

/// Whether the instruction marks a spin loop for the CPU.
fn is_pause(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Pause | Mnemonic::Tpause | Mnemonic::Umwait)
}

/// Places of a file that wait, by offset: `segment` is the code at these offsets, the first of it at `address`.
pub fn spins(bytes: &[u8], (offsets, address): (Range<u64>, u64), places: &[u64]) -> Vec<(u64, Spin)> {
    let range = usize::try_from(offsets.start).ok().zip(usize::try_from(offsets.end).ok());
    let code = range.and_then(|(from, to)| bytes.get(from..to.min(bytes.len()))).unwrap_or_default();
    let segment = Segment::new(code, address);
    let inside = places.iter().copied().filter(|place| offsets.contains(place));
    inside
        .filter_map(|place| {
            let at = address.checked_add(place - offsets.start)?;
            Some((place, segment.spin_at(at)?))
        })
        .collect()
}

#[cfg(test)]
mod tests;
