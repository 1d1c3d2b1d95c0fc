//! Writes recordings while the next one is watched for: in a thread of its own, behind everything else that wants the CPUs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use holdup_capture::{memory, privileges};
use holdup_events::recording::ring::Cut;
use holdup_events::recording::{Cost, Fired, JournalWriter, Manifest, SourceState};

use super::Mark;
use crate::record::roots::Roots;
use crate::record::{Recorded, finish, place};

/// Recordings that wait to be written; their chunks take memory.
const WAITING_MAX: usize = 2;

/// What to do with a recording once it is there.
pub type Report = Box<dyn Fn(&Recorded) -> Result<()> + Send>;

/// One recording to be written.
pub struct Job {
    /// Its events.
    pub cut: Cut<Mark>,
    /// Why.
    pub fired: Vec<Fired>,
    /// What it cost up to its end, in all.
    pub cost: Cost,
    /// What delivered, since its beginning.
    pub sources: Vec<SourceState>,
    /// Where the files of its processes are.
    pub roots: Roots,
    /// The moment of its beginning by the calendar (ns since 1970).
    pub start_unix_ns: u64,
}

/// What the recorder and its writer both look at.
#[derive(Default)]
struct Shared {
    /// Bytes of recordings.
    bytes: AtomicU64,
    /// Recordings that are there.
    kept: AtomicU32,
    said: Mutex<Vec<String>>,
}

impl Shared {
    fn say_once(&self, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&text) {
            eprintln!("holdup: {text}");
            said.push(text);
        }
    }
}

/// The writer.
pub struct Saver {
    sender: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    quota: u64,
}

struct Writer {
    manifest: Manifest,
    output: Option<PathBuf>,
    report: Report,
    shared: Arc<Shared>,
    quota: u64,
    number: u32,
}

impl Saver {
    /// With what every recording's manifest says.
    pub fn start(manifest: Manifest, output: Option<PathBuf>, quota: u64, report: Report) -> Result<Saver> {
        let shared = Arc::new(Shared::default());
        let (sender, jobs) = sync_channel(WAITING_MAX);
        let mut writer = Writer { manifest, output, report, shared: shared.clone(), quota, number: 0 };
        let thread = std::thread::Builder::new().name("saver".to_owned());
        let thread = thread.spawn(move || writer.work(&jobs)).context("starting a thread")?;
        Ok(Saver { sender: Some(sender), thread: Some(thread), shared, quota })
    }

    /// Recordings so far leave some of the quota.
    pub fn has_room(&self) -> bool {
        let room = self.shared.bytes.load(Ordering::Relaxed) < self.quota;
        if !room {
            self.say_once("--quota is reached: nothing more is saved".to_owned());
        }
        room
    }

    /// Recordings that are there.
    pub fn kept(&self) -> u32 {
        self.shared.kept.load(Ordering::Relaxed)
    }

    /// Writes it as soon as those before are written.
    pub fn save(&self, job: Job) {
        let full = self.sender.as_ref().is_some_and(|sender| sender.try_send(job).is_err());
        if full {
            eprintln!("holdup: not saved: {WAITING_MAX} recordings are still to be written");
        }
    }

    /// Says something, the first time.
    pub fn say_once(&self, text: String) {
        self.shared.say_once(text);
    }

    /// Waits until all are written; tells how many are there.
    pub fn finish(&mut self) -> u32 {
        self.sender = None;
        let _ = self.thread.take().map(JoinHandle::join);
        self.kept()
    }
}

impl Writer {
    fn work(&mut self, jobs: &Receiver<Job>) {
        privileges::run_behind_others();
        while let Ok(job) = jobs.recv() {
            if let Err(error) = self.write(job) {
                eprintln!("holdup: not saved: {error:#}");
            }
            memory::give_back_freed();
        }
    }

    fn write(&mut self, job: Job) -> Result<()> {
        let left = self.quota.saturating_sub(self.shared.bytes.load(Ordering::Relaxed));
        if job.cut.bytes() > left {
            self.shared
                .say_once(format!("--quota: {} MiB are left, not enough for the next recording", left >> 20));
            return Ok(());
        }
        self.number += 1;
        let command = self.manifest.command.first().map_or("", String::as_str);
        let named = self.output.as_deref().map(|path| numbered(path, self.number));
        let path = place::make(named.as_deref(), command)?;
        let Job { cut, fired, cost, sources, roots, start_unix_ns } = job;
        let before = &cut.mark.cost;
        let mut manifest = Manifest {
            start_ns: cut.start.0,
            end_ns: cut.end.0,
            start_unix_ns,
            fired,
            sources,
            cost: Cost {
                recorder_cpu_ns: cost.recorder_cpu_ns.saturating_sub(before.recorder_cpu_ns),
                probes_cpu_ns: cost.probes_cpu_ns.saturating_sub(before.probes_cpu_ns),
                stacks_cpu_ns: cost.stacks_cpu_ns.saturating_sub(before.stacks_cpu_ns),
                switches: cost.switches.saturating_sub(before.switches),
                ..cost
            },
            ..self.manifest.clone()
        };
        let mut journal = JournalWriter::create(&path, &manifest)?;
        cut.write(&mut journal);
        let dropped = journal.dropped().cloned();
        drop(journal);
        let unfinished = finish::finish(&path, &mut manifest, dropped.clone(), &roots).err();
        self.shared.bytes.fetch_add(bytes_of(&path), Ordering::Relaxed);
        self.shared.kept.fetch_add(1, Ordering::Relaxed);
        eprintln!("holdup: saved {}", path.display());
        let unfinished =
            unfinished.map(|error| crate::record::unfinished(&path, error, (manifest, dropped, roots)));
        (self.report)(&Recorded { path, unfinished, ending: None })
    }
}

/// `NAME.holdup` → `NAME-1.holdup`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.holdup"))
}

fn bytes_of(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_one_name_are_numbered() {
        assert_eq!(numbered(Path::new("/tmp/slow.holdup"), 3), Path::new("/tmp/slow-3.holdup"));
        assert_eq!(numbered(Path::new("slow"), 1), Path::new("slow-1.holdup"));
    }
}
