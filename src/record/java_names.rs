//! Names of what Java virtual machines compile, read from their memory while they live (`decode/hotspot`): they are not asked, and
//! need no option. In a thread of its own, which is started with the first of them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdup_capture::{privileges, process_memory};
use holdup_decode::hotspot::{Layout, Memory, NamedCode, loaded, symbols};
use holdup_events::Event;
use holdup_events::event::RawMapping;

use super::files::living;

/// The library's file name.
const LIBRARY: &str = "/libjvm.so";
/// Pieces of code that are named, of all machines together.
const NAMES_MAX: usize = 1 << 17;
/// A name is asked again after so long, where a thread was seen at a new place: other code may be there.
const NAMED_FOR: Duration = Duration::from_secs(1);
/// A machine that has just begun does not know its own structures yet: it is asked again after so long, so often.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASKED_MAX: u32 = 50;

/// By process, then first address.
#[derive(Default)]
struct Names {
    by_process: HashMap<u32, BTreeMap<u64, (NamedCode, Instant)>>,
    count: usize,
}

/// The names, shared between who reads them and who asks later.
#[derive(Clone, Default)]
pub struct NamesKept(Arc<Mutex<Names>>);

impl NamesKept {
    /// Those of a process.
    pub fn of(&self, tgid: u32) -> Vec<NamedCode> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = names.by_process.get(&tgid).into_iter().flatten();
        all.map(|(_, (code, _))| code.clone()).collect()
    }

    fn is_known(&self, tgid: u32, address: u64) -> bool {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = names.by_process.get(&tgid).and_then(|of| of.range(..=address).next_back());
        before.is_some_and(|(_, (code, at))| code.addresses.contains(&address) && at.elapsed() < NAMED_FOR)
    }

    fn keep(&self, tgid: u32, code: NamedCode) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Names { by_process, count } = &mut *names;
        let of = by_process.entry(tgid).or_default();
        if *count < NAMES_MAX || of.contains_key(&code.addresses.start) {
            *count += usize::from(of.insert(code.addresses.start, (code, Instant::now())).is_none());
        }
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
    sender: Option<Sender<Told>>,
    worker: Option<JoinHandle<()>>,
}

impl JavaNames {
    /// Names are read into `kept`.
    pub fn new(kept: NamesKept) -> JavaNames {
        JavaNames { kept, machines: HashMap::new(), sender: None, worker: None }
    }

    /// Tells what a process maps now; nothing if it is gone.
    pub fn process(&mut self, tgid: u32, mappings: &[RawMapping]) {
        let library = mappings.iter().find(|mapping| mapping.path.ends_with(LIBRARY));
        match (library, self.machines.get(&tgid)) {
            (Some(library), Some(known)) if library.start == known.start && library.path == known.path => {}
            (Some(library), _) => {
                self.machines.insert(tgid, library.clone());
                self.tell(Told::Machine(tgid, library.clone()));
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
        if let Event::Stack(stack) = event
            && self.machines.contains_key(&stack.tgid)
        {
            let user = stack.addresses.iter().skip(usize::from(stack.kernel_frames)).copied();
            let addresses = user.chain(stack.raw.iter().map(|raw| raw.ip)).collect();
            self.tell(Told::Addresses(stack.tgid, addresses));
        }
    }

    /// Until all is read that was told.
    pub fn finish(&mut self) {
        self.sender = None;
        self.worker.take().into_iter().for_each(|worker| _ = worker.join());
    }

    fn tell(&mut self, told: Told) {
        if self.sender.is_none() && self.worker.is_none() {
            let (sender, receiver) = channel();
            let kept = self.kept.clone();
            self.sender = Some(sender);
            self.worker = Some(std::thread::spawn(move || {
                privileges::run_behind_others();
                Reader { kept, machines: HashMap::new() }.work(&receiver);
            }));
        }
        if let Some(sender) = &self.sender {
            let _ = sender.send(told);
        }
    }
}

/// A virtual machine, and where it has what, once it has told.
struct Machine {
    library: RawMapping,
    layout: Option<Layout>,
    asked: u32,
    /// When it may be asked next.
    next: Instant,
}

struct Reader {
    kept: NamesKept,
    machines: HashMap<u32, Machine>,
}

impl Reader {
    fn work(&mut self, told: &Receiver<Told>) {
        for told in told {
            match told {
                Told::Machine(tgid, library) => {
                    let machine = Machine { library, layout: None, asked: 0, next: Instant::now() };
                    self.machines.insert(tgid, machine);
                }
                Told::Gone(tgid) => _ = self.machines.remove(&tgid),
                Told::Addresses(tgid, addresses) => self.name(tgid, &addresses),
            }
        }
    }

    fn name(&mut self, tgid: u32, addresses: &[u64]) {
        let Some(machine) = self.machines.get_mut(&tgid) else { return };
        let memory = OfProcess(tgid);
        if machine.layout.is_none() && machine.asked < ASKED_MAX && machine.next <= Instant::now() {
            machine.layout = layout(&memory, &machine.library);
            (machine.asked, machine.next) = (machine.asked + 1, Instant::now() + ASK_AGAIN);
        }
        let Some(layout) = &machine.layout else { return };
        for address in addresses {
            // Of a return address what counts is the call before it; both lie in one piece of code.
            if !self.kept.is_known(tgid, *address)
                && let Some(code) = layout.code_at(&memory, *address)
            {
                self.kept.keep(tgid, code);
            }
        }
    }
}

fn layout(memory: &OfProcess, library: &RawMapping) -> Option<Layout> {
    let file = living(memory.0, (library.start, library.end), &library.path).into_iter().next();
    let path = file.or_else(|| Some(format!("/proc/{}/root{}", memory.0, library.path).into()))?;
    let file = fs::File::open(path).ok()?;
    super::shrunk::read_as_zeros();
    // SAFETY: the bytes are only read, as foreign ones. Where the file is cut short meanwhile, they turn to zeros (`shrunk`).
    let bytes = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let loaded = loaded(&bytes, (library.start, library.file_offset))?;
    Layout::read(memory, &symbols(&bytes)?, loaded)
}

/// Memory of a living process.
struct OfProcess(u32);

impl Memory for OfProcess {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        (process_memory::read(self.0, address, bytes).ok()? == bytes.len()).then_some(())
    }
}
