//! Writing the journal.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use zstd::bulk::Compressor;

use super::JOURNAL;
use super::chunk::{HEADER, Header, Kind};
use crate::recording::codec::Encoder;
use crate::recording::{Manifest, RecordingError};
use crate::{CpuId, Event, Loss, Timestamp};

/// Encoded bytes that make a chunk.
const CHUNK_BYTES: usize = 256 << 10;
/// Fast: the recorder shares the machine with what it records, and events are dense already.
const ZSTD_LEVEL: i32 = -1;

/// Appends events to a journal. After a write error (a full disk) it writes no more, and counts.
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    encoder: Encoder,
    encoded: Vec<u8>,
    compressor: Compressor<'static>,
    /// What is written at once: a chunk, compressed.
    stored: Vec<u8>,
    events: u32,
    bytes: u64,
    /// First and last event of the chunk that is being filled.
    span: (Timestamp, Timestamp),
    dropped: Option<Loss>,
}

impl JournalWriter {
    /// Begins the journal of the recording `dir`, which must be an existing directory.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<JournalWriter, RecordingError> {
        let path = dir.join(JOURNAL);
        let file = File::create(&path).map_err(RecordingError::io(&path))?;
        // So that readers see that the recording goes on; a file system without locks does no harm.
        let _ = file.try_lock();
        let mut writer = JournalWriter {
            file,
            path: path.clone(),
            encoder: Encoder::default(),
            encoded: Vec::with_capacity(CHUNK_BYTES * 2),
            compressor: Compressor::new(ZSTD_LEVEL).map_err(RecordingError::io(&path))?,
            stored: Vec::new(),
            events: 0,
            bytes: 0,
            span: (Timestamp(0), Timestamp(0)),
            dropped: None,
        };
        let manifest = serde_json::to_vec(manifest)
            .map_err(|error| RecordingError::Manifest { path: path.clone(), reason: error.to_string() })?;
        writer.chunk(Kind::Manifest, &manifest, 0).map_err(RecordingError::io(&path))?;
        Ok(writer)
    }

    /// Appends one event; written with its chunk.
    pub fn push(&mut self, event: &Event) {
        let at = event.at();
        self.span = if self.events == 0 { (at, at) } else { (self.span.0.min(at), self.span.1.max(at)) };
        if let Some(loss) = &mut self.dropped {
            loss.events += 1;
            loss.end = loss.end.max(event.at());
            return;
        }
        self.encoder.encode(event, &mut self.encoded);
        self.events += 1;
        if self.encoded.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    /// Writes what has been pushed; call it now and then, so that a crash loses little.
    pub fn flush(&mut self) {
        if self.events == 0 {
            return;
        }
        let encoded = std::mem::take(&mut self.encoded);
        let events = std::mem::take(&mut self.events);
        if self.chunk(Kind::Events, &encoded, events).is_err() {
            self.dropped = Some(Loss {
                source: "journal".to_owned(),
                reason: "disk-full".to_owned(),
                cpu: CpuId::NONE,
                start: self.span.0,
                end: self.span.1,
                events: u64::from(events),
            });
        }
        self.encoded = encoded;
        self.encoded.clear();
        self.encoder = Encoder::default();
    }

    fn chunk(&mut self, kind: Kind, raw: &[u8], events: u32) -> std::io::Result<()> {
        // Room for the header, too: one call writes both.
        self.stored.clear();
        self.stored.resize(HEADER + zstd::zstd_safe::compress_bound(raw.len()), 0);
        let (head, payload) = self.stored.split_at_mut(HEADER);
        let length = self.compressor.compress_to_buffer(raw, payload)?;
        let header = Header { kind, stored: length as u32, raw: raw.len() as u32, events };
        head.copy_from_slice(&header.encode(&payload[..length]));
        let before = self.bytes;
        let written = self.file.write_all(&self.stored[..HEADER + length]);
        match written {
            Ok(()) => self.bytes += (HEADER + length) as u64,
            // Half a chunk is of no use to anybody.
            Err(_) => self.file.set_len(before)?,
        }
        written
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Which events could not be written, if any.
    pub fn dropped(&self) -> Option<&Loss> {
        self.dropped.as_ref()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
