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
    /// It belongs to the traced program.
    pub target: bool,
    /// The process that started it, if known.
    pub parent: Option<ProcessId>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number.
    pub tid: u32,
    /// Whose thread.
    pub process: ProcessId,
    /// Its last name.
    pub name: String,
    /// It belongs to the traced program: its slices tile `start..end`. Otherwise only its
    /// running slices are known.
    pub target: bool,
    /// When it was born, or when the recording began if it was there before.
    pub start: Timestamp,
    /// When it was gone, or when the recording ended.
    pub end: Timestamp,
    /// Its life began before the recording.
    pub began_before: bool,
    /// It still lived when the recording ended.
    pub alive_at_end: bool,
    /// The thread that made it, if known.
    pub parent: Option<ThreadId>,
    /// On how many CPUs it might run, when last seen; 0 if that is not known.
    pub cpus_allowed: u32,
}

/// Executable memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Whose.
    pub process: ProcessId,
    /// From when on; it ends where a later one overlaps.
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
    /// What the kernel said, of a process that has a number by now.
    pub fn of(process: ProcessId, raw: RawMapping) -> Mapping {
        let RawMapping { at, tgid: _, start, end, file_offset, path, build_id } = raw;
        Mapping { process, at, start, end, file_offset, path, build_id }
    }
}

/// An address that samples of several threads touched, and the variable that it lies in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// Whose memory.
    pub process: ProcessId,
    /// Where.
    pub address: u64,
    /// Of the variable; empty if it lies in none that has a name.
    pub name: String,
    /// Which part of it: `[1].count` where its type is known, else `+0xdistance`; empty at its first byte.
    pub part: String,
    /// The binary whose variable it is; empty for heaps, stacks and mapped memory.
    pub module: String,
}

/// Row = [`ProcessId`].
pub type Processes = Vec<Process>;
/// Row = [`ThreadId`].
pub type Threads = Vec<Thread>;
/// Row = [`crate::WaitId`]; row 0 is `Wait::default()`.
pub type Waits = Vec<Wait>;
