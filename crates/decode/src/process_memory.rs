//! Memory of a process that is read while it lives, and what a runtime calls the code in it.

use std::ops::Range;

use crate::interpreted::KernelLayout;
use crate::symbols::Call;

/// Memory of a process.
pub trait Memory {
    /// Fills `bytes` with what is at `address`; none if not all of it can be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
}

/// What is at an address of code that a runtime made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCode {
    /// The piece of code that holds it: a compiled method, an interpreted function, or what the runtime needs besides.
    pub addresses: Range<u64>,
    /// Leaf first: what was compiled into the function, then that itself, with lines where they are known; or what the runtime calls
    /// what is no function.
    pub calls: Vec<Call>,
}

/// Names what a runtime has in its process's memory.
pub trait Names {
    /// What is at an address, if the runtime has a name for it.
    fn code_at(&self, memory: &dyn Memory, address: u64) -> Option<NamedCode>;

    /// An address lies where the runtime keeps its code.
    fn is_code(&self, memory: &dyn Memory, address: u64) -> bool;

    /// How the kernel programs find what it interprets, once it knows itself.
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
