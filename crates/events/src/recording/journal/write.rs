//! Writing the journal.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::JOURNAL;
use super::chunk::{DROPPED_AT, Kind, RAW_MAX, dropped_word};
use super::pack::{Batch, Content, Packer};
use crate::recording::codec::Encoder;
use crate::recording::{Manifest, RecordingError};
use crate::{CpuId, Event, Loss, Timestamp};

/// Appends events to a journal. After a write error (a full disk) it writes no more, and counts.
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    batch: Batch,
    packer: Packer,
    /// Latest known state of the recording.
    manifest: Manifest,
    bytes: u64,
    dropped: Option<Loss>,
    /// Number of dropped events that the file's first header contains.
    said: u64,
}

impl JournalWriter {
    /// Begins the journal of the recording `dir`, which must be an existing directory.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<JournalWriter, RecordingError> {
        let path = dir.join(JOURNAL);
        let file = File::create(&path).map_err(RecordingError::io(&path))?;
        // Marks the recording as running for readers. A file system without locks does no harm.
        let _ = file.try_lock();
        let packer = Packer::new().map_err(RecordingError::io(&path))?;
        let manifest = manifest.clone();
        let batch = Batch::default();
        let mut journal =
            JournalWriter { file, path, batch, packer, manifest, bytes: 0, dropped: None, said: 0 };
        journal.write_manifest().map_err(RecordingError::io(&journal.path))?;
        Ok(journal)
    }

    /// Sets the start of the recording, some time after the journal was created. Events pushed before are the
    /// initial state. A full disk is detected at the next chunk.
    pub fn begin_at(&mut self, start: Timestamp) {
        self.manifest.begin_at(start);
        self.flush();
        if self.dropped.is_none() {
            let _ = self.write_manifest();
        }
    }

    fn write_manifest(&mut self) -> std::io::Result<()> {
        let manifest = serde_json::to_vec(&self.manifest)?;
        let sealed = self.packer.seal(Kind::Manifest, &manifest, 0)?;
        write(&mut self.file, sealed, &mut self.bytes)
    }

    /// Appends one event. It is written with its chunk.
    pub fn push(&mut self, event: &Event) {
        if let Some(loss) = &mut self.dropped {
            loss.events += 1;
            loss.end = loss.end.max(event.at());
            return;
        }
        if self.batch.push(event) {
            self.flush();
        }
    }

    /// Writes the pushed events. Call it regularly, so that a crash loses little.
    pub fn flush(&mut self) {
        self.write_dropped();
        let JournalWriter { file, batch, packer, bytes, .. } = self;
        let written = batch.take(|raw, content| (write_events(file, packer, (raw, content), bytes), content));
        if let Some((Err(_), content)) = written {
            self.drop_chunk(content);
        }
    }

    /// Appends events that were encoded elsewhere, after the pushed ones.
    pub(in crate::recording) fn append(&mut self, raw: &[u8], content: Content) {
        self.flush();
        let JournalWriter { file, packer, bytes, .. } = self;
        if self.dropped.is_some() || write_events(file, packer, (raw, content), bytes).is_err() {
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
        self.write_dropped();
    }

    /// Writes the number of dropped events into the first header. This needs no disk space.
    fn write_dropped(&mut self) {
        let events = self.dropped.as_ref().map_or(0, |loss| loss.events);
        if events > self.said {
            // If this write fails, the finished recording still reports the loss.
            let _ = self.file.write_all_at(&dropped_word(events), DROPPED_AT as u64);
            self.said = events;
        }
    }

    /// Marks the journal as being written for the lifetime of the result. Otherwise it would be taken for the
    /// journal of a crashed recorder until its tables exist. `None` if no file descriptor is available.
    #[must_use = "the journal looks abandoned once this is dropped"]
    pub fn hold(&self) -> Option<HeldJournal> {
        self.file.try_clone().ok().map(HeldJournal)
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

/// A journal's lock, beyond its writer's life.
pub struct HeldJournal(
    #[allow(dead_code, reason = "the lock goes when the last copy of the file is closed")] File,
);

impl Drop for JournalWriter {
    fn drop(&mut self) {
        self.write_dropped();
    }
}

fn write_events(
    file: &mut File,
    packer: &mut Packer,
    (raw, content): (&[u8], Content),
    bytes: &mut u64,
) -> std::io::Result<()> {
    if raw.len() <= RAW_MAX {
        return write(file, packer.seal(Kind::Events, raw, content.events)?, bytes);
    }
    // No reader would believe it.
    let Content { events, span: (start, end) } = content;
    let (source, reason) = ("journal".to_owned(), "too-long".to_owned());
    let (cpu, events) = (CpuId::NONE, u64::from(events));
    let mut told = Vec::new();
    Encoder::default().encode(&Event::Loss(Loss { source, reason, cpu, start, end, events }), &mut told);
    write(file, packer.seal(Kind::Events, &told, 1)?, bytes)
}

/// Writes a chunk behind the first `bytes`.
fn write(file: &mut File, sealed: &[u8], bytes: &mut u64) -> std::io::Result<()> {
    let written = file.write_all(sealed);
    match written {
        Ok(()) => *bytes += sealed.len() as u64,
        // Removes the incomplete chunk.
        Err(_) => file.set_len(*bytes)?,
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Waking;
    use crate::recording::journal::{JournalReader, dropped};

    #[test]
    fn events_dropped_for_lack_of_space_are_counted_by_the_reader() {
        let dir = std::env::temp_dir().join(format!("holdup-journal-full-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let waking = |at: u64| Event::Waking(Waking { at: Timestamp(at), ..Waking::default() });
        let mut writer = JournalWriter::create(&dir, &Manifest::default()).unwrap();
        writer.push(&waking(5));
        writer.flush();
        assert_eq!(dropped(&dir), 0);
        writer.drop_chunk(Content { events: 3, span: (Timestamp(6), Timestamp(8)) });
        assert_eq!(dropped(&dir), 3);
        writer.push(&waking(9));
        writer.push(&waking(10));
        drop(writer);
        assert_eq!(dropped(&dir), 5);
        let read = || JournalReader::open(&dir).unwrap();
        let told: Vec<Event> = read().collect();
        let is_told =
            |loss: &Loss| loss.events == 5 && loss.reason == "disk-full" && loss.start == Timestamp(5);
        assert!(matches!(&told[..], [Event::Waking(_), Event::Loss(loss)] if is_told(loss)), "{told:?}");
        assert_eq!(read().without_dropped().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
