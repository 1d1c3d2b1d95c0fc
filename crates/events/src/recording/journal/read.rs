//! Reading a journal, whole or not.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::JOURNAL;
use super::chunk::{HEADER, Header, Kind, MAGIC, PAYLOAD_MAX, checksum, dropped_events};
use crate::recording::codec::Decoder;
use crate::recording::{Manifest, RecordingError};
use crate::{CpuId, Event, Loss, Timestamp};

/// Minimum bytes per read.
const READ_MIN: usize = 64 << 10;
/// Number of events decoded at a time. The encoded form of a chunk is small.
const AT_ONCE: usize = 256;
/// Initial buffer size of a chunk. A larger buffer is allocated only if this one is too small and the header
/// allows it.
const ROOM_FIRST: usize = 1 << 20;
/// Maximum bytes that may be spent on false chunk starts: an initial amount, plus an amount per byte of the
/// file. Real damage stays far below. Without a bound, a crafted file could cost the square of its length.
const VAIN_FIRST: u64 = 4 * PAYLOAD_MAX as u64;
const VAIN_PER_BYTE: u64 = 4;

/// Returns the events of every whole chunk in the order written, and a [`Loss`] for each damaged part.
pub struct JournalReader<R = File> {
    input: R,
    /// For errors.
    path: PathBuf,
    /// Bytes read. Those before `at` are already processed.
    buffer: Vec<u8>,
    at: usize,
    at_end: bool,
    /// Reading failed before the end of the file. Reset once the loss is returned.
    is_cut: bool,
    /// Why.
    failed: Option<io::Error>,
    manifest: Option<Manifest>,
    /// Why the last manifest that was none is none.
    no_manifest: Option<RecordingError>,
    /// The chunk whose events are being given.
    open: Option<Open>,
    ready: VecDeque<Event>,
    /// Events missing before the next event.
    gap: Option<Gap>,
    /// Time of the last event that was decoded: losses begin there.
    last_at: Timestamp,
    /// Events that could not be written. Reset once the loss is returned.
    dropped: u64,
    /// Bytes that may be spent in vain.
    vain: u64,
}

/// A chunk of which a part is decoded.
struct Open {
    raw: Vec<u8>,
    /// Position in `raw`.
    decoder: Decoder<'static>,
    /// Events that its header promises, and that were not decoded yet.
    missing: u64,
}

/// Something is missing between two events.
struct Gap {
    reason: &'static str,
    start: Timestamp,
    /// 0: not known.
    events: u64,
}

impl JournalReader<File> {
    /// Opens the journal of the recording `dir`.
    ///
    /// # Errors
    /// It cannot be opened, or a newer holdup wrote it.
    pub fn open(dir: &Path) -> Result<JournalReader<File>, RecordingError> {
        let path = dir.join(JOURNAL);
        let file = File::open(&path).map_err(RecordingError::io(&path))?;
        let mut reader = JournalReader::begin(file, path);
        match reader.no_manifest.take_if(|error| matches!(error, RecordingError::Newer { .. })) {
            Some(newer) => Err(newer),
            None => Ok(reader),
        }
    }
}

impl<R: Read> JournalReader<R> {
    /// Reads a journal from anywhere.
    pub fn new(input: R) -> JournalReader<R> {
        JournalReader::begin(input, PathBuf::from(JOURNAL))
    }

    fn begin(input: R, path: PathBuf) -> JournalReader<R> {
        let mut reader = JournalReader {
            input,
            path,
            buffer: Vec::new(),
            at: 0,
            at_end: false,
            is_cut: false,
            failed: None,
            manifest: None,
            no_manifest: None,
            open: None,
            ready: VecDeque::new(),
            gap: None,
            last_at: Timestamp(0),
            dropped: 0,
            vain: VAIN_FIRST,
        };
        reader.fill(HEADER);
        reader.dropped = dropped_events(reader.rest());
        while reader.open.is_none() && reader.fill(HEADER) > 0 {
            reader.next_chunk();
        }
        reader
    }

    /// Omits the number of events that could not be written, for a caller that knows it better.
    pub fn without_dropped(mut self) -> JournalReader<R> {
        self.dropped = 0;
        self
    }

    /// The latest manifest read so far. Later ones are more complete.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// The journal's last manifest. Complete after the last event was returned.
    ///
    /// # Errors
    /// The journal has no readable manifest, or a newer holdup wrote it.
    pub fn into_manifest(self) -> Result<Manifest, RecordingError> {
        let JournalReader { manifest, no_manifest, path, .. } = self;
        match (no_manifest, manifest) {
            (Some(newer @ RecordingError::Newer { .. }), _) => Err(newer),
            (_, Some(manifest)) => Ok(manifest),
            (Some(damaged), None) => Err(damaged),
            (None, None) => {
                let reason = "this journal has none that is whole".to_owned();
                Err(RecordingError::Manifest { path, reason })
            }
        }
    }

    /// The read error that ended the journal early, if any. A [`Loss`] is returned as well. Complete after
    /// the last event.
    pub fn take_failure(&mut self) -> Option<RecordingError> {
        self.failed.take().map(RecordingError::io(&self.path))
    }

    /// Bytes that are read and not yet processed.
    fn rest(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Makes at least `wanted` bytes available unless the input ends first. Returns the number of available
    /// bytes.
    fn fill(&mut self, wanted: usize) -> usize {
        let mut there = self.rest().len();
        if there < wanted && !self.at_end {
            self.buffer.drain(..self.at.min(self.buffer.len()));
            self.at = 0;
        }
        while !self.at_end && there < wanted {
            let missing = (wanted - there).max(READ_MIN) as u64;
            match self.input.by_ref().take(missing).read_to_end(&mut self.buffer) {
                Ok(0) => self.at_end = true,
                Ok(_) => {}
                Err(error) => {
                    (self.at_end, self.is_cut) = (true, true);
                    self.failed = Some(error);
                }
            }
            there = self.rest().len();
        }
        there
    }

    fn consume(&mut self, length: usize) {
        self.at += length;
        self.vain = self.vain.saturating_add(length as u64 * VAIN_PER_BYTE);
    }

    /// Reads until events are ready. Returns false at the end.
    fn advance(&mut self) -> bool {
        loop {
            match self.open.take() {
                Some(open) => self.decode(open),
                None if self.fill(HEADER) == 0 => return self.at_its_end(),
                None => self.next_chunk(),
            }
            if !self.ready.is_empty() {
                return true;
            }
        }
    }

    /// Reads the chunk at the current position, or skips to the next possible chunk.
    fn next_chunk(&mut self) {
        let Some((header, raw, length)) = self.chunk() else { return self.skip() };
        self.consume(length);
        match header.kind {
            Kind::Manifest => match Manifest::parse(&raw, &self.path) {
                Ok(manifest) => self.manifest = Some(manifest),
                Err(error) => self.no_manifest = Some(error),
            },
            Kind::Events => {
                let (decoder, missing) = (Decoder::new(&[]), u64::from(header.events));
                self.open = Some(Open { raw, decoder, missing });
            }
        }
    }

    /// The chunk at the front, if it is whole and right: its header, raw payload and length in the file.
    fn chunk(&mut self) -> Option<(Header, Vec<u8>, usize)> {
        let (header, crc) = Header::decode(self.rest())?;
        let length = HEADER + header.stored as usize;
        if u64::from(header.stored) > self.vain {
            return None;
        }
        self.fill(length);
        let bytes = self.rest();
        let payload = bytes.get(HEADER..length)?;
        let is_right = checksum(bytes, payload) == crc;
        let raw = if is_right { inflate(payload, header.raw as usize) } else { None };
        if raw.is_none() {
            let inflated = if is_right { header.raw } else { 0 };
            self.vain = self.vain.saturating_sub(u64::from(header.stored) + u64::from(inflated));
        }
        Some((header, raw?, length))
    }

    /// Decodes the next events of a chunk, and keeps it if there may be more.
    fn decode(&mut self, open: Open) {
        let Open { raw, decoder, mut missing } = open;
        let mut decoder = decoder.over(&raw);
        for _ in 0..AT_ONCE {
            match decoder.next() {
                Some(Ok(event)) => {
                    missing = missing.saturating_sub(1);
                    self.give(event);
                }
                None if missing == 0 => return,
                // Another version wrote it, which knows more kinds of events.
                None | Some(Err(_)) => return self.miss("undecodable", missing),
            }
        }
        let decoder = decoder.over(&[]);
        self.open = Some(Open { raw, decoder, missing });
    }

    /// Queues an event. A pending gap ends at this event.
    fn give(&mut self, event: Event) {
        let at = event.at();
        self.emit_gap(at);
        self.last_at = at;
        self.ready.push_back(event);
    }

    /// Something is missing behind the last event.
    fn miss(&mut self, reason: &'static str, events: u64) {
        let start = self.last_at;
        let gap = self.gap.get_or_insert(Gap { reason, start, events: 0 });
        gap.events = gap.events.saturating_add(events);
    }

    fn emit_gap(&mut self, end: Timestamp) {
        let Some(Gap { reason, start, events }) = self.gap.take() else { return };
        let end = end.max(start);
        let (source, reason) = ("journal".to_owned(), reason.to_owned());
        self.ready.push_back(Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start, end, events }));
    }

    /// Goes on to the next place that looks like a chunk.
    fn skip(&mut self) {
        self.fill(HEADER + READ_MIN);
        let bytes = self.rest();
        let next = bytes
            .windows(MAGIC.len())
            .skip(1)
            .position(|window| window == MAGIC)
            .map_or(bytes.len().saturating_sub(MAGIC.len() - 1).max(1), |position| position + 1);
        let next = if self.at_end && next + MAGIC.len() > bytes.len() { bytes.len() } else { next };
        self.miss("checksum", 0);
        self.consume(next);
    }

    /// Queues the losses after the last event. Returns false if there are none.
    fn at_its_end(&mut self) -> bool {
        let unread = std::mem::take(&mut self.is_cut);
        if unread {
            self.miss("unreadable", 0);
        }
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.reason == "checksum") {
            gap.reason = if unread { "unreadable" } else { "truncated" };
        }
        self.emit_gap(self.last_at);
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            self.miss("disk-full", dropped);
            self.emit_gap(self.last_at);
        }
        !self.ready.is_empty()
    }
}

/// Decompresses `payload`. `None` if it is not a zstd frame of `length` bytes. Allocates as needed,
/// independent of the header's claim.
fn inflate(payload: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut decompressor = zstd::bulk::Decompressor::new().ok()?;
    let mut room = length.min(ROOM_FIRST);
    loop {
        let mut raw = Vec::with_capacity(room);
        match decompressor.decompress_to_buffer(payload, &mut raw) {
            Ok(_) => return (raw.len() == length).then_some(raw),
            Err(_) if room < length => room = (room * 4).min(length),
            Err(_) => return None,
        }
    }
}

impl<R: Read> Iterator for JournalReader<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Waking;
    use crate::recording::codec::Encoder;
    use crate::recording::journal::pack::Packer;

    #[test]
    fn a_chunk_is_decoded_a_part_at_a_time() {
        let (mut encoder, mut raw) = (Encoder::default(), Vec::new());
        let count = 10 * AT_ONCE;
        for at in 0..count as u64 {
            encoder.encode(&Event::Waking(Waking { at: Timestamp(at), ..Waking::default() }), &mut raw);
        }
        let mut packer = Packer::new().unwrap();
        let mut reader = JournalReader::new(packer.seal(Kind::Events, &raw, count as u32).unwrap());
        let mut times = Vec::new();
        while let Some(event) = reader.next() {
            assert!(reader.ready.len() < AT_ONCE);
            times.push(event.at().0);
        }
        assert_eq!(times, (0..count as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_promise_of_room_is_not_believed() {
        let packed = zstd::bulk::compress(&[0; 5 * ROOM_FIRST], 1).unwrap();
        assert_eq!(inflate(&packed, 5 * ROOM_FIRST).map(|raw| raw.len()), Some(5 * ROOM_FIRST));
        assert_eq!(inflate(&packed, 5 * ROOM_FIRST - 1), None);
        assert_eq!(inflate(&packed, 5 * ROOM_FIRST + 1), None);
        let small = zstd::bulk::compress(b"few", 1).unwrap();
        assert_eq!(inflate(&small, PAYLOAD_MAX as usize), None);
        assert!(inflate(&small, 3).is_some_and(|raw| raw == b"few" && raw.capacity() < 100));
    }
}
