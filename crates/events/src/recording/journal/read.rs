//! Reading a journal, whole or not.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::JOURNAL;
use super::chunk::{HEADER, Header, Kind, MAGIC, checksum, dropped_events};
use crate::recording::codec::Decoder;
use crate::recording::{Manifest, RecordingError};
use crate::{CpuId, Event, Loss, Timestamp};

/// Gives the events of every whole chunk, in the order written, and a [`Loss`] for what is broken.
pub struct JournalReader<R = File> {
    input: R,
    /// Bytes read and not yet consumed.
    buffer: Vec<u8>,
    at_end: bool,
    manifest: Option<Manifest>,
    ready: std::vec::IntoIter<Event>,
    /// Bytes skipped since the last whole chunk, and events expected there if a header told.
    skipped: usize,
    /// Time of the last event given: losses are placed there.
    last_at: Timestamp,
    /// Events that could not be written, as long as that was not told.
    dropped: u64,
}

impl JournalReader<File> {
    /// Opens the journal of the recording `dir`.
    pub fn open(dir: &Path) -> Result<JournalReader<File>, RecordingError> {
        let path = dir.join(JOURNAL);
        let mut file = File::open(&path).map_err(RecordingError::io(&path))?;
        file.seek(SeekFrom::Start(0)).map_err(RecordingError::io(&path))?;
        Ok(JournalReader::new(file))
    }
}

impl<R: Read> JournalReader<R> {
    /// Reads a journal from anywhere.
    pub fn new(input: R) -> JournalReader<R> {
        let mut reader = JournalReader {
            input,
            buffer: Vec::new(),
            at_end: false,
            manifest: None,
            ready: Vec::new().into_iter(),
            skipped: 0,
            last_at: Timestamp(0),
            dropped: 0,
        };
        reader.fill(HEADER);
        reader.dropped = dropped_events(&reader.buffer);
        reader.advance();
        reader
    }

    /// The same without a word of what could not be written: whoever wrote it knows that better.
    pub fn without_dropped(mut self) -> JournalReader<R> {
        self.dropped = 0;
        self
    }

    /// The manifest as the part that has been read tells it: what comes later knows more.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Makes at least `wanted` bytes available, if there are so many.
    fn fill(&mut self, wanted: usize) -> usize {
        while !self.at_end && self.buffer.len() < wanted {
            let missing = (wanted - self.buffer.len()).max(64 << 10) as u64;
            match self.input.by_ref().take(missing).read_to_end(&mut self.buffer) {
                Ok(0) | Err(_) => self.at_end = true,
                Ok(_) => {}
            }
        }
        self.buffer.len()
    }

    /// Reads on until events or the manifest are ready; false at the end.
    fn advance(&mut self) -> bool {
        loop {
            if self.fill(HEADER) == 0 {
                return self.at_its_end();
            }
            match self.chunk() {
                Some((Kind::Manifest, raw, length)) => {
                    self.manifest = serde_json::from_slice(&raw).ok().or(self.manifest.take());
                    self.consume(length);
                }
                Some((Kind::Events, raw, length)) => {
                    let mut events = Vec::new();
                    if self.skipped > 0 {
                        events.push(self.loss("checksum", 0));
                    }
                    self.skipped = 0;
                    events.extend(Decoder::new(&raw).map_while(Result::ok));
                    self.consume(length);
                    self.ready = events.into_iter();
                    return true;
                }
                None => self.skip(),
            }
        }
    }

    /// The chunk at the front, if it is whole and right: its kind, raw payload and length in the file.
    fn chunk(&mut self) -> Option<(Kind, Vec<u8>, usize)> {
        let (header, crc) = Header::decode(&self.buffer)?;
        let length = HEADER + header.stored as usize;
        self.fill(length);
        let payload = self.buffer.get(HEADER..length)?;
        if checksum(&self.buffer, payload) != crc {
            return None;
        }
        let raw = zstd::bulk::decompress(payload, header.raw as usize).ok()?;
        Some((header.kind, raw, length))
    }

    fn consume(&mut self, length: usize) {
        self.buffer.drain(..length.min(self.buffer.len()));
    }

    /// Goes on to the next place that looks like a chunk.
    fn skip(&mut self) {
        self.fill(HEADER + (64 << 10));
        let next = self
            .buffer
            .windows(MAGIC.len())
            .skip(1)
            .position(|window| window == MAGIC)
            .map_or(self.buffer.len().saturating_sub(MAGIC.len() - 1).max(1), |position| position + 1);
        let next =
            if self.at_end && next + MAGIC.len() > self.buffer.len() { self.buffer.len() } else { next };
        self.skipped += next;
        self.consume(next);
    }

    fn at_its_end(&mut self) -> bool {
        let mut losses = Vec::new();
        if std::mem::take(&mut self.skipped) > 0 {
            losses.push(self.loss("truncated", 0));
        }
        match std::mem::take(&mut self.dropped) {
            0 => {}
            events => losses.push(self.loss("disk-full", events)),
        }
        self.ready = losses.into_iter();
        self.ready.len() > 0
    }

    fn loss(&self, reason: &str, events: u64) -> Event {
        Event::Loss(Loss {
            source: "journal".to_owned(),
            reason: reason.to_owned(),
            cpu: CpuId::NONE,
            start: self.last_at,
            end: self.last_at,
            events,
        })
    }
}

impl<R: Read> Iterator for JournalReader<R> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.next() {
                self.last_at = event.at();
                return Some(event);
            }
            if !self.advance() {
                return None;
            }
        }
    }
}
