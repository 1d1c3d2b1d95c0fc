//! The small tables: processes, threads, waits, mappings.

use crate::event::RawMapping;
use crate::{ProcessId, ThreadId, Timestamp, Wait};

/// A process (thread group), named by its last `exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The kernel's number (tgid) in the host's pid namespace.
    pub pid: u32,
    /// Name of its main thread.
    pub name: String,
    /// The process belongs to the traced program.
    pub target: bool,
    /// The process that started it, if known.
    pub parent: Option<ProcessId>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number.
    pub tid: u32,
    /// The thread's process.
    pub process: ProcessId,
    /// Last name of the thread.
    pub name: String,
    /// The thread belongs to the traced program, and its slices tile `start..end`. Otherwise only its running
    /// slices are known.
    pub target: bool,
    /// When it was born, or when the recording began if it was there before.
    pub start: Timestamp,
    /// When the thread exited, or when the recording ended.
    pub end: Timestamp,
    /// The thread existed before the recording.
    pub began_before: bool,
    /// The thread was alive when the recording ended.
    pub alive_at_end: bool,
    /// The thread that made it, if known.
    pub parent: Option<ThreadId>,
    /// Number of CPUs on which the thread could run when last seen, 0 if unknown.
    pub cpus_allowed: u32,
}

/// Executable memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The mapping's process.
    pub process: ProcessId,
    /// Start of validity. A mapping ends where a later one overlaps it.
    pub at: Timestamp,
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Offset of `start` in the file.
    pub file_offset: u64,
    /// As the process names it.
    pub path: String,
    /// Empty if not known.
    pub build_id: Vec<u8>,
}

impl Mapping {
    /// The mapping of a kernel event, with the process' id in this trace.
    pub fn from_raw(process: ProcessId, raw: RawMapping) -> Mapping {
        let RawMapping { at, tgid: _, start, end, file_offset, path, build_id } = raw;
        Mapping { process, at, start, end, file_offset, path, build_id }
    }
}

/// An address that samples of several threads touched, and the variable that it lies in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// The variable's process.
    pub process: ProcessId,
    /// Where.
    pub address: u64,
    /// Name of the variable, empty if no named variable contains the address.
    pub name: String,
    /// Part of the variable: `[1].count` if its type is known, else `+0xdistance`. Empty for its first byte.
    pub part: String,
    /// The binary that defines the variable. Empty for heaps, stacks and mapped memory.
    pub module: String,
}

/// Row = [`ProcessId`].
pub type Processes = Vec<Process>;
/// Row = [`ThreadId`].
pub type Threads = Vec<Thread>;
/// Row = [`crate::WaitId`]. Row 0 is `Wait::default()`.
pub type Waits = Vec<Wait>;
