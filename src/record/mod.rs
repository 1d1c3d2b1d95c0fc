//! Recording: from a target to a finished recording on disk. Wiring of capture, decode and events.

pub mod allocations;
mod backends;
mod blocked;
mod bpf;
mod budget;
mod calls;
pub mod disk_cache;
mod exited;
mod fault_windows;
pub mod files;
pub mod finish;
mod generated_code;
pub mod hardware;
mod kernel_counts;
mod launcher;
mod limits;
mod line_watch;
mod lower;
mod naps;
mod output;
pub mod place;
pub mod program;
pub mod progress;
mod random;
mod returned_cpus;
pub mod roots;
pub mod runtime_events;
mod runtime_names;
mod shrunk;
mod skipped_runs;
mod span_probes;
mod stack_tables;
mod syscall_windows;
mod task_windows;
mod waited_names;
mod watching;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use holdup_capture::launch::{Child, Ending, Life};
use holdup_capture::lower::procfs;
use holdup_capture::ring_files::RingDirectory;
use holdup_capture::{host, launch, lower as lower_backends, sources, topology};
use holdup_decode::reorder::Lag;
use holdup_events::recording::{Backend, Cost, HeldJournal, JournalWriter, Manifest, MemoryUse, SourceState};
use holdup_events::{Event, Loss, Timestamp};
use holdup_findings::descriptors::Descriptors;
use holdup_report::text::shell_word;

use crate::cli::{RecordArgs, StackChoice};
use backends::{Backends, run_unrecorded};
use output::Output;
use progress::Progress;
pub use watching::watch;

/// The recorded program, process or machine.
pub enum Subject {
    /// A program that is started for it, held until everything is ready.
    Run(launch::Held, Beside),
    /// A process that runs already, with those that it has started and will start.
    Attach {
        /// Which.
        pid: u32,
        /// Without the others.
        only: bool,
    },
    /// The whole machine.
    All,
}

impl Subject {
    /// Takes the prepared helpers of the program. Empty for other subjects.
    fn take_helpers(&mut self) -> Beside {
        match self {
            Subject::Run(_, beside) => std::mem::take(beside),
            _ => Beside::default(),
        }
    }
}

/// Helpers prepared for a program that holdup starts.
#[derive(Default)]
pub struct Beside {
    /// Directory for the rings of runtime events.
    pub rings: Option<RingDirectory>,
    /// The sampler of its allocations, if requested.
    pub allocations: Option<allocations::Sampler>,
}

/// A finished recording.
pub struct Recorded {
    /// Where it is.
    pub path: PathBuf,
    /// Set if the tables could not be written and the recording is still a journal.
    pub unfinished: Option<Box<Unfinished>>,
    /// How the program ended, if it was run.
    pub ending: Option<Ending>,
}

/// The parts of a recording whose tables could not be written, for example on a full disk.
pub struct Unfinished {
    /// Why.
    pub error: anyhow::Error,
    /// The manifest that would have been written.
    pub manifest: Manifest,
    /// Events that did not fit into the journal.
    pub dropped: Option<Loss>,
    /// Where its processes' files are.
    pub roots: roots::Roots,
}

/// How a recording ended: what the manifest still lacks.
#[derive(Default)]
struct Outcome {
    start_ns: u64,
    end_ns: u64,
    /// See [`Manifest::threads_seen`].
    threads_seen: u64,
    /// See [`Manifest::lag_ns`].
    lag_ns: u64,
    ending: Option<Ending>,
    /// Memory use of a command that has ended.
    memory: Option<MemoryUse>,
    cost: Cost,
    sources: Vec<SourceState>,
    /// Events that did not fit into the journal.
    dropped: Option<Loss>,
    roots: roots::Roots,
}

/// The result of [`record`].
pub enum Done {
    /// A recording was made.
    Recorded(Recorded),
    /// The program ran without: no backend could be opened, or there was no place for the recording. Or a signal came before
    /// the recording began.
    Unrecorded(Ending),
}

/// Records `subject` until it ends, `length` is over, or the user stops it.
///
/// # Errors
/// If the program cannot be run, or an option that the user named is not available. In the second case the
/// program was not run.
pub fn record(
    mut subject: Subject,
    command: Vec<String>,
    length: Option<Duration>,
    options: &RecordArgs,
    progress: &Progress,
) -> Result<Done> {
    hardware::check(&options.counters).map_err(anyhow::Error::msg)?;
    let mut backends = Backends::choose(options.backend, &subject)?;
    let program = matches!(subject, Subject::Run(..)).then(|| command.first().map(OsString::from)).flatten();
    // Opening a backend takes a while. A signal during this time must not leave an incomplete recording.
    launch::watch_stopping_signals()?;
    // Until it is settled, nothing was recorded: nothing is left behind.
    let place = match place::begin(options.output.as_deref(), command.first().map_or("", String::as_str)) {
        Ok(place) => Rc::new(place),
        // Failure at a path that the user named is an error. Without one, the program runs unrecorded.
        Err(error) if options.output.is_none() => {
            return run_unrecorded(subject, error).map(Done::Unrecorded);
        }
        Err(error) => return Err(error),
    };
    let beside = subject.take_helpers();
    // The library stays where it is until stacks through it are walked and named.
    let sampler = beside.allocations.map(Rc::new);
    let rings = beside.rings.map(Rc::new);
    let descriptors = crate::commands::descriptors::read(&options.descriptors)?;
    let begin = |backends: &Backends, subject: &Subject| -> Result<Begun> {
        let reason = reason(backends, subject);
        let manifest = manifest(subject, command.clone(), options, (backends.current(), reason));
        let journal = JournalWriter::create(place.at(), &manifest)?;
        // Until its tables are there it does not look abandoned.
        let held = journal.hold();
        let recorder = Recorder {
            journal: Output::Journal(Box::new(journal), place.clone(), Lag::default()),
            options: options.clone(),
            length,
            program: program.clone(),
            rings: rings.clone(),
            allocations: sampler.clone(),
            descriptors: descriptors.clone(),
        };
        Ok(Begun { ready: prepare(subject, backends.current(), recorder), manifest, held })
    };
    let Begun { ready, manifest, held } = loop {
        let begun = begin(&backends, &subject)?;
        let error = match begun.ready {
            Err(error) => error,
            Ok(_) => break begun,
        };
        match backends.next_after(error) {
            Ok(()) => {}
            Err(error) if backends.may_run_without(&subject) => {
                return run_unrecorded(subject, error).map(Done::Unrecorded);
            }
            Err(error) => return Err(error),
        }
    };
    if let Some(ending) = stopped_early() {
        return Ok(Done::Unrecorded(ending));
    }
    backends.announce();
    let lacking = lacking(options, backends.current(), sampler.is_some());
    announce(&lacking);
    progress.recording_begins();
    let outcome = ready?.run(subject)?;
    let _writing = progress.phase("the recording ended: writing its tables and naming its code");
    let recorded = complete(outcome, manifest, lacking, &place);
    drop(held);
    recorded.map(Done::Recorded)
}

/// How holdup ends if a signal came before the program ran.
fn stopped_early() -> Option<Ending> {
    let signal = launch::stopped_by()?;
    say!("holdup: stopped by signal {signal} before the recording began: nothing was recorded");
    Some(Ending::Killed(signal))
}

fn announce(lacking: &[Lacking]) {
    for (option, _, missing) in lacking {
        say!("holdup: {option}: {missing}. This recording is made without it");
    }
}

/// A recording that was begun with one backend.
struct Begun {
    ready: Result<Ready>,
    manifest: Manifest,
    held: Option<HeldJournal>,
}

/// A backend that is open.
enum Ready {
    Bpf(Box<bpf::Ready>),
    Lower(Box<lower::Ready>),
}

impl Ready {
    fn run(self, subject: Subject) -> Result<Outcome> {
        match self {
            Ready::Bpf(ready) => ready.run(subject),
            Ready::Lower(ready) => ready.run(subject),
        }
    }
}

/// Opens a backend. The recorded program does not run yet.
fn prepare(subject: &Subject, backend: Backend, recorder: Recorder) -> Result<Ready> {
    match backend {
        Backend::Bpf => Ok(Ready::Bpf(Box::new(bpf::prepare(subject, recorder)?))),
        Backend::Perf | Backend::Proc => {
            Ok(Ready::Lower(Box::new(lower::prepare(subject, backend, recorder)?)))
        }
    }
}

/// Why no higher backend records, and what a lower one does not see of a process that is attached to.
fn reason(backends: &Backends, subject: &Subject) -> String {
    let hidden = match (subject, backends.current()) {
        (Subject::Attach { pid, .. }, Backend::Perf | Backend::Proc) => lower_backends::hidden(*pid),
        _ => None,
    };
    let parts = [Some(backends.reason()), hidden];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// An option that the backend does not have, its source, and why.
type Lacking = (&'static str, &'static str, &'static str);

/// Writes the recorded events to the tables.
fn complete(
    outcome: Outcome,
    mut manifest: Manifest,
    lacking: Vec<Lacking>,
    place: &place::Begun,
) -> Result<Recorded> {
    let path = place.settle_anyhow();
    manifest.begin_at(Timestamp(outcome.start_ns));
    manifest.end_ns = outcome.end_ns.max(outcome.start_ns);
    manifest.exit_status = outcome.ending.map(Ending::shell_status);
    manifest.exit_signal = outcome.ending.and_then(Ending::signal);
    topology::add_later(&mut manifest.host.places);
    manifest.threads_seen = outcome.threads_seen;
    manifest.lag_ns = outcome.lag_ns;
    manifest.cost = outcome.cost;
    manifest.memory = outcome.memory;
    manifest.sources = outcome.sources;
    for (_, name, missing) in lacking {
        let (name, missing) = (name.to_owned(), missing.to_owned());
        manifest.sources.push(SourceState { name, missing, ..SourceState::default() });
    }
    // From then on nothing was written.
    let dropped = outcome.dropped.map(|loss| Loss { end: Timestamp(manifest.end_ns), ..loss });
    let failed = finish::finish(&path, &mut manifest, dropped.clone(), &outcome.roots).err();
    let unfinished = failed.map(|error| unfinished(&path, error, (manifest, dropped, outcome.roots)));
    holdup_capture::privileges::open_own_files()?;
    Ok(Recorded { path, unfinished, ending: outcome.ending })
}

/// Returns the requested options that the backend lacks: option, source and reason.
fn lacking(options: &RecordArgs, backend: Backend, draws_allocations: bool) -> Vec<Lacking> {
    let counted = options.counters.iter().any(|name| !matches!(name.as_str(), "auto" | "none"));
    let all = [
        (counted, ("--counters", hardware::SOURCE, "hardware counters are read by BPF programs only")),
        (options.syscalls, ("--syscalls", "syscalls", "syscalls are counted by BPF programs only")),
        (
            draws_allocations,
            ("--allocs", sources::ALLOCATIONS, "allocations are recorded by BPF programs only"),
        ),
    ];
    all.into_iter()
        .filter(|(asked, _)| *asked && backend != Backend::Bpf)
        .map(|(_, lacking)| lacking)
        .collect()
}

/// Returns the parts of a recording whose tables could not be written.
pub fn unfinished(
    path: &Path,
    error: anyhow::Error,
    (manifest, dropped, roots): (Manifest, Option<Loss>, roots::Roots),
) -> Box<Unfinished> {
    let hint = format!(
        "the recording is kept as a journal: `holdup report {}` reads it",
        shell_word(&path.to_string_lossy())
    );
    Box::new(Unfinished { error: error.context(hint), manifest, dropped, roots })
}

/// Parameters of every backend's loop.
struct Recorder {
    journal: Output,
    options: RecordArgs,
    length: Option<Duration>,
    /// The program to run.
    program: Option<OsString>,
    /// Directory for the rings of runtime events.
    rings: Option<Rc<RingDirectory>>,
    /// The sampler of allocations.
    allocations: Option<Rc<allocations::Sampler>>,
    /// Descriptors of runtimes.
    descriptors: Descriptors,
}

/// Starts the clock. The returned function gives the rest of `length`, or the maximum without a length.
fn start_clock(length: Option<Duration>) -> impl Fn() -> Duration {
    let started = Instant::now();
    move || length.map_or(Duration::MAX, |length| length.saturating_sub(started.elapsed()))
}

/// The subject whose end is awaited.
enum Watched {
    Child(Child),
    Process(Other),
    Machine,
}

impl Watched {
    /// Returns how the subject ended, or `None` while it runs. Without a status if the process was not our
    /// child.
    fn ended(&mut self) -> Option<Option<Ending>> {
        match self {
            Watched::Child(child) => child.try_wait().map(Some),
            Watched::Process(other) => other.is_over().then_some(None),
            Watched::Machine => None,
        }
    }

    /// A recording may end before a program of ours does: waits for how that ends.
    fn wait(&mut self) -> Option<Ending> {
        match self {
            Watched::Child(child) => Some(child.wait()),
            Watched::Process(_) | Watched::Machine => None,
        }
    }

    /// When a program of ours was released. Its wait for the recorder before that is not part of the recording.
    fn released(&self) -> Option<Timestamp> {
        match self {
            Watched::Child(child) => Some(child.released()),
            Watched::Process(_) | Watched::Machine => None,
        }
    }

    /// Returns the memory use of our program after its end.
    fn memory(&self) -> Option<MemoryUse> {
        match self {
            Watched::Child(child) => child.memory(),
            Watched::Process(_) | Watched::Machine => None,
        }
    }

    /// Sleeps so long, or until a process that we watch ends, `readable` can be read, or a signal comes.
    fn pause(&self, pause: Duration, readable: Option<BorrowedFd<'_>>) {
        match self {
            Watched::Child(child) => child.sleep_until_exit(pause, readable),
            Watched::Process(Other { life, .. }) => {
                launch::sleep(pause, life.as_ref(), readable);
            }
            Watched::Machine => {
                launch::sleep(pause, None, readable);
            }
        }
    }

    /// Whether the user has stopped the recording of an attached process or the machine. A program that
    /// holdup started handles signals itself.
    fn stopped(&self) -> bool {
        !matches!(self, Watched::Child(_)) && launch::asked_to_stop()
    }
}

/// A process that is not our child.
struct Other {
    pid: u32,
    /// Where there is none, /proc is asked.
    life: Option<Life>,
}

impl Other {
    fn new(pid: u32) -> Other {
        Other { pid, life: Life::open(pid) }
    }

    fn is_over(&self) -> bool {
        self.life.as_ref().map_or_else(|| !process_exists(self.pid), Life::is_over)
    }
}

/// Whether a process exists and is no zombie. A process whose first thread has exited lives on in its other
/// threads. For hidden processes, zombies cannot be detected.
pub fn process_exists(pid: u32) -> bool {
    pid != 0 && (procfs::has_threads(pid, &[]) || procfs::is_hidden(pid))
}

fn manifest(
    subject: &Subject,
    command: Vec<String>,
    options: &RecordArgs,
    (backend, reason): (Backend, String),
) -> Manifest {
    let (mode, pid) = match subject {
        Subject::Run(held, _) => ("run", held.pid().to_string()),
        Subject::Attach { pid, .. } => ("attach", pid.to_string()),
        Subject::All => ("all", "self".to_owned()),
    };
    let mut host = host::Facts::read().host;
    host.cpus_allowed = host::cpus_allowed(&pid);
    Manifest {
        format: holdup_events::recording::FORMAT_VERSION,
        holdup: crate::build_name::name().to_owned(),
        command,
        mode: mode.to_owned(),
        host,
        start_ns: holdup_capture::lower::now().0,
        boot_id: host::boot_id(),
        start_unix_ns: unix_ns(),
        backend,
        recorder_pid: std::process::id(),
        backend_reason: reason,
        sample_period_ns: match options.freq {
            0 => 0,
            hz => 1_000_000_000 / u64::from(hz),
        },
        stacks: match (backend, options.stacks) {
            (Backend::Proc, _) | (_, StackChoice::None) => "none",
            (_, StackChoice::All) => "all",
            (_, StackChoice::Sampled) => "sampled",
        }
        .to_owned(),
        ..Manifest::default()
    }
}

pub fn unix_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

/// CPU time and peak memory of this process so far. The loops subtract the time spent before the program
/// started, because it did not disturb the program.
pub(crate) fn own_cost() -> Cost {
    // SAFETY: getrusage writes one struct of plain numbers.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    Cost {
        recorder_cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        recorder_memory_bytes: usage.ru_maxrss as u64 * 1024,
        ..Cost::default()
    }
}

/// [`own_cost`] since `before`.
fn cost_since(before: &Cost) -> Cost {
    let now = own_cost();
    Cost { recorder_cpu_ns: now.recorder_cpu_ns.saturating_sub(before.recorder_cpu_ns), ..now }
}

/// Counts of events pushed to the journal.
#[derive(Default)]
struct Tally {
    /// Threads of the program that were seen, whatever became of their events.
    threads: u64,
    switches: u64,
    events: u64,
    lost: u64,
}

impl Tally {
    fn count(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Switch(_) => self.switches += 1,
            Event::Loss(loss) => self.lost += loss.events,
            _ => {}
        }
    }
}
