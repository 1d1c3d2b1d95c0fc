//! File layout: a header of eight words, heads and tails of the rings, the rings, and names of the program's
//! custom events.

use super::{ReadAt, RingError};

/// OCaml's own maximum.
const SLOTS_MAX: u64 = 4096;
/// Two counters and room for more.
const RING_HEADER_MAX: u64 = 1024;
/// A ring of 8 GiB.
const WORDS_MAX: u64 = 1 << 30;
/// Bytes of a name.
const NAME_BYTES: u64 = 128;
/// How many names there can be.
const NAMES_MAX: u16 = 8192;
/// Offsets beyond are no file's.
const OFFSET_MAX: u64 = 1 << 48;

/// The header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Domain slots.
    pub slots: u32,
    /// Words of each ring, a power of two.
    pub words: u64,
    ring_header_bytes: u64,
    headers_offset: u64,
    data_offset: u64,
    /// Offset of the custom event names. OCaml 5.0 has none.
    pub customs_offset: Option<u64>,
}

/// Monotonic positions in words. The words between them are readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// First word that is not written over yet.
    pub head: u64,
    /// Position after the last word. 0 if the ring was never used.
    pub tail: u64,
}

impl Ring {
    /// Whether the words between the positions fit into the ring.
    pub fn is_sound(&self, layout: &Layout) -> bool {
        self.tail.checked_sub(self.head).is_some_and(|words| words <= layout.words)
    }
}

impl Layout {
    /// Reads and checks the header.
    pub fn read(file: &impl ReadAt) -> Result<Layout, RingError> {
        let mut bytes = [0; 64];
        if file.read_at(0, &mut bytes) < bytes.len() {
            return Err(RingError::NotYet);
        }
        let words = words_of(&bytes);
        let [version, slots, ring_header_bytes, ring_bytes, words, headers_offset, data_offset, customs] =
            words[..]
        else {
            return Err(RingError::NotYet);
        };
        if version == 0 || slots == 0 || words == 0 || data_offset == 0 {
            return Err(RingError::NotYet);
        }
        let check = |what, value: u64, good: bool| match good {
            true => Ok(()),
            false => Err(RingError::NotOurs { what, value }),
        };
        check("the version", version, version == 1)?;
        check("the number of rings", slots, slots <= SLOTS_MAX)?;
        let header_fits = (16..=RING_HEADER_MAX).contains(&ring_header_bytes);
        check("the size of a ring's header", ring_header_bytes, header_fits)?;
        check("the number of words", words, words.is_power_of_two() && words <= WORDS_MAX)?;
        check("the size of a ring", ring_bytes, ring_bytes == words * 8)?;
        check("the place of the headers", headers_offset, (64..OFFSET_MAX).contains(&headers_offset))?;
        check("the place of the rings", data_offset, (64..OFFSET_MAX).contains(&data_offset))?;
        check("the place of the names", customs, customs < OFFSET_MAX)?;
        Ok(Layout {
            slots: slots as u32,
            words,
            ring_header_bytes,
            headers_offset,
            data_offset,
            customs_offset: (customs != 0).then_some(customs),
        })
    }

    /// Head and tail of every ring that was ever used.
    pub fn rings(&self, file: &impl ReadAt, scratch: &mut Vec<u8>) -> Vec<(u32, Ring)> {
        scratch.resize((u64::from(self.slots) * self.ring_header_bytes) as usize, 0);
        let read = file.read_at(self.headers_offset, scratch);
        let headers = scratch.get(..read).unwrap_or_default().chunks_exact(self.ring_header_bytes as usize);
        headers
            .zip(0..)
            .map(|(bytes, slot)| (slot, ring_of(bytes)))
            .filter(|(_, ring)| ring.tail > 0)
            .collect()
    }

    /// Head and tail of one ring now.
    pub fn ring(&self, file: &impl ReadAt, slot: u32) -> Option<Ring> {
        let mut bytes = [0; 16];
        let read = file.read_at(self.headers_offset + u64::from(slot) * self.ring_header_bytes, &mut bytes);
        (read == bytes.len()).then(|| ring_of(&bytes)).filter(|ring| ring.tail > 0)
    }

    /// The words of a ring at positions `from..to`, as far as the file has them.
    pub fn words(
        &self,
        file: &impl ReadAt,
        slot: u32,
        (from, to): (u64, u64),
        scratch: &mut Vec<u8>,
    ) -> Vec<u64> {
        let ring = self.data_offset.saturating_add(u64::from(slot).saturating_mul(self.words * 8));
        let mut all = Vec::new();
        let mut at = from;
        while at < to {
            let place = at & (self.words - 1);
            let count = (to - at).min(self.words - place);
            scratch.resize((count * 8) as usize, 0);
            let read = file.read_at(ring.saturating_add(place * 8), scratch);
            all.extend(words_of(scratch.get(..read).unwrap_or_default()));
            if read < scratch.len() {
                break;
            }
            at += count;
        }
        all
    }

    /// The name of one of the program's own events.
    pub fn custom_name(&self, file: &impl ReadAt, id: u16) -> Option<String> {
        let offset = self.customs_offset.filter(|_| id < NAMES_MAX)?;
        let mut bytes = [0; NAME_BYTES as usize];
        let read = file.read_at(offset.saturating_add(u64::from(id) * NAME_BYTES), &mut bytes);
        let name = bytes.get(..read)?.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

fn ring_of(bytes: &[u8]) -> Ring {
    match words_of(bytes)[..] {
        [head, tail, ..] => Ring { head, tail },
        _ => Ring::default(),
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    words.collect()
}
