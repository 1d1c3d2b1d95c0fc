//! Writing the journal.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::JOURNAL;
use super::chunk::Kind;
use super::pack::{Content, Packer};
use crate::recording::{Manifest, RecordingError};
use crate::{CpuId, Event, Loss, Timestamp};

/// Appends events to a journal. After a write error (a full disk) it writes no more, and counts.
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    packer: Packer,
    /// What is known of the recording by now.
    manifest: Manifest,
    bytes: u64,
    dropped: Option<Loss>,
}

impl JournalWriter {
    /// Begins the journal of the recording `dir`, which must be an existing directory.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<JournalWriter, RecordingError> {
        let path = dir.join(JOURNAL);
        let file = File::create(&path).map_err(RecordingError::io(&path))?;
        // So that readers see that the recording goes on; a file system without locks does no harm.
        let _ = file.try_lock();
        let packer = Packer::new().map_err(RecordingError::io(&path))?;
        let manifest = manifest.clone();
        let mut journal = JournalWriter { file, path, packer, manifest, bytes: 0, dropped: None };
        journal.write_manifest().map_err(RecordingError::io(&journal.path))?;
        Ok(journal)
    }

    /// The recording begins at `start`, some time after its journal; what has been pushed is what it found. If the disk is full
    /// the next chunk will say so.
    pub fn begin_at(&mut self, start: Timestamp) {
        self.manifest.begin_at(start);
        self.flush();
        if self.dropped.is_none() {
            let _ = self.write_manifest();
        }
    }

    fn write_manifest(&mut self) -> std::io::Result<()> {
        let manifest = serde_json::to_vec(&self.manifest)?;
        let sealed = self.packer.seal(Kind::Manifest, &manifest)?;
        write(&mut self.file, sealed, &mut self.bytes)
    }

    /// Appends one event; written with its chunk.
    pub fn push(&mut self, event: &Event) {
        if let Some(loss) = &mut self.dropped {
            loss.events += 1;
            loss.end = loss.end.max(event.at());
            return;
        }
        if self.packer.push(event) {
            self.flush();
        }
    }

    /// Writes what has been pushed; call it now and then, so that a crash loses little.
    pub fn flush(&mut self) {
        let content = self.packer.content();
        if content.events == 0 {
            return;
        }
        let sealed = self.packer.seal_events();
        if sealed.and_then(|sealed| write(&mut self.file, sealed, &mut self.bytes)).is_err() {
            self.drop_chunk(content);
        }
    }

    /// Appends a chunk that was made elsewhere, behind what has been pushed.
    pub(in crate::recording) fn append(&mut self, chunk: &[u8], content: Content) {
        self.flush();
        if self.dropped.is_some() || write(&mut self.file, chunk, &mut self.bytes).is_err() {
            self.drop_chunk(content);
        }
    }

    fn drop_chunk(&mut self, content: Content) {
        let Content { events, span: (start, end) } = content;
        let dropped = self.dropped.get_or_insert_with(|| Loss {
            source: "journal".to_owned(),
            reason: "disk-full".to_owned(),
            cpu: CpuId::NONE,
            start,
            end,
            events: 0,
        });
        dropped.events += u64::from(events);
        dropped.end = dropped.end.max(end);
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

/// Writes a chunk behind the first `bytes`.
fn write(file: &mut File, sealed: &[u8], bytes: &mut u64) -> std::io::Result<()> {
    let written = file.write_all(sealed);
    match written {
        Ok(()) => *bytes += sealed.len() as u64,
        // Half a chunk is of no use to anybody.
        Err(_) => file.set_len(*bytes)?,
    }
    written
}
