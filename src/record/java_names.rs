//! Names of what Java virtual machines compile, read from their memory while they live (`decode/hotspot`): they are not asked, and
//! need no option. In a thread of its own, which is started with the first of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdup_capture::{privileges, process_memory};
use holdup_decode::hotspot::{Layout, Memory, NamedCode, loaded, symbols};
use holdup_decode::symbols::looked_up;
use holdup_events::Event;
use holdup_events::event::RawMapping;
use holdup_events::recording::SourceState;

use super::files::{living, map, open};

/// The name of the source that says where names are missing.
const SOURCE: &str = "java-names";
const PROBLEMS_MAX: usize = 4;
/// The library's file name.
const LIBRARY: &str = "/libjvm.so";
/// Places that are named, of all machines together; the half that was asked longest ago goes first.
const NAMES_MAX: usize = 1 << 16;
/// A place is asked again after so long, where another stack goes through it: other code may be there.
const NAMED_FOR: Duration = Duration::from_secs(10);
/// A machine that has just begun does not know its own structures yet: it is asked again after so long, so often.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASKED_MAX: u32 = 50;
/// More addresses do not wait for that.
const PENDING_MAX: usize = 1 << 14;
/// So many stacks are remembered of processes that are not known to be machines, and the first of each: what a process maps is known
/// a little later.
const EARLY_MAX: usize = 512;
const EARLY_EACH_MAX: usize = 64;
/// Memory that was read is taken to be as it was for so long, and so much of it is kept for a machine (4 MiB).
const READ_FOR: Duration = Duration::from_millis(250);
const PAGES_MAX: usize = 1024;
/// The smallest piece of memory of which all or nothing can be read (bytes).
const PAGE_BYTES: u64 = 4096;

/// By process and address: what was there, if it has a name, and when it was asked.
type Names = HashMap<(u32, u64), (Option<NamedCode>, Instant)>;

/// The names, shared between who reads them and who asks later.
#[derive(Clone, Default)]
pub struct NamesKept(Arc<Mutex<Names>>);

impl NamesKept {
    /// What was at an address of a process.
    pub fn at(&self, tgid: u32, address: u64) -> Option<NamedCode> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(tgid, address))?.0.clone()
    }

    fn is_wanted(&self, key: (u32, u64)) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&key).is_none_or(|(_, at)| at.elapsed() >= NAMED_FOR)
    }

    /// What cannot be read any more stays as it was.
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

enum Told {
    Machine(u32, RawMapping),
    Gone(u32),
    Addresses(u32, Vec<u64>),
}

/// The names of a recording.
pub struct JavaNames {
    kept: NamesKept,
    machines: HashMap<u32, RawMapping>,
    early: VecDeque<(u32, Vec<u64>)>,
    sender: Option<Sender<Told>>,
    worker: Option<JoinHandle<Vec<String>>>,
}

impl JavaNames {
    /// Names are read into `kept`.
    pub fn new(kept: NamesKept) -> JavaNames {
        JavaNames { kept, machines: HashMap::new(), early: VecDeque::new(), sender: None, worker: None }
    }

    /// Tells what a process maps now; nothing if it is gone.
    pub fn process(&mut self, tgid: u32, mappings: &[RawMapping]) {
        let library = mappings.iter().find(|mapping| mapping.path.ends_with(LIBRARY));
        match (library, self.machines.get(&tgid)) {
            (Some(library), Some(known)) if library.start == known.start && library.path == known.path => {}
            (Some(library), _) => {
                self.machines.insert(tgid, library.clone());
                self.tell(Told::Machine(tgid, library.clone()));
                let early = std::mem::take(&mut self.early).into_iter();
                let (its, others) = early.partition::<VecDeque<_>, _>(|(process, _)| *process == tgid);
                self.early = others;
                its.into_iter().for_each(|(_, addresses)| self.tell(Told::Addresses(tgid, addresses)));
            }
            (None, Some(_)) => {
                self.machines.remove(&tgid);
                self.tell(Told::Gone(tgid));
            }
            (None, None) => {}
        }
    }

    /// Takes what tells of code: the stacks of virtual machines.
    pub fn note(&mut self, event: &Event) {
        let Event::Stack(stack) = event else { return };
        let is_machine = self.machines.contains_key(&stack.tgid);
        let its = || self.early.iter().filter(|(tgid, _)| *tgid == stack.tgid).count();
        if !is_machine && its() >= EARLY_EACH_MAX {
            return;
        }
        let user = stack.addresses.iter().enumerate().skip(usize::from(stack.kernel_frames));
        let user = user.map(|(index, address)| looked_up(stack, index, *address));
        let addresses = user.chain(stack.raw.iter().map(|raw| raw.ip)).collect();
        if is_machine {
            return self.tell(Told::Addresses(stack.tgid, addresses));
        }
        if self.early.len() >= EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back((stack.tgid, addresses));
    }

    /// Until all is read that was told; what is to be said of it, where names are missing.
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

    fn tell(&mut self, told: Told) {
        if self.sender.is_none() && self.worker.is_none() {
            let (sender, receiver) = channel();
            let kept = self.kept.clone();
            self.sender = Some(sender);
            self.worker = Some(std::thread::spawn(move || {
                // Who ends soon is asked soon.
                privileges::run_like_others();
                let mut reader = Reader { kept, machines: HashMap::new(), problems: BTreeSet::new() };
                reader.work(&receiver);
                reader.problems.into_iter().collect()
            }));
        }
        if let Some(sender) = &self.sender {
            let _ = sender.send(told);
        }
    }
}

/// A virtual machine, and where it has what, once it has told.
struct Machine {
    memory: OfProcess,
    library: RawMapping,
    layout: Option<Layout>,
    asked: u32,
    /// When it may be asked next.
    next: Instant,
    /// Addresses that wait for that.
    pending: BTreeSet<u64>,
    /// Why its memory cannot be read, if it cannot.
    refused: Option<std::io::Error>,
}

struct Reader {
    kept: NamesKept,
    machines: HashMap<u32, Machine>,
    problems: BTreeSet<String>,
}

impl Reader {
    fn work(&mut self, told: &Receiver<Told>) {
        loop {
            match told.recv_timeout(ASK_AGAIN) {
                Ok(Told::Machine(tgid, library)) => {
                    _ = self.machines.insert(tgid, Machine::new(tgid, library))
                }
                Ok(Told::Gone(tgid)) => {
                    let gone = self.machines.remove(&tgid);
                    gone.iter().for_each(|machine| self.tell_of(machine));
                }
                Ok(Told::Addresses(tgid, addresses)) => {
                    if let Some(machine) = self.machines.get_mut(&tgid) {
                        machine.pending.extend(addresses);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.machines.values_mut().for_each(|machine| machine.name_pending(&self.kept));
        }
        let machines = std::mem::take(&mut self.machines);
        machines.values().for_each(|machine| self.tell_of(machine));
    }

    /// A machine that was asked and did not tell.
    fn tell_of(&mut self, machine: &Machine) {
        if machine.layout.is_none() && machine.asked > 0 && self.problems.len() < PROBLEMS_MAX {
            let (pid, why) = (machine.memory.pid, &machine.refused);
            let why = why.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
            self.problems.insert(format!(
                "process {pid}: where its virtual machine has what could not be read{why}: its compiled methods have no names"
            ));
        }
    }
}

impl Machine {
    fn new(tgid: u32, library: RawMapping) -> Machine {
        let (memory, next) = (OfProcess::new(tgid), Instant::now());
        Machine { memory, library, layout: None, asked: 0, next, pending: BTreeSet::new(), refused: None }
    }

    /// Names what threads were seen at, once the machine knows its own structures.
    fn name_pending(&mut self, kept: &NamesKept) {
        if self.pending.is_empty() {
            return;
        }
        if self.layout.is_none() && self.asked < ASKED_MAX && self.next <= Instant::now() {
            self.memory.forget();
            self.layout = layout(&self.memory, &self.library);
            (self.asked, self.next) = (self.asked + 1, Instant::now() + ASK_AGAIN);
            self.refused = process_memory::read(self.memory.pid, self.library.start, &mut [0; 1]).err();
        }
        match &self.layout {
            Some(layout) => {
                let pid = self.memory.pid;
                for address in std::mem::take(&mut self.pending) {
                    if kept.is_wanted((pid, address)) {
                        kept.keep((pid, address), code_at(&self.memory, layout, address));
                    }
                }
            }
            None if self.asked >= ASKED_MAX || self.pending.len() >= PENDING_MAX => self.pending.clear(),
            None => {}
        }
    }
}

/// What is there now; what was read before may be older than the code.
fn code_at(memory: &OfProcess, layout: &Layout, address: u64) -> Option<NamedCode> {
    if memory.is_old() {
        memory.forget();
    }
    let is_fresh = memory.pages.borrow().is_empty();
    let code = layout.code_at(memory, address);
    if code.is_none() && !is_fresh && layout.is_code(memory, address) {
        memory.forget();
        return layout.code_at(memory, address);
    }
    code
}

fn layout(memory: &OfProcess, library: &RawMapping) -> Option<Layout> {
    let below_root = PathBuf::from(format!("/proc/{}/root{}", memory.pid, library.path));
    let links = living(memory.pid, (library.start, library.end), &library.path);
    let file = links.into_iter().chain([below_root]).find_map(|path| open(&path))?;
    super::shrunk::read_as_zeros();
    let bytes = map(&file)?;
    let bytes: &[u8] = (*bytes).as_ref();
    let loaded = loaded(bytes, (library.start, library.file_offset))?;
    Layout::read(memory, &symbols(bytes)?, loaded)
}

/// Memory of a living process, a page at a time: what was read a moment ago is not read again.
struct OfProcess {
    pid: u32,
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
    fresh: Cell<Instant>,
}

impl OfProcess {
    fn new(pid: u32) -> OfProcess {
        OfProcess { pid, pages: RefCell::default(), fresh: Cell::new(Instant::now()) }
    }

    /// Whether something was read before this moment.
    fn is_old(&self) -> bool {
        self.fresh.get().elapsed() >= READ_FOR || self.pages.borrow().len() >= PAGES_MAX
    }

    fn forget(&self) {
        self.pages.borrow_mut().clear();
        self.fresh.set(Instant::now());
    }

    fn page(&self, address: u64) -> Option<Box<[u8]>> {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let read = process_memory::read(self.pid, address, &mut bytes).ok()?;
        (read == bytes.len()).then(|| bytes.into_boxed_slice())
    }
}

impl Memory for OfProcess {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut pages = self.pages.borrow_mut();
        let mut filled = 0;
        while filled < bytes.len() {
            let at = address.checked_add(filled as u64)?;
            let into = (at % PAGE_BYTES) as usize;
            let page = pages.entry(at - at % PAGE_BYTES).or_insert_with_key(|page| self.page(*page));
            let wanted = bytes.get_mut(filled..)?;
            let part = page.as_deref()?.get(into..)?;
            let length = part.len().min(wanted.len());
            wanted.get_mut(..length)?.copy_from_slice(part.get(..length)?);
            filled += length;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use holdup_events::event::RawStack;

    use super::*;

    #[test]
    fn memory_is_read_across_pages_and_not_where_there_is_none() {
        let own: Vec<u8> = (0..3 * PAGE_BYTES as u32).map(|at| at as u8).collect();
        let (memory, start) = (OfProcess::new(std::process::id()), own.as_ptr() as u64);
        let mut bytes = vec![0; 2 * PAGE_BYTES as usize];
        assert!(memory.read(start + 100, &mut bytes).is_some());
        assert_eq!(bytes, own[100..100 + bytes.len()]);
        assert!(memory.read(8, &mut bytes).is_none());
        assert!(memory.read(u64::MAX - 8, &mut bytes).is_none());
        assert!(OfProcess::new(u32::MAX).read(start, &mut bytes).is_none());
    }

    #[test]
    fn stacks_that_come_before_a_machine_is_known_wait_for_it_and_no_other() {
        let mut names = JavaNames::new(NamesKept::default());
        let stack = |tgid| Event::Stack(RawStack { tgid, addresses: vec![0x1000], ..RawStack::default() });
        let early = |names: &JavaNames, tgid| names.early.iter().filter(|(one, _)| *one == tgid).count();
        (0..2 * EARLY_EACH_MAX).for_each(|_| names.note(&stack(u32::MAX - 1)));
        names.note(&stack(u32::MAX));
        assert_eq!((early(&names, u32::MAX - 1), early(&names, u32::MAX)), (EARLY_EACH_MAX, 1));
        let library = RawMapping { path: LIBRARY.to_owned(), ..RawMapping::default() };
        names.process(u32::MAX, &[library]);
        assert_eq!((early(&names, u32::MAX - 1), early(&names, u32::MAX)), (EARLY_EACH_MAX, 0));
        // It was asked, and is none.
        assert!(names.finish().is_some_and(|source| source.missing.contains("have no names")));
    }

    #[test]
    fn a_name_stays_when_its_code_is_gone() {
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
