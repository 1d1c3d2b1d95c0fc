//! Code that a runtime generated. It is in no file, and the starts of its functions are unknown. Decoding
//! therefore starts at several earlier addresses, and all must agree on the instruction boundaries. x86-64
//! instructions have variable length, but decoding synchronizes after a few instructions.

use holdup_events::tables::Mapping;
use iced_x86::{Decoder, DecoderOptions, Instruction};

use super::program::Around;
use super::x86::is_fence;

/// Distance before the place at which decoding starts (bytes). Far enough to synchronize, and mostly within
/// the same function.
const LEAD: usize = 256;
/// A short jump leads no farther (bytes).
const NEAR: usize = 130;
/// Minimum number of bytes before the place. With fewer, no access is reported.
const LEAD_MIN: usize = 64;
/// Number of consecutive bytes at which decoding starts.
const BEGINNINGS: usize = 16;

/// A piece of code as it was in a process's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeneratedCode {
    /// Address of the first byte.
    pub start: u64,
    /// The code bytes.
    pub bytes: Vec<u8>,
}

/// Executable memory that no file holds.
pub fn is_generated(mapping: &Mapping) -> bool {
    let path = mapping.path.as_str();
    let names_a_file = path.starts_with('/') && !path.starts_with("//");
    let made = ["/memfd:", "/dev/zero"].into_iter().any(|prefix| path.starts_with(prefix));
    (!names_a_file || made) && path != "[vdso]"
}

impl GeneratedCode {
    /// The instructions at an address and before.
    pub fn around(&self, ip: u64) -> Around {
        let distance = ip.checked_sub(self.start).and_then(|distance| usize::try_from(distance).ok());
        let Some(into) = distance.filter(|into| *into < self.bytes.len()) else { return Around::default() };
        let at = self.decoder(into).decode();
        let before = self.before(into);
        // The second-last instruction is used only behind a fence.
        let fence = before.filter(is_fence);
        let earlier = fence.and_then(|fence| self.before(into.checked_sub(fence.len())?));
        Around { at: (!at.is_invalid()).then_some(at), before, earlier }
    }

    fn decoder(&self, from: usize) -> Decoder<'_> {
        let bytes = self.bytes.get(from..).unwrap_or_default();
        Decoder::with_ip(64, bytes, self.start.wrapping_add(from as u64), DecoderOptions::NONE)
    }

    fn before(&self, into: usize) -> Option<Instruction> {
        if into < LEAD_MIN {
            return None;
        }
        let first = into.saturating_sub(LEAD);
        let mut agreed = None;
        for from in first..first + BEGINNINGS {
            let before = self.last_before(from, into)?;
            let known = agreed.get_or_insert(before);
            if (known.len(), &*known) != (before.len(), &before) {
                return None;
            }
        }
        agreed.filter(|before| !before.is_invalid() && !self.is_target(into))
    }

    /// Decodes from `from`. Returns the instruction that ends exactly at `into`, if any.
    fn last_before(&self, from: usize, into: usize) -> Option<Instruction> {
        let ip = self.start.wrapping_add(into as u64);
        let mut decoder = self.decoder(from);
        let mut instruction = Instruction::default();
        while decoder.can_decode() && decoder.ip() < ip {
            decoder.decode_out(&mut instruction);
        }
        (decoder.ip() == ip).then_some(instruction)
    }

    /// Some jump in this piece of code leads there, or what looks like one: at any byte.
    fn is_target(&self, into: usize) -> bool {
        let near = self.bytes.get(into.saturating_sub(NEAR)..(into + NEAR).min(self.bytes.len()));
        let first = into.saturating_sub(NEAR);
        let mut near = near.unwrap_or_default().windows(2).enumerate();
        let is_short = near.any(|(at, jump)| {
            let &[0x70..=0x7f | 0xe0..=0xe3 | 0xeb, distance] = jump else { return false };
            (first + at + 2).checked_add_signed(isize::from(distance as i8)) == Some(into)
        });
        is_short
            || self.bytes.windows(6).enumerate().any(|(at, jump)| {
                // The longer of the two ends with what both have.
                let &[first, second, a, b, c, d] = jump else { return false };
                let jumps = second == 0xe9 || first == 0x0f && second & 0xf0 == 0x80;
                let distance = i32::from_le_bytes([a, b, c, d]);
                jumps && (at + 6).checked_add_signed(distance as isize) == Some(into)
            })
    }
}
