//! Names of what Java virtual machines compile, read from their memory while they live (`decode/hotspot`): they are not asked, and
//! need no option. In a thread of its own, which is started with the first of them.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdup_capture::{privileges, process_memory};
use holdup_decode::hotspot::{Layout, Memory, NamedCode, loaded, symbols};
use holdup_decode::symbols::looked_up;
use holdup_events::Event;
use holdup_events::event::RawMapping;

use super::files::living;

/// The library's file name.
const LIBRARY: &str = "/libjvm.so";
/// Places that are named, of all machines together.
const NAMES_MAX: usize = 1 << 18;
/// A place is asked again after so long, where another stack goes through it: other code may be there.
const NAMED_FOR: Duration = Duration::from_secs(10);
/// A machine that has just begun does not know its own structures yet: it is asked again after so long, so often.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ASKED_MAX: u32 = 50;

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
        names.get(&key).map_or(names.len() < NAMES_MAX, |(_, at)| at.elapsed() >= NAMED_FOR)
    }

    /// What cannot be read any more stays as it was.
    fn keep(&self, key: (u32, u64), code: Option<NamedCode>) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
            let user = stack.addresses.iter().enumerate().skip(usize::from(stack.kernel_frames));
            let user = user.map(|(index, address)| looked_up(stack, index, *address));
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
            let key = (tgid, *address);
            if self.kept.is_wanted(key) {
                self.kept.keep(key, layout.code_at(&memory, *address));
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
