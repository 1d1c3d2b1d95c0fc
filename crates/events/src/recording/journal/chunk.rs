//! The header of a chunk.

/// First bytes of every chunk. They are unlikely in compressed data, and the CRC is checked in addition.
pub const MAGIC: [u8; 8] = *b"\xf5hldup\x01\n";
/// Bytes of a header.
pub const HEADER: usize = 32;
/// Offset of four header bytes that no checksum covers. In the first header they hold the number of events
/// that could not be written. Writing them needs no space, so it succeeds on a full disk.
pub const DROPPED_AT: usize = 28;
/// Maximum payload that a reader accepts (bytes, compressed or not). A chunk holds about 256 KiB of events
/// plus its last event. That event is long if an imported file has long texts or deep stacks. A manifest is
/// as long as the command line, which the kernel limits to 6 MiB.
pub const PAYLOAD_MAX: u32 = 16 << 20;
/// Longest events that are written (bytes): what cannot be compressed gets longer.
pub const RAW_MAX: usize = PAYLOAD_MAX as usize / 2;

/// Content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON of the manifest.
    Manifest,
    /// Encoded events.
    Events,
}

/// A chunk's header, without its magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// Bytes of the payload as it stands in the file.
    pub stored: u32,
    /// ... and when decompressed.
    pub raw: u32,
    /// Events in it.
    pub events: u32,
}

impl Header {
    /// The bytes of the header of `payload`.
    pub fn encode(&self, payload: &[u8]) -> [u8; HEADER] {
        let mut bytes = [0u8; HEADER];
        let kind = match self.kind {
            Kind::Manifest => 1u32,
            Kind::Events => 2,
        };
        let words = [kind, self.stored, self.raw, self.events];
        let (magic, rest) = bytes.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        for (at, word) in rest.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        let crc = checksum(&bytes, payload);
        if let Some(at) = bytes.get_mut(24..28) {
            at.copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// The header at the beginning of `bytes`, if one is there and makes sense, with its checksum.
    pub fn decode(bytes: &[u8]) -> Option<(Header, u32)> {
        let bytes = bytes.get(..HEADER)?;
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let word = |index: usize| -> Option<u32> {
            let at = MAGIC.len() + index * 4;
            Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let kind = match word(0)? {
            1 => Kind::Manifest,
            2 => Kind::Events,
            _ => return None,
        };
        let header = Header { kind, stored: word(1)?, raw: word(2)?, events: word(3)? };
        (header.stored <= PAYLOAD_MAX && header.raw <= PAYLOAD_MAX).then_some((header, word(4)?))
    }
}

/// The four bytes that encode the number of dropped events: a 20-bit mantissa, a 4-bit shift, and a check
/// byte that detects damage. The number is rounded down by less than 1 in 500,000.
pub fn dropped_word(events: u64) -> [u8; 4] {
    let zeros = (64 - events.leading_zeros()).saturating_sub(20).min(15);
    let rounded = (events >> zeros).min((1 << 20) - 1) as u32;
    let [low, middle, high, _] = (rounded | zeros << 20).to_le_bytes();
    [low, middle, high, guard([low, middle, high])]
}

/// Number of dropped events in the first header of a journal, 0 if none.
pub fn dropped_events(header: &[u8]) -> u64 {
    let word = header.get(DROPPED_AT..HEADER).filter(|_| header.starts_with(&MAGIC));
    let Some([low, middle, high, check]) = word.and_then(|word| <[u8; 4]>::try_from(word).ok()) else {
        return 0;
    };
    if check != guard([low, middle, high]) {
        return 0;
    }
    let word = u32::from_le_bytes([low, middle, high, 0]);
    u64::from(word & 0xf_ffff) << (word >> 20)
}

/// Not 0 for zeros, and another one if a bit is.
fn guard([low, middle, high]: [u8; 3]) -> u8 {
    !(low ^ middle.rotate_left(3) ^ high.rotate_left(6))
}

/// CRC-32 of the header's first 24 bytes and the payload.
pub fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(..24).unwrap_or_default());
    hasher.update(payload);
    hasher.finalize()
}
