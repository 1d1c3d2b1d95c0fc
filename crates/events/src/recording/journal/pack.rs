//! Events → chunks, each on its own: encoded, and compressed where they are written.

use std::io;

use zstd::bulk::Compressor;

use super::chunk::{HEADER, Header, Kind};
use crate::recording::codec::Encoder;
use crate::{Event, Timestamp};

/// Encoded bytes that make a chunk.
const CHUNK_BYTES: usize = 256 << 10;
/// Room for them, and for the event that makes them enough, if it is not among the few that are long.
const ROOM_BYTES: usize = CHUNK_BYTES + (8 << 10);
/// A very fast level, because the recorder shares the machine with the program, and events are already
/// compact. At 50,000 blocks per second, level -1 saves a quarter of the bytes. This level saves a fifth, in
/// two fifths of the time.
const ZSTD_LEVEL: i32 = -10;

/// Properties of a chunk's events that are stored outside their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// How many.
    pub events: u32,
    /// Times of the first and of the last event. An event that covers an interval counts from the interval's
    /// start.
    pub span: (Timestamp, Timestamp),
}

/// Fills with encoded events, until they are enough for a chunk.
#[derive(Default)]
pub struct Batch {
    encoder: Encoder,
    encoded: Vec<u8>,
    content: Content,
}

impl Batch {
    /// Appends one event. Returns `true` once the batch is large enough for a chunk.
    pub fn push(&mut self, event: &Event) -> bool {
        let Content { events, span: (from, to) } = self.content;
        let (begin, at) = (event.begin(), event.at());
        let span = if events == 0 { (begin, at) } else { (from.min(begin), to.max(at)) };
        self.content = Content { events: events + 1, span };
        // The buffer that `take` left here may be short.
        if self.encoded.is_empty() {
            self.encoded.reserve(ROOM_BYTES);
        }
        self.encoder.encode(event, &mut self.encoded);
        self.encoded.len() >= CHUNK_BYTES
    }

    /// How many bytes that takes.
    pub fn bytes(&self) -> u64 {
        self.encoded.len() as u64
    }

    /// Passes the pushed events, if any, to `with`, and resets the batch. If `with` keeps the bytes, it must
    /// leave another buffer.
    pub fn take<T>(&mut self, with: impl FnOnce(&mut Vec<u8>, Content) -> T) -> Option<T> {
        if self.content.events == 0 {
            return None;
        }
        self.encoder = Encoder::default();
        let taken = with(&mut self.encoded, std::mem::take(&mut self.content));
        self.encoded.clear();
        Some(taken)
    }
}

/// Makes a chunk of bytes.
pub struct Packer {
    compressor: Compressor<'static>,
    /// Room that lasts, in whose first bytes is the last chunk made: its header and its payload.
    sealed: Vec<u8>,
}

impl Packer {
    /// One that has made none yet.
    pub fn new() -> io::Result<Packer> {
        Ok(Packer { compressor: Compressor::new(ZSTD_LEVEL)?, sealed: Vec::new() })
    }

    /// Builds the chunk of `raw`, which holds `events` events.
    pub fn seal(&mut self, kind: Kind, raw: &[u8], events: u32) -> io::Result<&[u8]> {
        // Room for the header, too: one call writes both.
        let room = HEADER + zstd::zstd_safe::compress_bound(raw.len());
        self.sealed.resize(room.max(self.sealed.len()), 0);
        let (head, payload) = self.sealed.split_at_mut(HEADER);
        let length = self.compressor.compress_to_buffer(raw, payload)?;
        let header = Header { kind, stored: length as u32, raw: raw.len() as u32, events };
        head.copy_from_slice(&header.encode(payload.get(..length).unwrap_or_default()));
        Ok(self.sealed.get(..HEADER + length).unwrap_or_default())
    }
}
