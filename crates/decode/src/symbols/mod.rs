//! Addresses → names, after the recording. Reads binaries only through [`Files`].

pub mod elf;
mod kernel;

use std::collections::{BTreeMap, HashMap};

use holdup_events::event::RawStack;
use holdup_events::tables::{Frame, FrameKind, FrameVia, Frames, Mapping, StackEnd, StackRow, Stacks};
use holdup_events::{FrameId, ProcessId, StackId, Timestamp};

use crate::states::Catalogue;
use elf::ElfSymbols;
use kernel::KernelSymbols;

/// Where binaries come from.
pub trait Files {
    /// The bytes of `path` as process `pid` sees it.
    fn read(&self, pid: u32, path: &str) -> Option<Vec<u8>>;
    /// The bytes of the separate debug file with this build id.
    fn read_debug(&self, build_id: &[u8]) -> Option<Vec<u8>>;
}

/// No files at all: frames keep their module and offset.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _pid: u32, _path: &str) -> Option<Vec<u8>> {
        None
    }

    fn read_debug(&self, _build_id: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Resolves the stacks of one recording.
pub struct Symbols<'a> {
    files: &'a dyn Files,
    kernel: KernelSymbols,
    binaries: BTreeMap<String, Option<ElfSymbols>>,
}

/// Frames and stacks while they are interned.
#[derive(Default)]
struct Interned {
    frames: Frames,
    frame_ids: HashMap<Frame, FrameId>,
    addresses: HashMap<(ProcessId, u64, bool), FrameId>,
    parents: Vec<StackRow>,
    parent_ids: HashMap<StackRow, u32>,
}

impl Interned {
    fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(id) = self.frame_ids.get(&frame) {
            return *id;
        }
        let id = FrameId(self.frames.len() as u32);
        self.frames.push(frame.clone());
        self.frame_ids.insert(frame, id);
        id
    }
}

impl<'a> Symbols<'a> {
    /// With the text of /proc/kallsyms of the recorded kernel (empty: none).
    pub fn new(files: &'a dyn Files, kallsyms: &str) -> Symbols<'a> {
        Symbols { files, kernel: KernelSymbols::parse(kallsyms), binaries: BTreeMap::new() }
    }

    /// The kernel's addresses are hidden from us (`kernel.kptr_restrict`), or none were given.
    pub fn kernel_hidden(&self) -> bool {
        self.kernel.is_empty()
    }

    /// The stacks and frames of a recording. Row k of the stacks is the catalogue's stack k: the leaf;
    /// its callers are rows behind.
    pub fn resolve(&mut self, catalogue: &Catalogue) -> (Stacks, Frames) {
        let maps = Maps::new(&catalogue.mappings);
        let processes: HashMap<u32, Vec<ProcessId>> =
            catalogue.processes.iter().enumerate().fold(HashMap::new(), |mut by_pid, (index, process)| {
                by_pid.entry(process.pid).or_insert_with(Vec::new).push(ProcessId(index as u32));
                by_pid
            });
        let leaves = catalogue.stacks.len().max(1) as u32;
        let mut interned = Interned::default();
        let mut rows = vec![StackRow::default(); leaves as usize];
        for (row, raw) in rows.iter_mut().zip(&catalogue.stacks) {
            let Some(raw) = raw else { continue };
            let process = processes.get(&raw.tgid).and_then(|ids| ids.last()).copied().unwrap_or_default();
            if let Some(stack) = self.stack(raw, process, &maps, leaves, &mut interned) {
                *row = stack;
            }
        }
        // A stack that was never defined has no frame to show.
        let unknown = interned.frame(Frame::default());
        for (row, raw) in rows.iter_mut().zip(&catalogue.stacks).skip(1) {
            if raw.is_none() {
                *row = StackRow { frame: unknown, ..StackRow::default() };
            }
        }
        rows.append(&mut interned.parents);
        (Stacks::from_rows(rows), interned.frames)
    }

    fn stack(
        &mut self,
        raw: &RawStack,
        process: ProcessId,
        maps: &Maps<'_>,
        leaves: u32,
        interned: &mut Interned,
    ) -> Option<StackRow> {
        let mut below = StackId::NONE;
        let last = raw.addresses.len().checked_sub(1)?;
        for (index, address) in raw.addresses.iter().enumerate().rev() {
            let in_kernel = index < usize::from(raw.kernel_frames);
            let user_index = index.checked_sub(usize::from(raw.kernel_frames));
            let via = user_index.and_then(|index| raw.vias.get(index)).copied().unwrap_or_default();
            // All but the leaf are return addresses: the call is just before. The first user frame under
            // kernel frames is where the syscall or interrupt was: exact as well; so is what a signal interrupted.
            let exact = index == 0 || user_index == Some(0) || via == FrameVia::SignalFrame;
            let frame = self.frame(*address, !exact, in_kernel, (process, raw), maps, interned);
            let end = if index == last { raw.end } else { StackEnd::Unknown };
            let row = StackRow { frame, parent: below, via, end };
            if index == 0 {
                return Some(row);
            }
            let next = leaves + interned.parents.len() as u32;
            let id = *interned.parent_ids.entry(row).or_insert(next);
            if id == next {
                interned.parents.push(row);
            }
            below = StackId(id);
        }
        None
    }

    fn frame(
        &mut self,
        address: u64,
        returns: bool,
        in_kernel: bool,
        (process, raw): (ProcessId, &RawStack),
        maps: &Maps<'_>,
        interned: &mut Interned,
    ) -> FrameId {
        let key = (process, address, returns);
        if let Some(id) = interned.addresses.get(&key) {
            return *id;
        }
        let looked_up = if returns { address.saturating_sub(1) } else { address };
        let frame = if in_kernel {
            self.kernel.frame(looked_up)
        } else {
            match maps.find(process, looked_up, raw.at) {
                Some(mapping) => self.user_frame(looked_up, raw.tgid, mapping),
                None => Frame { kind: FrameKind::User, offset: address, ..Frame::default() },
            }
        };
        let id = interned.frame(frame);
        interned.addresses.insert(key, id);
        id
    }

    fn user_frame(&mut self, address: u64, pid: u32, mapping: &Mapping) -> Frame {
        let offset = address - mapping.start + mapping.file_offset;
        let mut frame =
            Frame { kind: FrameKind::User, module: mapping.path.clone(), offset, ..Frame::default() };
        if let Some(symbols) = self.binary(pid, mapping)
            && let Some((name, distance)) = symbols.find(offset)
        {
            frame.function = name;
            frame.function_offset = distance;
            // Frames of one function are one frame: where in it is for the annotating views.
            frame.offset = offset - distance;
            frame.function_offset = 0;
        }
        frame
    }

    fn binary(&mut self, pid: u32, mapping: &Mapping) -> Option<&ElfSymbols> {
        if mapping.path.is_empty() || (mapping.path.starts_with('[') && mapping.path != "[vdso]") {
            return None;
        }
        let files = self.files;
        let entry = self.binaries.entry(mapping.path.clone()).or_insert_with(|| {
            let own = files.read(pid, &mapping.path)?;
            let symbols = ElfSymbols::parse(&own)?;
            let build_id = symbols.build_id().map_or_else(|| mapping.build_id.clone(), <[u8]>::to_vec);
            match files.read_debug(&build_id).as_deref().and_then(ElfSymbols::parse) {
                Some(debug) => Some(symbols.with_names_of(debug)),
                None => Some(symbols),
            }
        });
        entry.as_ref()
    }
}

/// The mappings of each process, sorted for look-up.
struct Maps<'a> {
    by_process: HashMap<ProcessId, Vec<&'a Mapping>>,
}

impl<'a> Maps<'a> {
    fn new(mappings: &'a [Mapping]) -> Maps<'a> {
        let mut by_process: HashMap<ProcessId, Vec<&Mapping>> = HashMap::new();
        for mapping in mappings {
            by_process.entry(mapping.process).or_default().push(mapping);
        }
        for mappings in by_process.values_mut() {
            mappings.sort_by_key(|mapping| mapping.at);
        }
        Maps { by_process }
    }

    /// The last mapping of the address that was there at `at`; else the first that came later (a stack is
    /// recorded at once, mappings are read a little later).
    fn find(&self, process: ProcessId, address: u64, at: Timestamp) -> Option<&'a Mapping> {
        let mappings = self.by_process.get(&process)?;
        let holds = |mapping: &&&Mapping| (mapping.start..mapping.end).contains(&address);
        let before = mappings.iter().filter(|mapping| mapping.at <= at).rev().find(holds);
        before.or_else(|| mappings.iter().filter(|mapping| mapping.at > at).find(holds)).copied()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
