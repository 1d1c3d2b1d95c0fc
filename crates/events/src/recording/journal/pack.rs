//! Events → chunks: encoded, compressed, each on its own.

use std::io;

use zstd::bulk::Compressor;

use super::chunk::{HEADER, Header, Kind};
use crate::recording::codec::Encoder;
use crate::{Event, Timestamp};

/// Encoded bytes that make a chunk.
const CHUNK_BYTES: usize = 256 << 10;
/// Very fast: the recorder shares the machine with what it records, and events are dense already: of 50,000 blocks a second level
/// -1 saves a quarter of the bytes, this one a fifth, in two fifths of the time.
const ZSTD_LEVEL: i32 = -10;

/// What of a chunk's events is said beside their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// How many.
    pub events: u32,
    /// Times of the first and of the last; of what covers a stretch its beginning counts, too.
    pub span: (Timestamp, Timestamp),
}

/// Fills one chunk at a time.
pub struct Packer {
    encoder: Encoder,
    encoded: Vec<u8>,
    compressor: Compressor<'static>,
    /// Room that lasts, in whose first bytes is the last chunk made: its header and its payload.
    sealed: Vec<u8>,
    sealed_bytes: usize,
    content: Content,
}

impl Packer {
    /// An empty one.
    pub fn new() -> io::Result<Packer> {
        Ok(Packer {
            encoder: Encoder::default(),
            encoded: Vec::with_capacity(CHUNK_BYTES * 2),
            compressor: Compressor::new(ZSTD_LEVEL)?,
            sealed: Vec::new(),
            sealed_bytes: 0,
            content: Content::default(),
        })
    }

    /// Takes one event; `true` if the chunk is large enough now.
    pub fn push(&mut self, event: &Event) -> bool {
        let Content { events, span: (from, to) } = self.content;
        let (begin, at) = (event.begin(), event.at());
        let span = if events == 0 { (begin, at) } else { (from.min(begin), to.max(at)) };
        self.content = Content { events: events + 1, span };
        self.encoder.encode(event, &mut self.encoded);
        self.encoded.len() >= CHUNK_BYTES
    }

    /// What has been pushed since the last chunk.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Makes a chunk of what has been pushed, and begins the next one.
    pub fn seal_events(&mut self) -> io::Result<&[u8]> {
        let encoded = std::mem::take(&mut self.encoded);
        let events = std::mem::take(&mut self.content).events;
        self.encoder = Encoder::default();
        let made = self.compress(Kind::Events, &encoded, events);
        self.encoded = encoded;
        self.encoded.clear();
        made?;
        Ok(self.sealed())
    }

    /// Makes a chunk of other bytes; what has been pushed stays.
    pub fn seal(&mut self, kind: Kind, raw: &[u8]) -> io::Result<&[u8]> {
        self.compress(kind, raw, 0)?;
        Ok(self.sealed())
    }

    fn sealed(&self) -> &[u8] {
        self.sealed.get(..self.sealed_bytes).unwrap_or_default()
    }

    fn compress(&mut self, kind: Kind, raw: &[u8], events: u32) -> io::Result<()> {
        // Room for the header, too: one call writes both.
        let room = HEADER + zstd::zstd_safe::compress_bound(raw.len());
        self.sealed.resize(room.max(self.sealed.len()), 0);
        let (head, payload) = self.sealed.split_at_mut(HEADER);
        let length = self.compressor.compress_to_buffer(raw, payload)?;
        let header = Header { kind, stored: length as u32, raw: raw.len() as u32, events };
        head.copy_from_slice(&header.encode(payload.get(..length).unwrap_or_default()));
        self.sealed_bytes = HEADER + length;
        Ok(())
    }
}
