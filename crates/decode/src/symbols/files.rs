//! Where the bytes of binaries come from: the one door through which symbolising reaches outside.

use std::sync::Arc;

use holdup_events::tables::Mapping;

use crate::accesses::GeneratedCode;
use crate::process_memory::NamedCode;

/// The bytes of a file, read or mapped.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A separate debug file that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugFile<'a> {
    /// Of whose file.
    pub pid: u32,
    /// Path of that file, as the process sees it.
    pub binary: &'a str,
    /// Both files have this build id, empty if there is none.
    pub build_id: &'a [u8],
    /// The debug file's name in the file (`.gnu_debuglink`, or a path by `dwz`), if any.
    pub link: Option<&'a str>,
}

/// Files of the recorded machine. All are untrusted. Missing files are not offered.
pub trait Files: Sync {
    /// Offers candidates for the file of `mapping` (also `[vdso]`), likeliest first, until `take` accepts
    /// one.
    fn binary(&self, _pid: u32, _mapping: &Mapping, _take: &mut dyn FnMut(Bytes) -> bool) {}

    /// Offers candidates for a debug file, likeliest first, until `take` accepts one.
    fn debug(&self, _wanted: &DebugFile<'_>, _take: &mut dyn FnMut(Bytes) -> bool) {}

    /// The process's `perf-PID.map`.
    fn perf_map(&self, _pid: u32) -> Option<Bytes> {
        None
    }

    /// Memory around an address of generated code in a process. Returns each version that was read.
    fn generated_code(&self, _pid: u32, _address: u64) -> Vec<GeneratedCode> {
        Vec::new()
    }

    /// The runtime's name for its code at an address, read while the process ran.
    fn named_code(&self, _pid: u32, _address: u64) -> Option<NamedCode> {
        None
    }

    /// Data stored under `key`.
    fn recall(&self, _key: &str) -> Option<Bytes> {
        None
    }

    /// Keeps `bytes` under `key`, for another recording.
    fn remember(&self, _key: &str, _bytes: &[u8]) {}
}

/// No files at all: frames keep their module and offset.
pub struct NoFiles;

impl Files for NoFiles {}
