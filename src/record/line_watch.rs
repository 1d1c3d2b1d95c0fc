//! Hardware watchpoints on cache lines that samples show as shared (`decode/accesses/suspects`). They record
//! the bytes that each thread accesses, as seen by the CPU. A separate thread watches one line at a time for
//! a short time, within a part of the budget.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdup_capture::perf_ring::refusal;
use holdup_capture::watchpoints::{self, HIT_NS, PER_THREAD, Stops, Watchpoint};
use holdup_capture::{lower, privileges};
use holdup_decode::accesses::suspects::{Place, Suspect, Suspects};
use holdup_decode::accesses::{Accesses, is_generated};
use holdup_events::event::{RawMapping, Sample, Watched};
use holdup_events::recording::SourceState;
use holdup_events::tables::{AccessKind, Mapping};
use holdup_events::{Event, ProcessId};

use super::files::LiveFiles;
use super::generated_code::CodeKept;
use super::process_exists;

/// Part of the budget that the program may pay for hits.
const BUDGET_PART: f64 = 0.1;
/// Maximum number of hits of each thread at each place.
const HITS: u32 = 4;
/// Maximum number of watched threads per line, those with the most samples first.
const THREADS_MAX: usize = 6;
/// Duration of a watch, long enough for runnable threads to get a CPU.
const WATCH: Duration = Duration::from_millis(20);
/// Between looks for a suspect.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A file whose code was sampled less often is not read for it.
const SAMPLES_MIN: u32 = 16;
const PROBLEMS_MAX: usize = 6;
/// The name of the source.
const SOURCE: &str = "watchpoints";

enum LineWork {
    Samples(Vec<Sample>),
    Process(u32, Vec<RawMapping>),
}

/// The watchpoints of a recording.
pub struct LineWatch {
    sender: Option<Sender<LineWork>>,
    /// Samples not handed over yet: waking the other thread costs more than processing one sample.
    samples: Vec<Sample>,
    seen: Receiver<Event>,
    worker: Option<JoinHandle<Vec<String>>>,
    events: u64,
}

impl LineWatch {
    /// For `budget` percent of `cpus`. With 0, no line is watched. Code without a file is read into
    /// `generated`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(budget: f64, cpus: usize, generated: CodeKept) -> io::Result<LineWatch> {
        let (sender, queue) = channel();
        let (out, seen) = channel();
        let worker = (budget > 0.0).then(|| {
            std::thread::Builder::new().spawn(move || {
                privileges::lower_priority();
                let hits_per_ns = budget / 100.0 * BUDGET_PART * cpus as f64 / HIT_NS as f64;
                let files = LiveFiles { generated: generated.clone() };
                let mut watcher = Watcher {
                    accesses: Accesses::new(&files),
                    generated,
                    mappings: HashMap::new(),
                    sampled: HashMap::new(),
                    suspects: Suspects::default(),
                    allowance: Allowance { began: Instant::now(), hits_per_ns, spent: 0 },
                    problems: BTreeSet::new(),
                };
                watcher.work(&queue, &out);
                watcher.problems.into_iter().collect()
            })
        });
        let worker = worker.transpose()?;
        let sender = worker.is_some().then_some(sender);
        Ok(LineWatch { sender, samples: Vec::new(), seen, worker, events: 0 })
    }

    /// Collects samples, which show accesses to memory.
    pub fn note(&mut self, event: &Event) {
        if let (Some(_), Event::Sample(sample)) = (&self.sender, event)
            && sample.registers.is_some()
        {
            self.samples.push(sample.clone());
        }
    }

    /// Passes on the current mappings of a process. Empty if it has exited.
    pub fn process(&self, tgid: u32, mappings: &[RawMapping]) {
        if let Some(sender) = &self.sender {
            let _ = sender.send(LineWork::Process(tgid, mappings.to_vec()));
        }
    }

    /// Hands over the collected samples, and passes on the hits recorded since the last call.
    pub fn step(&mut self, out: &mut dyn FnMut(Event)) {
        if let Some(sender) = &self.sender
            && !self.samples.is_empty()
        {
            let _ = sender.send(LineWork::Samples(std::mem::take(&mut self.samples)));
        }
        for event in self.seen.try_iter() {
            self.events += 1;
            out(event);
        }
    }

    /// Ends the watch. Returns the state of the source if there were events or problems.
    pub fn finish(&mut self, out: &mut dyn FnMut(Event)) -> Option<SourceState> {
        self.sender = None;
        let problems = self.worker.take().and_then(|worker| worker.join().ok()).unwrap_or_default();
        self.step(out);
        (self.events > 0 || !problems.is_empty()).then(|| SourceState {
            name: SOURCE.to_owned(),
            active: self.events > 0,
            events: self.events,
            missing: problems.join("; "),
            ..SourceState::default()
        })
    }
}

/// Hits that the program may be made to pay for.
struct Allowance {
    began: Instant,
    hits_per_ns: f64,
    spent: u64,
}

impl Allowance {
    fn left(&self) -> u64 {
        let earned = self.began.elapsed().as_nanos() as f64 * self.hits_per_ns;
        (earned as u64).saturating_sub(self.spent)
    }
}

struct Watcher<'a> {
    accesses: Accesses<'a>,
    generated: CodeKept,
    mappings: HashMap<u32, Vec<Mapping>>,
    /// Samples by the file whose code they were in.
    sampled: HashMap<String, u32>,
    suspects: Suspects,
    allowance: Allowance,
    problems: BTreeSet<String>,
}

impl Watcher<'_> {
    fn work(&mut self, queue: &Receiver<LineWork>, out: &Sender<Event>) {
        while self.listen(queue, Instant::now() + LOOK_EVERY) {
            let Some(suspect) = self.suspects.worst() else {
                // Without suspects, wait for the next message.
                let Ok(work) = queue.recv() else { return };
                self.take(work);
                continue;
            };
            if !process_exists(suspect.tgid) {
                self.suspects.forget(suspect.tgid);
                continue;
            }
            // Each watchpoint costs something, too.
            let each = u64::from(HITS) + 1;
            let places: Vec<Place> = suspect.places.iter().copied().take(PER_THREAD).collect();
            let affordable = (self.allowance.left() / (each * places.len() as u64)) as usize;
            let wanted = suspect.threads.len().min(THREADS_MAX);
            if affordable >= wanted
                && !self.watch(&suspect, (&suspect.threads[..wanted], &places), queue, out)
            {
                return;
            }
        }
    }

    /// Processes messages until `until`. Returns `false` if the sender has been dropped.
    fn listen(&mut self, queue: &Receiver<LineWork>, until: Instant) -> bool {
        loop {
            match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(work) => self.take(work),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, work: LineWork) {
        match work {
            LineWork::Samples(samples) => samples.iter().for_each(|sample| self.sample(sample)),
            LineWork::Process(tgid, mappings) => self.mapped(tgid, mappings),
        }
    }

    fn mapped(&mut self, tgid: u32, mappings: Vec<RawMapping>) {
        // The PID serves as process id, because the ids need not be dense here.
        let process = ProcessId(tgid);
        self.accesses.remapped(process);
        let mapping = |raw| Mapping::from_raw(process, raw);
        match mappings.is_empty() {
            true => _ = self.mappings.remove(&tgid),
            false => _ = self.mappings.insert(tgid, mappings.into_iter().map(mapping).collect()),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(mappings) = self.mappings.get(&sample.tgid) else { return };
        let Some(mapping) = mappings.iter().find(|one| (one.start..one.end).contains(&sample.ip)) else {
            return;
        };
        let bounds = (mapping.start, mapping.end);
        let read = is_generated(mapping).then(|| self.generated.note(sample.tgid, sample.ip, bounds));
        match self.sampled.get_mut(&mapping.path) {
            Some(samples) => *samples = samples.saturating_add(1),
            None => _ = self.sampled.insert(mapping.path.clone(), 1),
        }
        if self.sampled.get(&mapping.path).is_none_or(|samples| *samples < SAMPLES_MIN) {
            return;
        }
        let access = self.accesses.data(sample, ProcessId(sample.tgid), mappings);
        if let Some(Err(error)) = read
            && process_exists(sample.tgid)
        {
            self.problem(format!(
                "code that a runtime made cannot be read: {error}: which memory it touches is not known"
            ));
        }
        if access.kind != AccessKind::None {
            self.suspects.add(sample, &access);
        }
    }

    /// Watches some threads at some places. Returns `false` if the recording ends.
    fn watch(
        &mut self,
        suspect: &Suspect,
        (threads, places): (&[u32], &[Place]),
        queue: &Receiver<LineWork>,
        out: &Sender<Event>,
    ) -> bool {
        let at = lower::now();
        let mut open = Vec::new();
        let stops = if suspect.is_written { Stops::All } else { Stops::Writes };
        for tid in threads {
            match watchpoints_of(*tid, places, stops) {
                Ok(opened) => open.extend(opened),
                Err(Refused::Gone) => {}
                Err(Refused::Taken) => {
                    self.problem(format!(
                        "thread {tid} is a debugger's, or its watchpoints are: lines it touches were not watched"
                    ));
                    self.suspects.give_up(suspect);
                    return true;
                }
                Err(Refused::Other(error)) => {
                    self.problem(format!("watchpoints are refused: {}", refusal(&error)));
                    self.suspects.give_up(suspect);
                    return true;
                }
            }
        }
        let goes_on = self.listen(queue, Instant::now() + WATCH);
        let until = lower::now();
        let (mut came, mut seen) = (BTreeSet::new(), Vec::new());
        for ((tid, (address, bytes)), watchpoint) in &open {
            let Ok((hits, ran_ns)) = watchpoint.read() else { continue };
            self.allowance.spent += hits + 1;
            if hits > 0 {
                came.insert(*tid);
            }
            let (tid, tgid, address, bytes) = (*tid, suspect.tgid, *address, *bytes);
            seen.push(Event::Watched(Watched { at, until, tid, tgid, address, bytes, hits, ran_ns }));
        }
        let enough = came.len() > usize::from(suspect.is_written);
        self.suspects.looked(suspect, places, enough);
        if enough {
            seen.into_iter().for_each(|event| _ = out.send(event));
        }
        goes_on
    }

    fn problem(&mut self, what: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.insert(what);
        }
    }
}

/// A watchpoint, with whose it is and where.
type Open = ((u32, Place), Watchpoint);

enum Refused {
    Gone,
    Taken,
    Other(std::io::Error),
}

/// One thread's, all or none.
fn watchpoints_of(tid: u32, places: &[Place], stops: Stops) -> Result<Vec<Open>, Refused> {
    if watchpoints::is_traced(tid) {
        return Err(Refused::Taken);
    }
    let open = |place: &Place| match Watchpoint::open(tid, *place, (stops, HITS)) {
        Ok(watchpoint) => Ok(((tid, *place), watchpoint)),
        Err(error) if watchpoints::is_taken(&error) => Err(Refused::Taken),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(Refused::Gone),
        Err(error) => Err(Refused::Other(error)),
    };
    places.iter().map(open).collect()
}
