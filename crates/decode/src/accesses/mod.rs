//! What memory a thread touched just before a sample: from the instruction before the one at which it was seen, and
//! its registers. A sample comes one instruction late, since an instruction that waits for memory ends first.
//!
//! Nothing is said where that could be wrong: the place may be reached by a jump, the instruction has changed the
//! registers that its address is made of, the memory is a thread's own by `fs` or `gs`, the code is in no file.

mod counters;
mod program;
pub mod suspects;
mod touched;
mod x86;

use std::collections::HashMap;

use holdup_events::ProcessId;
use holdup_events::event::Sample;
use holdup_events::tables::{AccessKind, Counter, DataAccess, Mapping, Variable};

use crate::symbols::{Files, mapped_file};
use counters::Counters;
use program::Program;
use touched::Touched;
use x86::Access;

/// More places of one process than this are not remembered at a time.
const PLACES_MAX: usize = 1 << 16;

/// Finds it for sample after sample: each place in a program is decoded once.
pub struct Accesses<'a> {
    files: &'a dyn Files,
    /// Path, build id, and the process where there is none.
    programs: HashMap<(String, Vec<u8>, u32), Option<Program>>,
    /// By process, then address.
    places: HashMap<ProcessId, HashMap<u64, Option<Access>>>,
    touched: Touched,
    counters: Counters,
}

impl<'a> Accesses<'a> {
    /// With the recorded machine's files.
    pub fn new(files: &'a dyn Files) -> Accesses<'a> {
        Accesses {
            files,
            programs: HashMap::new(),
            places: HashMap::new(),
            touched: Touched::default(),
            counters: Counters::default(),
        }
    }

    /// The process has other code from now on.
    pub fn remapped(&mut self, process: ProcessId) {
        self.places.remove(&process);
    }

    /// The addresses in lines that several threads touched, one of them writing; sorted.
    pub fn shared(&self) -> Vec<Variable> {
        self.touched.shared()
    }

    /// What the thread of a sample had just touched, and how far it had come there; `mappings` in the order in which they
    /// were made.
    pub fn of(&mut self, sample: &Sample, process: ProcessId, mappings: &[Mapping]) -> (DataAccess, Counter) {
        let access = self.data(sample, process, mappings);
        let counter = match &sample.registers {
            Some(registers) if access.kind != AccessKind::None => {
                self.touched.add(process, sample.tid, &access);
                self.counters.next(sample.tid, sample.ip, registers)
            }
            _ => Counter::default(),
        };
        (access, counter)
    }

    /// The memory alone, of which nothing is remembered.
    pub fn data(&mut self, sample: &Sample, process: ProcessId, mappings: &[Mapping]) -> DataAccess {
        let Some(registers) = &sample.registers else { return DataAccess::default() };
        if let Some(known) = self.places.get(&process).and_then(|places| places.get(&sample.ip)) {
            return known.as_ref().map(|access| access.with(registers)).unwrap_or_default();
        }
        let holds = |mapping: &&Mapping| {
            mapping.process == process && (mapping.start..mapping.end).contains(&sample.ip)
        };
        // Mappings are read a little later than samples: where there is none yet there may be one soon.
        let Some(mapping) = mappings.iter().rev().find(holds) else { return DataAccess::default() };
        let access = self.access(sample, mapping);
        let found = access.as_ref().map(|access| access.with(registers)).unwrap_or_default();
        let places = self.places.entry(process).or_default();
        if places.len() >= PLACES_MAX {
            places.clear();
        }
        places.insert(sample.ip, access);
        found
    }

    fn access(&mut self, sample: &Sample, mapping: &Mapping) -> Option<Access> {
        let whose = if mapping.build_id.is_empty() { sample.tgid } else { 0 };
        let key = (mapping.path.clone(), mapping.build_id.clone(), whose);
        let files = self.files;
        let program = self.programs.entry(key).or_insert_with(|| {
            let bytes = mapped_file(files, sample.tgid, mapping)?;
            Program::new(bytes)
        });
        let offset = (sample.ip - mapping.start).checked_add(mapping.file_offset)?;
        let (before, at) = program.as_mut()?.around(offset, sample.ip);
        // A repeated string instruction is interrupted in its midst.
        at.and_then(|at| Access::repeated(&at)).or_else(|| before.and_then(|before| Access::of(&before)))
    }
}

#[cfg(test)]
mod tests;
