//! Writes recordings while the next one is watched for: in a thread of its own, behind everything else that wants the CPUs.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use holdup_capture::{memory, privileges};
use holdup_events::Loss;
use holdup_events::recording::journal::HeldJournal;
use holdup_events::recording::ring::Cut;
use holdup_events::recording::{Cost, Fired, JournalWriter, Manifest, SourceState, store};

use super::Mark;
use crate::record::roots::Roots;
use crate::record::{Recorded, finish, place};

/// Maximum number of recordings waiting to be written, because their chunks take memory.
const WAITING_MAX: usize = 2;

/// The location has already been printed.
const DEFECT: &str = "this is a defect of holdup";

/// Called for a finished recording, or with `None` if it failed.
pub type Report = Box<dyn Fn(Option<&Recorded>) -> Result<()> + Send + Sync>;

/// One recording to be written.
pub struct Job {
    /// The events.
    pub cut: Cut<Mark>,
    /// Why.
    pub fired: Vec<Fired>,
    /// Total cost up to its end.
    pub cost: Cost,
    /// The sources since its begin.
    pub sources: Vec<SourceState>,
    /// Where the files of its processes are.
    pub roots: Roots,
    /// The moment of its beginning by the calendar (ns since 1970).
    pub start_unix_ns: u64,
    /// The user asked for it: `--max-saves` does not count it.
    pub is_requested: bool,
}

impl Job {
    /// How many of the recordings that `--max-saves` allows it is.
    fn limited(&self) -> u32 {
        u32::from(!self.is_requested)
    }
}

/// Counts of recordings by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Saved.
    pub kept: u32,
    /// Waiting to be written.
    pub waiting: u32,
    /// Failed to be written.
    pub failed: u32,
    /// Failures since the last success.
    pub failed_in_a_row: u32,
    /// Saved recordings that the user did not request. `--max-saves` counts them.
    pub limited_kept: u32,
    /// Waiting recordings that the user did not request.
    pub limited_waiting: u32,
    /// Bytes of those that are there, of that name also of those that were there before.
    bytes: u64,
}

/// State shared by the recorder and its writer.
#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    said: Mutex<Vec<String>>,
}

impl Shared {
    fn print_once(&self, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.contains(&text) {
            say!("holdup: {text}");
            said.push(text);
        }
    }

    /// Changes the counts and returns them.
    fn count(&self, change: impl FnOnce(&mut Counts)) -> Counts {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        *counts
    }
}

impl Counts {
    /// One more is to be written.
    fn wait(&mut self, limited: u32) {
        self.waiting += 1;
        self.limited_waiting += limited;
    }

    /// One is no longer to be written.
    fn end_waiting(&mut self, limited: u32) {
        self.waiting -= 1;
        self.limited_waiting -= limited;
    }

    fn keep(&mut self, limited: u32) {
        self.kept += 1;
        self.limited_kept += limited;
        self.failed_in_a_row = 0;
    }

    fn fail(&mut self) {
        self.failed += 1;
        self.failed_in_a_row += 1;
    }
}

/// See [`Writer::write_journal`].
type Written = (PathBuf, Option<Loss>, Option<HeldJournal>);

/// Why a recording was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    /// As many wait as may.
    Full,
    /// The writer has ended.
    Gone,
}

/// The writer.
pub struct Saver {
    /// Until it begins.
    writer: Option<Writer>,
    sender: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    report: Arc<Report>,
    shared: Arc<Shared>,
    quota: u64,
}

struct Writer {
    manifest: Manifest,
    output: Option<PathBuf>,
    report: Arc<Report>,
    shared: Arc<Shared>,
    quota: u64,
    /// Number of the newest recording with its name.
    number: u32,
}

impl Saver {
    /// `manifest`: the manifest of all recordings. Writing starts with [`Saver::begin`].
    pub fn new(manifest: Manifest, output: Option<PathBuf>, quota: u64, report: Report) -> Saver {
        let (shared, report) = (Arc::new(Shared::default()), Arc::new(report));
        let (number, bytes) = output.as_deref().map_or((0, 0), saved_before);
        shared.count(|counts| counts.bytes = bytes);
        if bytes > 0 {
            say!(
                "holdup: --quota: earlier recordings of that name take {} MiB of it",
                bytes.div_ceil(1 << 20)
            );
        }
        let writer =
            Writer { manifest, output, report: report.clone(), shared: shared.clone(), quota, number };
        Saver { writer: Some(writer), sender: None, thread: None, report, shared, quota }
    }

    /// The recording begins. Only now is there a thread: it has no more privileges than the recorder then.
    pub fn begin(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let (sender, jobs) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("saver".to_owned());
        self.thread = Some(thread.spawn(move || writer.work(&jobs)).context("starting a thread")?);
        self.sender = Some(sender);
        Ok(())
    }

    /// Recordings so far leave some of the quota.
    pub fn has_room(&self) -> bool {
        let room = self.shared.count(|_| {}).bytes < self.quota;
        if !room {
            self.print_once("--quota is reached: holdup goes on without saving".to_owned());
        }
        room
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.shared.count(|_| {})
    }

    /// Writes the recording after the earlier ones. `waits`: blocks until there is room, if no recording is
    /// in progress.
    pub fn save(&self, job: Job, waits: bool) {
        match self.hand_over(job, waits) {
            Ok(()) => {}
            Err(Refused::Full) => {
                say!("holdup: not saved: {WAITING_MAX} recordings are still to be written");
            }
            Err(Refused::Gone) => {
                say!("holdup: not saved: the thread that writes recordings has ended");
                self.shared.count(Counts::fail);
                let _ = (self.report)(None);
            }
        }
    }

    fn hand_over(&self, job: Job, waits: bool) -> Result<(), Refused> {
        let sender = self.sender.as_ref().ok_or(Refused::Gone)?;
        // Before it is there to be taken: the writer takes it off again.
        let limited = job.limited();
        self.shared.count(|counts| counts.wait(limited));
        let taken = match waits {
            true => sender.send(job).map_err(|_| Refused::Gone),
            false => sender.try_send(job).map_err(|error| match error {
                TrySendError::Full(_) => Refused::Full,
                TrySendError::Disconnected(_) => Refused::Gone,
            }),
        };
        if taken.is_err() {
            self.shared.count(|counts| counts.end_waiting(limited));
        }
        taken
    }

    /// Prints a message once.
    pub fn print_once(&self, text: String) {
        self.shared.print_once(text);
    }

    /// Returns the messages of [`Saver::print_once`].
    #[cfg(test)]
    pub fn printed(&self) -> Vec<String> {
        self.shared.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until all recordings are written. Returns the counts.
    pub fn finish(&mut self) -> Counts {
        self.sender = None;
        let _ = self.thread.take().map(JoinHandle::join);
        self.counts()
    }
}

impl Writer {
    fn work(&mut self, jobs: &Receiver<Job>) {
        privileges::lower_priority();
        while let Ok(job) = jobs.recv() {
            let limited = job.limited();
            let written = caught(|| self.write(job));
            let counts = |change: fn(&mut Counts, u32)| {
                self.shared.count(|counts| {
                    counts.end_waiting(limited);
                    change(counts, limited);
                })
            };
            let told = match written {
                Ok(Some(recorded)) => {
                    counts(Counts::keep);
                    say!("holdup: saved {}", recorded.path.display());
                    caught(|| self.write_report(Some(&recorded)))
                }
                Ok(None) => {
                    counts(|_, _| {});
                    Ok(())
                }
                Err(error) => {
                    counts(|counts, _| counts.fail());
                    say!("holdup: not saved: {error:#}");
                    caught(|| self.write_report(None))
                }
            };
            if let Err(error) = told {
                say!("holdup: {error:#}");
            }
            memory::give_back_freed();
        }
    }

    /// The report opens files that the user names.
    fn write_report(&self, recorded: Option<&Recorded>) -> Result<()> {
        privileges::open_own_files()?;
        (self.report)(recorded)
    }

    /// `None`: the quota does not allow it.
    fn write(&mut self, job: Job) -> Result<Option<Recorded>> {
        let left = self.quota.saturating_sub(self.shared.count(|_| {}).bytes);
        if job.cut.bytes() > left {
            self.shared.print_once(format!(
                "--quota: {} MiB are left, not enough for the next recording",
                left >> 20
            ));
            return Ok(None);
        }
        let Job { cut, fired, cost, sources, roots, start_unix_ns, is_requested: _ } = job;
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
        let (path, dropped, held) = self.write_journal(cut, &manifest)?;
        let unfinished = finish::finish(&path, &mut manifest, dropped.clone(), &roots).err();
        drop(held);
        self.shared.count(|counts| counts.bytes += bytes_of(&path));
        let unfinished =
            unfinished.map(|error| crate::record::unfinished(&path, error, (manifest, dropped, roots)));
        Ok(Some(Recorded { path, unfinished, ending: None }))
    }

    /// Creates a new directory. Returns its path and number. An existing path is never replaced, because it
    /// may be an earlier recording.
    fn place(&self) -> Result<(PathBuf, u32)> {
        let Some(output) = &self.output else {
            let command = self.manifest.command.first().map_or("", String::as_str);
            return Ok((place::make_kept(command)?, self.number));
        };
        let mut number = self.number;
        loop {
            number = number.checked_add(1).context("there are no numbers left")?;
            let path = place::numbered(output, number);
            match place::make_new(&path) {
                Ok(()) => return Ok((path, number)),
                // `AlreadyExists` may also come from a file that occupies the parent directory's name.
                Err(error) if error.kind() == ErrorKind::AlreadyExists && path.symlink_metadata().is_ok() => {
                }
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot write a recording to {}", path.display()));
                }
            }
        }
    }

    /// Writes the journal. Returns its path, the events that did not fit, and the lock that marks it as in
    /// use until its tables exist. If no event fits, the directory is removed.
    fn write_journal(&mut self, cut: Cut<Mark>, manifest: &Manifest) -> Result<Written> {
        privileges::open_own_files()?;
        let (path, number) = self.place()?;
        let written =
            JournalWriter::create(&path, manifest).map_err(anyhow::Error::from).and_then(|mut journal| {
                let empty = journal.bytes();
                cut.write(&mut journal);
                match journal.dropped() {
                    Some(_) if journal.bytes() == empty => bail!("there is no room on the disk"),
                    dropped => Ok((dropped.cloned(), journal.hold())),
                }
            });
        if written.is_err() {
            let _ = store::remove(&path);
        }
        let (dropped, held) = written?;
        self.number = number;
        // From here on, files of the recorded processes are read.
        privileges::drop_unneeded()?;
        Ok((path, dropped, held))
    }
}

/// Returns the greatest number, and the bytes, of existing recordings `NAME-N.holdup`, from an earlier start
/// with the same name.
fn saved_before(output: &Path) -> (u32, u64) {
    let above = output.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    let stem = format!("{}-", output.file_stem().unwrap_or_default().to_string_lossy());
    let number = |name: &str| {
        let number = name.strip_prefix(&stem)?.strip_suffix(store::ENDING)?.strip_suffix('.')?;
        number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)
    };
    let saved =
        entries.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, bytes_of(&entry.path()))));
    saved.fold((0, 0), |(last, sum), (number, bytes)| (last.max(number), sum + bytes))
}

/// A panic (an unforeseen file content) must not prevent the following recordings.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(anyhow!(DEFECT)))
}

fn bytes_of(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use holdup_events::Timestamp;
    use holdup_events::recording::ring::{EventRing, Keep};

    use super::*;

    fn job() -> Job {
        let keep = Keep { time: holdup_events::Duration(1_000_000_000), bytes: 1 << 20 };
        let cut = EventRing::new(keep, Mark::default()).cut(Timestamp(1)).unwrap();
        let (fired, cost, sources, roots) = (Vec::new(), Cost::default(), Vec::new(), Roots::default());
        Job { cut, fired, cost, sources, roots, start_unix_ns: 0, is_requested: false }
    }

    /// A path below which no directory can be created: each save fails and is reported.
    fn saver(report: impl Fn(Option<&Recorded>) -> Result<()> + Send + Sync + 'static) -> Saver {
        let mut saver =
            Saver::new(Manifest::default(), Some("/dev/null/w".into()), u64::MAX, Box::new(report));
        saver.begin().unwrap();
        saver
    }

    #[test]
    fn the_last_one_waits_for_those_before_it() {
        let (go, wait): (Sender<()>, Receiver<()>) = channel();
        let wait = Mutex::new(wait);
        let mut saver = saver(move |_| Ok(wait.lock().map(|wait| wait.recv()).unwrap()?));
        // One recording is in its report callback, and the others wait.
        assert_eq!(saver.hand_over(job(), false), Ok(()));
        while saver.counts().waiting > 0 {
            std::thread::yield_now();
        }
        for _ in 0..WAITING_MAX {
            assert_eq!(saver.hand_over(job(), false), Ok(()));
        }
        assert_eq!(saver.hand_over(job(), false), Err(Refused::Full));
        let is_back = AtomicBool::new(false);
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| {
                while saver.counts().waiting as usize <= WAITING_MAX && !is_back.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                (0..WAITING_MAX + 2).for_each(|_| go.send(()).unwrap());
            });
            let taken = saver.hand_over(job(), true);
            is_back.store(true, Ordering::Relaxed);
            taken
        });
        assert_eq!(taken, Ok(()));
        let counts = saver.finish();
        assert_eq!((counts.failed, counts.waiting), (WAITING_MAX as u32 + 2, 0));
    }

    #[test]
    fn a_panic_is_a_failure_of_one_recording() {
        let mut saver = saver(|_| panic!("no report"));
        (0..3).for_each(|_| saver.save(job(), true));
        assert_eq!(saver.finish().failed, 3, "all were tried");
        assert_eq!(caught(|| -> Result<()> { panic!("no recording") }).unwrap_err().to_string(), DEFECT);
    }

    #[test]
    fn an_exited_writer_is_not_reported_as_a_full_queue() {
        let (sender, told) = channel();
        let sender = Mutex::new(sender);
        let mut saver =
            saver(move |recorded| Ok(sender.lock().map(|to| to.send(recorded.is_none())).unwrap()?));
        saver.finish();
        let (gone, _) = sync_channel(0);
        saver.sender = Some(gone);
        assert_eq!(saver.hand_over(job(), false), Err(Refused::Gone));
        assert_eq!(saver.hand_over(job(), true), Err(Refused::Gone));
        saver.save(job(), false);
        assert_eq!((saver.counts().failed, saver.counts().waiting), (1, 0));
        assert_eq!(told.try_recv(), Ok(true));
    }

    #[test]
    fn what_was_saved_before_is_counted_and_kept() {
        let scratch = std::env::temp_dir().join(format!("holdup-saver-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&scratch);
        let output = scratch.join("w.holdup");
        assert_eq!(saved_before(&output), (0, 0));
        for name in ["w-2.holdup", "w-11.holdup", "w-03.holdup", "w-x.holdup", "w.holdup", "v-40.holdup"] {
            std::fs::create_dir_all(scratch.join(name)).unwrap();
            std::fs::write(scratch.join(name).join("manifest.json"), "1234").unwrap();
        }
        assert_eq!(saved_before(&output), (11, 8));
        let save = |quota| {
            let mut saver =
                Saver::new(Manifest::default(), Some(output.clone()), quota, Box::new(|_| Ok(())));
            saver.begin().unwrap();
            // A directory that another program has made since.
            std::fs::create_dir_all(scratch.join("w-12.holdup")).unwrap();
            let has_room = saver.has_room();
            if has_room {
                saver.save(job(), true);
            }
            (has_room, saver.finish().kept)
        };
        assert_eq!(save(8), (false, 0), "what is there takes all of it");
        assert_eq!(save(u64::MAX), (true, 1));
        assert!(scratch.join("w-13.holdup/manifest.json").exists());
        assert_eq!(std::fs::read(scratch.join("w-2.holdup/manifest.json")).unwrap(), b"1234");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
