//! Functions of Python programs: where CPython keeps which functions a thread is in, for the kernel programs that look there
//! (`bpf/interpreters.h`), and their names and lines, read from the memory of the living process. It need not be asked for them.
//!
//! A code object holds what is told (`Include/cpython/code.h`). The interpreter goes on meanwhile, and may have freed the object:
//! what makes no sense is left out. Versions 3.8 to 3.13; of an earlier or later one nothing is known.

mod layout;
mod lines;
mod names;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;

use crate::interpreted::{Interpreted, KernelLayout, Standing, identity};
use crate::process_memory::{Memory, NamedCode, Names, int, pointer};
use crate::symbols::Call;

pub use layout::{Layout, Refused, Symbols, Walk, symbols, version_by_name};

/// Larger tables of lines are none (bytes).
const LINES_BYTES_MAX: u64 = 1 << 18;

/// So many code objects are remembered.
const CODES_MAX: usize = 1 << 14;

/// What a code object says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Code {
    function: String,
    file: String,
    first_line: u32,
    lines: Vec<u8>,
}

/// The interpreter of a process. What it said of its code is remembered: the process may have ended since, or freed it, and made
/// other code where it was.
pub struct Interpreter {
    layout: Layout,
    /// By address and identity.
    codes: RefCell<HashMap<(u64, u8), Code>>,
}

impl Interpreter {
    /// With this layout.
    pub fn new(layout: Layout) -> Interpreter {
        Interpreter { layout, codes: RefCell::default() }
    }

    fn code(&self, memory: &dyn Memory, place: Interpreted) -> Option<Code> {
        let mut codes = self.codes.borrow_mut();
        let key = (place.code, place.identity);
        let Some(code) = self.layout.code(memory, place) else { return codes.get(&key).cloned() };
        if codes.len() < CODES_MAX {
            codes.insert(key, code.clone());
        }
        Some(code)
    }
}

impl Names for Interpreter {
    fn code_at(&self, memory: &dyn Memory, address: u64) -> Option<NamedCode> {
        let place = Interpreted::of(address)?;
        let code = self.code(memory, place)?;
        let line =
            place.units.and_then(|units| lines::line(self.layout.lines, &code.lines, code.first_line, units));
        let (function, file, line) = (code.function, code.file, line.unwrap_or(code.first_line));
        Some(NamedCode { addresses: address..address, calls: vec![Call { function, file, line }] })
    }

    fn is_code(&self, _memory: &dyn Memory, address: u64) -> bool {
        Interpreted::of(address).is_some()
    }

    fn kernel_layout(&self, _memory: &dyn Memory) -> Option<KernelLayout> {
        Some(KernelLayout::Lists(self.layout.walk.pack()))
    }
}

/// What a code object begins with that tells it from others: its first line, and where the names of its file and of itself are.
struct Head {
    first_line: u32,
    file: u64,
    name: u64,
}

impl Head {
    fn identity(&self) -> u8 {
        identity(&[u64::from(self.first_line), self.file, self.name])
    }
}

impl Layout {
    /// What the kernel programs say of the code object at an address, if there is one; `units` as in [`Interpreted`].
    pub fn place(&self, memory: &dyn Memory, code: u64, units: Option<u32>) -> Option<u64> {
        let identity = self.head(memory, code)?.identity();
        let standing = Standing::Behind { begins: false };
        Some(Interpreted { code, identity, units, standing }.address())
    }

    fn head(&self, memory: &dyn Memory, code: u64) -> Option<Head> {
        let at = |offset: u64| code.checked_add(offset);
        // Whoever has another type now was no code, or is it no more.
        if pointer(memory, at(self.object_type)?)? != self.code_type {
            return None;
        }
        let [line, file, name] = self.walk.code();
        let (file, name) = (pointer(memory, at(file)?)?, pointer(memory, at(name)?)?);
        Some(Head { first_line: int(memory, at(line)?)?, file, name })
    }

    /// The code object that was meant, if it is there.
    fn code(&self, memory: &dyn Memory, place: Interpreted) -> Option<Code> {
        let at = |offset: u64| place.code.checked_add(offset);
        let head = self.head(memory, place.code).filter(|head| head.identity() == place.identity)?;
        let Head { first_line, file, name } = head;
        let name = match self.code_qualified_name {
            Some(offset) => pointer(memory, at(offset)?)?,
            None => name,
        };
        let (file, name) = (self.text(memory, file)?, self.text(memory, name)?);
        let lines = self.bytes(memory, pointer(memory, at(self.code_lines)?)?).unwrap_or_default();
        Some(Code { function: names::function(&file, &name), file, first_line, lines })
    }
}
