//! The memory that a thread accessed just before a sample, from the preceding instruction and the registers.
//! A sample arrives one instruction late, because an instruction that waits for memory completes first.
//!
//! No access is reported if it could be wrong:
//!
//! - The place may be a jump target.
//! - The instruction changed a register of its own address.
//! - The memory is thread-local (`fs` or `gs`).
//! - The code is in no file, and was not read while it existed or has changed since.

mod counters;
mod generated;
mod program;
pub mod suspects;
mod touched;
mod x86;

use std::collections::{BTreeMap, HashMap};

use holdup_events::ProcessId;
use holdup_events::event::Sample;
use holdup_events::tables::{AccessKind, Counter, DataAccess, Mapping, Variable};

use crate::symbols::{Files, mapped_file};
use counters::Counters;
pub use generated::{GeneratedCode, is_generated};
use program::{Around, Program};
use touched::Touched;
use x86::{Access, is_fence};

/// More places of one process than this are not remembered at a time.
const PLACES_MAX: usize = 1 << 16;

/// The decoded access at a place.
#[derive(Clone, Copy)]
enum Place {
    /// The code could not be read or decoded.
    Unread,
    /// No memory was touched before it, or it is not sure which.
    Nothing,
    Touches(Access),
}

/// Samples of which the code is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Samples in user mode of which it was asked.
    pub samples: u64,
    /// Samples with unknown code, by the path of their mapping. The path is [`GENERATED`] for memory without
    /// a file, and empty without a known mapping.
    pub by_path: BTreeMap<String, u64>,
}

/// Code that a runtime made, in [`Unread`].
pub const GENERATED: &str = "generated code";

/// Finds it for sample after sample: each place in a program is decoded once.
pub struct Accesses<'a> {
    files: &'a dyn Files,
    /// Path, build id, and the process where there is none.
    programs: HashMap<(String, Vec<u8>, u32), Option<Program>>,
    /// By process, then address.
    places: HashMap<ProcessId, HashMap<u64, Place>>,
    touched: Touched,
    counters: Counters,
    unread: Unread,
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
            unread: Unread::default(),
        }
    }

    /// The process has other code from now on.
    pub fn remapped(&mut self, process: ProcessId) {
        self.places.remove(&process);
    }

    /// Accessed addresses on cache lines that several threads accessed, at least one of them writing. Sorted.
    pub fn shared(&self) -> Vec<Variable> {
        self.touched.shared()
    }

    /// The memory that the sampled thread had just accessed, and the loop counter at that place. `mappings`
    /// must be in the order of their creation.
    pub fn of_sample(
        &mut self,
        sample: &Sample,
        process: ProcessId,
        mappings: &[Mapping],
    ) -> (DataAccess, Counter) {
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
        self.unread.samples += 1;
        let holds = |mapping: &&Mapping| {
            mapping.process == process && (mapping.start..mapping.end).contains(&sample.ip)
        };
        let mapping = || mappings.iter().rev().find(holds);
        let known = self.places.get(&process).and_then(|places| places.get(&sample.ip)).copied();
        let place = known.or_else(|| {
            // Mappings are read a little later than samples: where there is none yet there may be one soon.
            let place = self.place(sample, mapping()?);
            let places = self.places.entry(process).or_default();
            if places.len() >= PLACES_MAX {
                places.clear();
            }
            places.insert(sample.ip, place);
            Some(place)
        });
        match place {
            Some(Place::Touches(access)) => access.with(registers),
            Some(Place::Nothing) => DataAccess::default(),
            Some(Place::Unread) | None => {
                let path = mapping().map_or("", |mapping| match is_generated(mapping) {
                    true => GENERATED,
                    false => &mapping.path,
                });
                *self.unread.by_path.entry(path.to_owned()).or_default() += 1;
                DataAccess::default()
            }
        }
    }

    /// Samples so far of which the code is not known.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    fn place(&mut self, sample: &Sample, mapping: &Mapping) -> Place {
        if is_generated(mapping) {
            return self.generated(sample);
        }
        let whose = if mapping.build_id.is_empty() { sample.tgid } else { 0 };
        let key = (mapping.path.clone(), mapping.build_id.clone(), whose);
        let files = self.files;
        let program = self.programs.entry(key).or_insert_with(|| {
            let bytes = mapped_file(files, sample.tgid, mapping)?;
            Program::new(bytes)
        });
        let offset = (sample.ip - mapping.start).checked_add(mapping.file_offset);
        match (offset, program) {
            (Some(offset), Some(program)) => executed(program.around(offset, sample.ip)),
            _ => Place::Unread,
        }
    }

    /// The access if all versions of the code at this address agree on it.
    fn generated(&self, sample: &Sample) -> Place {
        let versions = self.files.generated_code(sample.tgid, sample.ip);
        let mut places = versions.iter().map(|code| executed(code.around(sample.ip)));
        match places.next() {
            Some(Place::Touches(first)) => {
                let same = |other| matches!(other, Place::Touches(access) if access == first);
                if places.all(same) { Place::Touches(first) } else { Place::Nothing }
            }
            Some(other) => other,
            None => Place::Unread,
        }
    }
}

/// The access of the last executed instruction.
fn executed(around: Around) -> Place {
    let Some(at) = around.at else { return Place::Unread };
    // A repeated string instruction is interrupted in its midst.
    let access = Access::repeated(&at).or_else(|| {
        let before = around.before?;
        match is_fence(&before) {
            // A fence waits until the preceding store completes.
            true => Access::from_instruction(&around.earlier?).filter(|access| access.writes_over(&before)),
            false => Access::from_instruction(&before),
        }
    });
    access.map_or(Place::Nothing, Place::Touches)
}

#[cfg(test)]
mod tests;
