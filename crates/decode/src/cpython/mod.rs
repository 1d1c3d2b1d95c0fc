//! Functions of Python programs. Provides the offsets at which BPF finds a thread's current functions
//! (`bpf/interpreters.h`). Reads their names and lines from the memory of the running process, without its
//! cooperation.
//!
//! A code object holds its name and lines (`Include/cpython/code.h`). The interpreter keeps running and may
//! have freed the object, so implausible values are dropped. Supports versions 3.8 to 3.13.

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

/// Maximum number of cached code objects.
const CODES_MAX: usize = 1 << 14;

/// Content of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Code {
    function: String,
    file: String,
    first_line: u32,
    lines: Vec<u8>,
}

/// The interpreter of a process. Code objects are cached, because the process may have exited, or freed one
/// and reused its address.
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
        let place = Interpreted::from_address(address)?;
        let code = self.code(memory, place)?;
        let line =
            place.units.and_then(|units| lines::line(self.layout.lines, &code.lines, code.first_line, units));
        let (function, file, line) = (code.function, code.file, line.unwrap_or(code.first_line));
        Some(NamedCode { addresses: address..address, calls: vec![Call { function, file, line }] })
    }

    fn is_code(&self, _memory: &dyn Memory, address: u64) -> bool {
        Interpreted::from_address(address).is_some()
    }

    fn kernel_layout(&self, _memory: &dyn Memory) -> Option<KernelLayout> {
        Some(KernelLayout::Lists(self.layout.walk.pack()))
    }
}

/// Fields that identify a code object: its first line, and the addresses of its file's and its own name.
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
    /// The value that BPF stores for the code object at an address, if there is one. `units` as in
    /// [`Interpreted`].
    pub fn place(&self, memory: &dyn Memory, code: u64, units: Option<u32>) -> Option<u64> {
        let identity = self.head(memory, code)?.identity();
        let standing = Standing::Behind { begins: false };
        Some(Interpreted { code, identity, units, standing }.address())
    }

    fn head(&self, memory: &dyn Memory, code: u64) -> Option<Head> {
        let at = |offset: u64| code.checked_add(offset);
        // An object with another type is not a code object, or no longer one.
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
