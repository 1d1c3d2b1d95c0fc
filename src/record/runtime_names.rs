//! Names of code that Java virtual machines compile or interpret, and that Python interprets. They are read
//! from the memory of living processes, without the runtime's cooperation or an option (`decode/hotspot`,
//! `decode/cpython`). A separate thread reads them. It is started with the first runtime.

mod kinds;
mod memory;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdup_capture::bpf::InterpreterTables;
use holdup_capture::privileges;
use holdup_decode::interpreted::KernelLayout;
use holdup_decode::process_memory::{NamedCode, Names};
use holdup_decode::symbols::looked_up;
use holdup_events::Event;
use holdup_events::event::RawMapping;
use holdup_events::recording::SourceState;

use kinds::{Kind, KnownBinaries, Unopened};
use memory::OfProcess;

/// Name of the source that reports missing names.
const SOURCE: &str = "runtime-names";
const PROBLEMS_MAX: usize = 4;
/// Maximum number of named addresses of all runtimes. Beyond it, the half that was read longest ago is
/// dropped.
const NAMES_MAX: usize = 1 << 16;
/// A place is asked again after so long, where another stack goes through it: other code may be there.
const NAMED_FOR: Duration = Duration::from_secs(10);
/// A runtime that has just started has not initialized its structures yet. Reading is retried after
/// `ASK_AGAIN_FIRST`, then after doubled times up to `ASK_AGAIN`, at most `ASKED_MAX` times.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(2);
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASKED_MAX: u32 = 50;
/// More addresses do not wait for that.
const PENDING_MAX: usize = 1 << 14;
/// Maximum number of stacks kept for processes without a known runtime, in total and for each process.
/// Mappings become known a little later than stacks.
const EARLY_MAX: usize = 512;
const EARLY_EACH_MAX: usize = 64;

/// By process and address: the name, if any, and the time it was read.
type NamesByPlace = HashMap<(u32, u64), (Option<NamedCode>, Instant)>;

/// The names, shared between the thread that reads them and later queries.
#[derive(Clone, Default)]
pub struct NamesKept(Arc<Mutex<NamesByPlace>>);

impl NamesKept {
    /// Returns the name of the code at an address of a process.
    pub fn at(&self, tgid: u32, address: u64) -> Option<NamedCode> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(tgid, address))?.0.clone()
    }

    fn is_wanted(&self, key: (u32, u64)) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&key).is_none_or(|(_, at)| at.elapsed() >= NAMED_FOR)
    }

    /// Stores a name. If it cannot be read any more, the earlier name stays.
    fn keep(&self, key: (u32, u64), code: Option<NamedCode>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            let mut asked: Vec<Instant> = names.values().map(|(_, at)| *at).collect();
            let (_, middle, _) = asked.select_nth_unstable(NAMES_MAX / 2);
            let middle = *middle;
            names.retain(|_, (_, at)| *at > middle);
        }
        let before = names.remove(&key).and_then(|(code, _)| code);
        names.insert(key, (code.or(before), Instant::now()));
    }
}

enum NameWork {
    Runtime(u32, Kind, RawMapping),
    Gone(u32),
    Addresses(u32, Vec<u64>),
}

/// The names of a recording.
pub struct RuntimeNames {
    kept: NamesKept,
    runtimes: HashMap<u32, (Kind, RawMapping)>,
    early: VecDeque<(u32, Vec<u64>)>,
    /// Passed to the reading thread when it starts.
    tables: Option<InterpreterTables>,
    sender: Option<Sender<NameWork>>,
    worker: Option<JoinHandle<Vec<String>>>,
}

impl RuntimeNames {
    /// Names are read into `kept`. The BPF programs inspect interpreters through `tables`.
    pub fn new(kept: NamesKept, tables: Option<InterpreterTables>) -> RuntimeNames {
        let (runtimes, early) = (HashMap::new(), VecDeque::new());
        RuntimeNames { kept, runtimes, early, tables, sender: None, worker: None }
    }

    /// Updates the mappings of a process. Empty if it has exited.
    pub fn process(&mut self, tgid: u32, mappings: &[RawMapping]) {
        match (Kind::detect(mappings), self.runtimes.get(&tgid)) {
            (Some((_, library)), Some((_, known)))
                if library.start == known.start && library.path == known.path => {}
            (Some((kind, library)), _) => {
                self.runtimes.insert(tgid, (kind, library.clone()));
                self.send(NameWork::Runtime(tgid, kind, library.clone()));
                let early = std::mem::take(&mut self.early).into_iter();
                let (its, others) = early.partition::<VecDeque<_>, _>(|(process, _)| *process == tgid);
                self.early = others;
                its.into_iter().for_each(|(_, addresses)| self.send_addresses(tgid, kind, addresses));
            }
            (None, Some(_)) => {
                self.runtimes.remove(&tgid);
                self.send(NameWork::Gone(tgid));
            }
            (None, None) => {}
        }
    }

    /// Collects the addresses in stacks of processes with a runtime.
    pub fn note(&mut self, event: &Event) {
        let Event::Stack(stack) = event else { return };
        let kind = self.runtimes.get(&stack.tgid).map(|(kind, _)| *kind);
        let its = || self.early.iter().filter(|(tgid, _)| *tgid == stack.tgid).count();
        if kind.is_none() && its() >= EARLY_EACH_MAX {
            return;
        }
        let user = stack.addresses.iter().enumerate().skip(usize::from(stack.kernel_frames));
        let user = user.map(|(index, address)| looked_up(stack, index, *address));
        let addresses = user.chain(stack.raw.iter().map(|raw| raw.ip)).collect();
        if let Some(kind) = kind {
            return self.send_addresses(stack.tgid, kind, addresses);
        }
        if self.early.len() >= EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back((stack.tgid, addresses));
    }

    /// Waits until all addresses are read. Returns the source's state if names are missing.
    pub fn finish(&mut self) -> Option<SourceState> {
        self.sender = None;
        let problems = self.worker.take().and_then(|worker| worker.join().ok()).unwrap_or_default();
        (!problems.is_empty()).then(|| SourceState {
            name: SOURCE.to_owned(),
            active: true,
            missing: problems.join("; "),
            ..SourceState::default()
        })
    }

    fn send_addresses(&mut self, tgid: u32, kind: Kind, mut addresses: Vec<u64>) {
        addresses.retain(|address| kind.may_name(*address));
        if !addresses.is_empty() {
            self.send(NameWork::Addresses(tgid, addresses));
        }
    }

    fn send(&mut self, work: NameWork) {
        if self.sender.is_none() && self.worker.is_none() {
            let (sender, receiver) = channel();
            let (kept, tables) = (self.kept.clone(), self.tables.take());
            self.sender = Some(sender);
            let worker = std::thread::Builder::new().spawn(move || {
                // Normal priority: short-lived processes must be read soon.
                privileges::restore_priority();
                let (runtimes, binaries) = (HashMap::new(), KnownBinaries::new());
                let mut reader = Reader { kept, tables, runtimes, binaries, problems: BTreeSet::new() };
                reader.work(&receiver);
                reader.problems.into_iter().collect()
            });
            // Without a thread the names stay unresolved.
            self.worker = worker.ok();
            if self.worker.is_none() {
                self.sender = None;
            }
        }
        if let Some(sender) = &self.sender {
            let _ = sender.send(work);
        }
    }
}

/// A process with a runtime, and its reader once it could be opened.
struct Runtime {
    kind: Kind,
    memory: OfProcess,
    library: RawMapping,
    names: Option<Box<dyn Names>>,
    /// Whether the BPF programs were configured for this interpreter, or cannot be.
    is_settled: bool,
    asked: u32,
    /// When it may be asked next.
    next: Instant,
    /// Addresses that wait for that.
    pending: BTreeSet<u64>,
    /// Why the runtime could not be opened, or the BPF programs could not be configured.
    refused: String,
}

struct Reader {
    kept: NamesKept,
    tables: Option<InterpreterTables>,
    runtimes: HashMap<u32, Runtime>,
    binaries: KnownBinaries,
    problems: BTreeSet<String>,
}

impl Reader {
    fn work(&mut self, queue: &Receiver<NameWork>) {
        loop {
            let waited_for = self.runtimes.values().filter_map(Runtime::asked_in).min();
            match queue.recv_timeout(waited_for.map_or(ASK_AGAIN, |left| left.max(ASK_AGAIN_FIRST))) {
                Ok(NameWork::Runtime(tgid, kind, library)) => {
                    let gone = self.runtimes.insert(tgid, Runtime::new(tgid, kind, library));
                    gone.iter().for_each(|runtime| self.leave(runtime));
                }
                Ok(NameWork::Gone(tgid)) => {
                    let gone = self.runtimes.remove(&tgid);
                    gone.iter().for_each(|runtime| self.leave(runtime));
                }
                Ok(NameWork::Addresses(tgid, addresses)) => {
                    if let Some(runtime) = self.runtimes.get_mut(&tgid) {
                        runtime.pending.extend(addresses);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for runtime in self.runtimes.values_mut() {
                runtime.ask(self.tables.as_ref(), &mut self.binaries);
                runtime.name_pending(&self.kept);
            }
        }
        let runtimes = std::mem::take(&mut self.runtimes);
        runtimes.values().for_each(|runtime| self.leave(runtime));
    }

    /// Drops a process that has exited or runs another program. Reports the reason if its runtime was never
    /// opened.
    fn leave(&mut self, runtime: &Runtime) {
        let (pid, kind) = (runtime.memory.pid, runtime.kind);
        self.tables.iter().for_each(|tables| tables.forget(pid));
        if !runtime.refused.is_empty() && self.problems.len() < PROBLEMS_MAX {
            self.problems.insert(format!("process {pid}: {}: {}", runtime.refused, kind.unnamed()));
        }
    }
}

impl Runtime {
    fn new(tgid: u32, kind: Kind, library: RawMapping) -> Runtime {
        Runtime {
            kind,
            memory: OfProcess::new(tgid),
            library,
            names: None,
            is_settled: false,
            asked: 0,
            next: Instant::now(),
            pending: BTreeSet::new(),
            refused: String::new(),
        }
    }

    /// When it is asked again, from now on.
    fn asked_in(&self) -> Option<Duration> {
        let is_asked = !self.is_settled && self.asked < ASKED_MAX;
        is_asked.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// Locates the runtime's structures, until that succeeds. Interpreted code has no names before.
    fn ask(&mut self, tables: Option<&InterpreterTables>, binaries: &mut KnownBinaries) {
        if self.is_settled || self.asked >= ASKED_MAX || self.next > Instant::now() {
            return;
        }
        self.memory.forget();
        self.next = Instant::now() + ASK_AGAIN.min(ASK_AGAIN_FIRST * (1 << self.asked.min(16)));
        self.asked += 1;
        if self.names.is_none() {
            match self.kind.open(&self.memory, &self.library, binaries) {
                Ok(names) => (self.names, self.refused) = (Some(names), String::new()),
                Err(Unopened { why, for_good }) => {
                    self.refused = why;
                    self.asked = if for_good { ASKED_MAX } else { self.asked };
                }
            }
        }
        let layout = self.names.as_ref().and_then(|names| names.kernel_layout(&self.memory));
        let Some(layout) = layout else {
            if self.names.is_some() && self.asked >= ASKED_MAX {
                self.refused = "where its interpreter has its frames could not be read".to_owned();
            }
            return;
        };
        let told = tables.map(|tables| match layout {
            KernelLayout::Lists(bytes) => tables.set_lists(self.memory.pid, &bytes),
            KernelLayout::Frames(bytes) => tables.set_frames(self.memory.pid, &bytes),
        });
        self.is_settled = true;
        self.refused = told.and_then(Result::err).map(|error| error.to_string()).unwrap_or_default();
    }

    /// Names what threads were seen at, once it is known how.
    fn name_pending(&mut self, kept: &NamesKept) {
        match &self.names {
            Some(names) => {
                let pid = self.memory.pid;
                for address in std::mem::take(&mut self.pending) {
                    if kept.is_wanted((pid, address)) {
                        kept.keep((pid, address), code_at(&self.memory, &**names, address));
                    }
                }
            }
            None if self.asked >= ASKED_MAX || self.pending.len() >= PENDING_MAX => self.pending.clear(),
            None => {}
        }
    }
}

/// Returns the name of the code at `address` now. Memory read earlier may be older than the code.
fn code_at(memory: &OfProcess, names: &dyn Names, address: u64) -> Option<NamedCode> {
    if memory.is_old() {
        memory.forget();
    }
    let is_fresh = memory.is_fresh();
    let code = names.code_at(memory, address);
    if code.is_none() && !is_fresh && names.is_code(memory, address) {
        memory.forget();
        return names.code_at(memory, address);
    }
    code
}

#[cfg(test)]
mod tests {
    use holdup_events::event::RawStack;

    use super::*;

    #[test]
    fn stacks_that_come_before_a_machine_is_known_wait_for_it_and_no_other() {
        let mut names = RuntimeNames::new(NamesKept::default(), None);
        let stack = |tgid| Event::Stack(RawStack { tgid, addresses: vec![0x1000], ..RawStack::default() });
        let early = |names: &RuntimeNames, tgid| names.early.iter().filter(|(one, _)| *one == tgid).count();
        (0..2 * EARLY_EACH_MAX).for_each(|_| names.note(&stack(u32::MAX - 1)));
        names.note(&stack(u32::MAX));
        assert_eq!((early(&names, u32::MAX - 1), early(&names, u32::MAX)), (EARLY_EACH_MAX, 1));
        let library = RawMapping { path: "/libjvm.so".to_owned(), ..RawMapping::default() };
        names.process(u32::MAX, &[library]);
        assert_eq!((early(&names, u32::MAX - 1), early(&names, u32::MAX)), (EARLY_EACH_MAX, 0));
        // It was asked, and is none.
        assert!(names.finish().is_some_and(|source| source.missing.contains("have no names")));
    }

    #[test]
    fn a_name_outlives_its_code() {
        let kept = NamesKept::default();
        let code = NamedCode { addresses: 10..20, ..NamedCode::default() };
        assert!(kept.is_wanted((1, 15)));
        kept.keep((1, 15), Some(code.clone()));
        assert!(!kept.is_wanted((1, 15)) && kept.is_wanted((2, 15)));
        kept.keep((1, 15), None);
        assert_eq!((kept.at(1, 15), kept.at(1, 16)), (Some(code), None));
    }

    #[test]
    fn names_that_were_asked_long_ago_go_first() {
        let kept = NamesKept::default();
        let code = |address: u64| NamedCode { addresses: address..address + 1, ..NamedCode::default() };
        (0..NAMES_MAX as u64 + 1).for_each(|address| kept.keep((1, address), Some(code(address))));
        assert!(kept.0.lock().unwrap().len() <= NAMES_MAX);
        assert_eq!((kept.at(1, 0), kept.at(1, NAMES_MAX as u64)), (None, Some(code(NAMES_MAX as u64))));
    }
}
