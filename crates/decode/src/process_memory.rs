//! Memory of a process that is read while it lives, and what a runtime calls the code in it.

use std::ops::Range;

use crate::interpreted::KernelLayout;
use crate::symbols::Call;

/// Memory of a process.
pub trait Memory {
    /// Fills `bytes` with the memory at `address`. `None` if any part is not readable.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
}

/// Description of an address in generated code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCode {
    /// The piece of code that holds it: a compiled method, an interpreted function, or what the runtime needs besides.
    pub addresses: Range<u64>,
    /// Leaf first: the functions inlined there, then the function itself, with lines if known. For code that
    /// is not a function, the runtime's name of it.
    pub calls: Vec<Call>,
}

/// Names what a runtime has in its process's memory.
pub trait Names {
    /// The code at an address, if the runtime has a name for it.
    fn code_at(&self, memory: &dyn Memory, address: u64) -> Option<NamedCode>;

    /// An address lies where the runtime keeps its code.
    fn is_code(&self, memory: &dyn Memory, address: u64) -> bool;

    /// How BPF finds the interpreted functions, once the runtime is initialized.
    fn kernel_layout(&self, memory: &dyn Memory) -> Option<KernelLayout>;
}

pub(crate) fn word<const BYTES: usize>(memory: &dyn Memory, address: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    memory.read(address, &mut bytes)?;
    Some(bytes)
}

pub(crate) fn pointer(memory: &dyn Memory, address: u64) -> Option<u64> {
    word(memory, address).map(u64::from_le_bytes)
}

pub(crate) fn int(memory: &dyn Memory, address: u64) -> Option<u32> {
    word(memory, address).map(u32::from_le_bytes)
}
