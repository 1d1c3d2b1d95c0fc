//! All addresses in stacks, their mappings, and the look-up results. Each binary is looked up once, several
//! in parallel.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

use holdup_events::event::RawStack;
use holdup_events::tables::{
    Frame, FrameKind, FrameSpin, FrameVia, GENERATED_MODULE, Mapping, PYTHON_MODULE,
};
use holdup_events::{ProcessId, Timestamp};

use super::binary::{self, Answer, Unnamed, Wanted};
use super::files::Files;
use super::kept::KeptNames;
use super::maps::Maps;
use super::place::Place;
use super::{Call, Reasons, jitdump, perf_map};
use crate::interpreted::{Interpreted, Standing};
use crate::spin::Segment;
use crate::states::Catalogue;

/// HotSpot's name of the code that runs interpreted functions.
const INTERPRETER: &str = "Interpreter";

/// A code address as it is looked up.
pub type Key = (ProcessId, u64);

/// Where an address of a process is.
#[derive(Clone, Copy)]
enum Spot {
    /// Number of the binary, offset in its file.
    File(usize, u64),
    /// In no file.
    Loose,
}

struct Binary<'a> {
    pid: u32,
    mapping: &'a Mapping,
    offsets: BTreeSet<u64>,
    /// Offsets at which threads were sampled, instead of calls.
    leaves: BTreeSet<u64>,
    answer: Answer,
}

/// All addresses of a recording.
pub struct Spots<'a> {
    maps: Maps<'a>,
    /// Host's number → the last process that had it.
    processes: HashMap<u32, ProcessId>,
    spots: HashMap<Key, Spot>,
    binaries: Vec<Binary<'a>>,
    /// Path, build id, and the process where there is none: number of the binary.
    numbers: HashMap<(&'a str, &'a [u8], u32), usize>,
    generated: BTreeMap<Key, Place>,
    /// Addresses in no file at which threads were, not calls, and how they wait there.
    loose_leaves: BTreeMap<Key, FrameSpin>,
    kernel_addresses: u64,
}

/// How address `index` of a stack was found.
pub fn via(raw: &RawStack, index: usize) -> FrameVia {
    let user_index = index.checked_sub(usize::from(raw.kernel_frames));
    user_index.and_then(|index| raw.vias.get(index)).copied().unwrap_or_default()
}

/// Address `index` of a stack for look-up. All but the leaf are return addresses, so the call is one byte
/// earlier. These are exact: the first user frame after kernel frames (the syscall or interrupt), a frame
/// interrupted by a signal, and an interpreted frame.
pub fn looked_up(raw: &RawStack, index: usize, address: u64) -> u64 {
    let exact = index == 0
        || index == usize::from(raw.kernel_frames)
        || matches!(via(raw, index), FrameVia::SignalFrame | FrameVia::Interpreted);
    if exact { address } else { address.saturating_sub(1) }
}

/// The runtime's own names of the code at `addresses`.
fn named_code(files: &dyn Files, pid: u32, addresses: &[u64]) -> BTreeMap<u64, Place> {
    let at = |address: &u64| {
        let code = files.named_code(pid, *address)?;
        Some((*address, Place { calls: code.calls, distance: address.checked_sub(code.addresses.start)? }))
    };
    addresses.iter().filter_map(at).collect()
}

impl<'a> Spots<'a> {
    /// Finds where each address of the catalogue's stacks is.
    pub fn new(catalogue: &'a Catalogue) -> Spots<'a> {
        let mut spots = Spots {
            maps: Maps::new(&catalogue.mappings),
            processes: HashMap::new(),
            spots: HashMap::new(),
            binaries: Vec::new(),
            numbers: HashMap::new(),
            generated: BTreeMap::new(),
            loose_leaves: BTreeMap::new(),
            kernel_addresses: 0,
        };
        for (index, process) in catalogue.processes.iter().enumerate() {
            spots.processes.insert(process.pid, ProcessId(index as u32));
        }
        for raw in catalogue.stacks.iter().flatten() {
            let process = spots.process(raw.tgid);
            spots.kernel_addresses += u64::from(raw.kernel_frames);
            for (index, address) in raw.addresses.iter().enumerate().skip(usize::from(raw.kernel_frames)) {
                spots.place(process, raw, (index, looked_up(raw, index, *address)));
            }
        }
        spots
    }

    /// The process that a stack is of.
    pub fn process(&self, tgid: u32) -> ProcessId {
        self.processes.get(&tgid).copied().unwrap_or_default()
    }

    fn pids(&self) -> BTreeMap<ProcessId, u32> {
        self.processes.iter().map(|(pid, id)| (*id, *pid)).collect()
    }

    /// How many addresses of the kernel there are.
    pub fn kernel_addresses(&self) -> u64 {
        self.kernel_addresses
    }

    fn place(&mut self, process: ProcessId, raw: &RawStack, (index, address): (usize, u64)) {
        let key = (process, address);
        let spot = match self.spots.get(&key) {
            Some(spot) => *spot,
            None => self.new_spot(raw, key),
        };
        match spot {
            _ if index > 0 => {}
            Spot::File(number, offset) => {
                self.binaries.get_mut(number).map(|binary| binary.leaves.insert(offset));
            }
            Spot::Loose => _ = self.loose_leaves.insert(key, FrameSpin::default()),
        }
    }

    fn new_spot(&mut self, raw: &RawStack, (process, address): Key) -> Spot {
        let is_address = Interpreted::from_address(address).is_none();
        let mapping = self.maps.find(process, address, raw.at).filter(|mapping| is_file(&mapping.path));
        let spot = match mapping.filter(|_| is_address) {
            Some(mapping) => {
                let number = self.number(raw.tgid, mapping);
                let offset = (address - mapping.start).wrapping_add(mapping.file_offset);
                if let Some(binary) = self.binaries.get_mut(number) {
                    binary.offsets.insert(offset);
                }
                Spot::File(number, offset)
            }
            None => Spot::Loose,
        };
        self.spots.insert((process, address), spot);
        spot
    }

    fn number(&mut self, pid: u32, mapping: &'a Mapping) -> usize {
        // Without a build id the same path may be another file in another container.
        let whose = if mapping.build_id.is_empty() { pid } else { 0 };
        let next = self.binaries.len();
        let number = *self.numbers.entry((&mapping.path, &mapping.build_id, whose)).or_insert(next);
        if number == next {
            self.binaries.push(Binary {
                pid,
                mapping,
                offsets: BTreeSet::new(),
                leaves: BTreeSet::new(),
                answer: Answer::default(),
            });
        }
        number
    }

    /// Looks up all addresses. Returns why some have no name.
    pub fn look_up(&mut self, files: &dyn Files, kept: Option<&KeptNames>) -> Reasons {
        self.look_up_binaries(files, kept);
        let mut reasons = self.look_up_generated(files);
        self.look_up_generated_spins(files);
        for binary in &self.binaries {
            if let Some(unnamed) = &binary.answer.unnamed {
                let reason = (binary.mapping.path.clone(), unnamed.to_string());
                *reasons.entry(reason).or_default() += binary.offsets.len() as u64;
            }
        }
        reasons
    }

    fn look_up_binaries(&mut self, files: &dyn Files, kept: Option<&KeptNames>) {
        let cpus = thread::available_parallelism().map_or(1, |count| count.get());
        let next = AtomicUsize::new(0);
        let answers: Mutex<Vec<(usize, Answer)>> = Mutex::new(Vec::new());
        let binaries = &self.binaries;
        thread::scope(|scope| {
            for _ in 0..cpus.min(binaries.len()) {
                scope.spawn(|| {
                    while let Some((number, binary)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, binaries.get(n)?)))
                    {
                        let answer = binary.look_up(files, kept, cpus);
                        answers.lock().unwrap_or_else(PoisonError::into_inner).push((number, answer));
                    }
                });
            }
        });
        for (number, answer) in answers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            if let Some(binary) = self.binaries.get_mut(number) {
                binary.answer = answer;
            }
        }
    }

    /// Code of runtimes: by jitdump, else by perf map, of the processes that have code in no file.
    fn look_up_generated(&mut self, files: &dyn Files) -> Reasons {
        let mut loose: BTreeMap<ProcessId, Vec<u64>> = BTreeMap::new();
        for ((process, address), spot) in &self.spots {
            if self.at_spot(*spot).is_none() && !self.is_in_a_binary(*spot) {
                loose.entry(*process).or_default().push(*address);
            }
        }
        let pids = self.pids();
        let mut reasons = Reasons::new();
        for (process, mut addresses) in loose {
            let Some(pid) = pids.get(&process).copied() else { continue };
            addresses.sort_unstable();
            for (found, what) in self.generated_code(files, (process, pid), &addresses) {
                if let Some(broken) = what {
                    *reasons.entry((GENERATED_MODULE.to_owned(), broken)).or_default() +=
                        addresses.len() as u64;
                }
                for (address, place) in found {
                    self.generated.entry((process, address)).or_insert(place);
                }
            }
        }
        reasons
    }

    /// Loops that only wait, in code that was read while it was there.
    fn look_up_generated_spins(&mut self, files: &dyn Files) {
        let pids = self.pids();
        for ((process, address), spin) in &mut self.loose_leaves {
            let versions = pids.get(process).map(|pid| files.generated_code(*pid, *address));
            let mut told = versions.iter().flatten().map(|code| {
                let spin = Segment::new(&code.bytes, code.start).spin_at(*address);
                spin.map_or_else(FrameSpin::default, |spin| spin.how)
            });
            let first = told.next().unwrap_or_default();
            if told.all(|other| other == first) {
                *spin = first;
            }
        }
    }

    /// The names from each source, the better one first, and whether the source is damaged.
    fn generated_code(
        &self,
        files: &dyn Files,
        (process, pid): (ProcessId, u32),
        addresses: &[u64],
    ) -> Vec<(BTreeMap<u64, Place>, Option<String>)> {
        let mut sources = Vec::new();
        for mapping in self.maps.jitdumps(process) {
            files.binary(pid, mapping, &mut |bytes| {
                let (found, is_whole) = jitdump::look_up((*bytes).as_ref(), addresses);
                sources.push((found, (!is_whole).then(|| format!("{}: not whole", mapping.path))));
                true
            });
        }
        if let Some(map) = files.perf_map(pid) {
            let (found, broken) = perf_map::look_up((*map).as_ref(), addresses);
            let reason = (broken > 0).then(|| format!("perf-{pid}.map: {broken} lines make no sense"));
            sources.push((found, reason));
        }
        sources.push((named_code(files, pid, addresses), None));
        sources
    }

    fn at_spot(&self, spot: Spot) -> Option<&Place> {
        match spot {
            Spot::File(number, offset) => self.binaries.get(number)?.answer.places.get(&offset),
            Spot::Loose => None,
        }
    }

    fn spin_at(&self, spot: Spot, key: Key) -> (FrameSpin, String) {
        let Spot::File(number, offset) = spot else {
            return (self.loose_leaves.get(&key).copied().unwrap_or_default(), String::new());
        };
        let found = self.binaries.get(number).and_then(|binary| binary.answer.spins.get(&offset));
        found.cloned().unwrap_or_default()
    }

    /// A file that is a binary, and has just no name for this place.
    fn is_in_a_binary(&self, spot: Spot) -> bool {
        let Spot::File(number, _) = spot else { return false };
        let unnamed = self.binaries.get(number).and_then(|binary| binary.answer.unnamed.as_ref());
        !matches!(unnamed, Some(Unnamed::Gone | Unnamed::NotElf))
    }

    /// Number of the binary that an address is in, and offset in its file, if there is a name for it.
    pub fn named(&self, key: Key) -> Option<(usize, u64)> {
        let spot = *self.spots.get(&key)?;
        self.at_spot(spot)?;
        match spot {
            Spot::File(number, offset) => Some((number, offset)),
            Spot::Loose => None,
        }
    }

    /// The frames at an address, leaf first.
    pub fn frames(&self, (process, address): Key, at: Timestamp) -> Vec<Frame> {
        let spot = self.spots.get(&(process, address)).copied().unwrap_or(Spot::Loose);
        if let Some(interpreted) = Interpreted::from_address(address) {
            return vec![self.interpreted_frame((process, address), interpreted)];
        }
        let (module, offset) = match spot {
            Spot::File(number, offset) => {
                (self.binaries.get(number).map_or("", |binary| binary.mapping.path.as_str()), offset)
            }
            Spot::Loose => {
                (self.maps.find(process, address, at).map_or("", |mapping| name_of(&mapping.path)), address)
            }
        };
        let (place, module, offset) = match (self.at_spot(spot), self.generated.get(&(process, address))) {
            (None, Some(generated)) => (Some(generated), GENERATED_MODULE, address),
            (place, _) => (place, module, offset),
        };
        let (spin, watches) = self.spin_at(spot, (process, address));
        let module = module.to_owned();
        let frame = Frame { kind: FrameKind::User, module, offset, spin, watches, ..Frame::default() };
        let Some(place) = place.filter(|place| !place.calls.is_empty()) else { return vec![frame] };
        let calls = place.calls.iter().enumerate().map(|(depth, call)| Frame {
            function: call.function.clone(),
            function_offset: place.distance,
            file: call.file.clone(),
            line: call.line,
            inlined: depth + 1 < place.calls.len(),
            ..frame.clone()
        });
        calls.collect()
    }

    /// A function that an interpreter runs.
    fn interpreted_frame(&self, key: Key, place: Interpreted) -> Frame {
        let call = self.generated.get(&key).and_then(|place| place.calls.first());
        let (kind, module, unnamed) = match place.standing {
            Standing::Behind { .. } => (FrameKind::User, PYTHON_MODULE, ""),
            // As when it is compiled: it is the same function.
            Standing::InPlace => (FrameKind::User, GENERATED_MODULE, INTERPRETER),
        };
        let unnamed = || Call { function: unnamed.to_owned(), ..Call::default() };
        let Call { function, file, line } = call.cloned().unwrap_or_else(unnamed);
        let module = module.to_owned();
        let function_offset = u64::from(place.units.unwrap_or(0)) * place.standing.unit_bytes();
        let offset = place.code + function_offset;
        Frame { kind, module, function, file, line, offset, function_offset, ..Frame::default() }
    }
}

/// The name of anonymous memory is dropped.
fn name_of(path: &str) -> &str {
    if path.starts_with("//anon") { "" } else { path }
}

/// Memory with this name is of a file, or the vdso.
fn is_file(path: &str) -> bool {
    path == "[vdso]" || (path.starts_with('/') && !path.starts_with("//"))
}

impl Binary<'_> {
    fn look_up(&self, files: &dyn Files, kept: Option<&KeptNames>, threads: usize) -> Answer {
        let ask = |offsets: &BTreeSet<u64>, leaves: &BTreeSet<u64>| {
            let (offsets, leaves) = (offsets.iter().copied().collect(), leaves.iter().copied().collect());
            contained(files, &Wanted { pid: self.pid, mapping: self.mapping, offsets, leaves }, threads)
        };
        let Some(kept) = kept else { return ask(&self.offsets, &self.leaves) };
        let Mapping { path, build_id, .. } = self.mapping;
        let whose = if build_id.is_empty() { self.pid } else { 0 };
        kept.places((path, build_id, whose), (&self.offsets, &self.leaves), ask)
    }
}

/// A library that panics on a broken file takes that file's names with it, nothing else.
fn contained(files: &dyn Files, wanted: &Wanted<'_>, threads: usize) -> Answer {
    let looked_up = panic::catch_unwind(panic::AssertUnwindSafe(|| binary::look_up(files, wanted, threads)));
    looked_up.unwrap_or_else(|_| Answer {
        unnamed: Some(Unnamed::Broken("reading it failed".to_owned())),
        ..Answer::default()
    })
}
