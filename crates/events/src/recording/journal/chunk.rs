//! The header of a chunk.

/// First bytes of every chunk; unlikely in compressed data, and checked with the CRC anyway.
pub const MAGIC: [u8; 8] = *b"\xf5hldup\x01\n";
/// Bytes of a header.
pub const HEADER: usize = 32;
/// Largest payload, compressed or not, that a reader believes.
pub const PAYLOAD_MAX: u32 = 64 << 20;

/// What a chunk holds.
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

/// CRC-32 of the header's first 24 bytes and the payload.
pub fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(..24).unwrap_or_default());
    hasher.update(payload);
    hasher.finalize()
}
