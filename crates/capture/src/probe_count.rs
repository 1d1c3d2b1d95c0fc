//! Number of hits of a place in a binary, counted by the kernel: perf's uprobes in counting mode, without
//! records.
//!
//! A hit costs 0.4 µs if the kernel can emulate the first instruction (`nop`, `push`), as at USDT probes. It
//! costs 14 µs if the kernel has to single-step the instruction.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::perf_ring::{self, Attr};

/// The kernel's type of uprobes.
const TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";
/// Where a semaphore's offset stands in `config` (…/uprobe/format/ref_ctr_offset).
const SEMAPHORE_SHIFT: u32 = 32;

/// Counts from its opening on, in all processes that run the file. Dropping it removes the probe.
///
/// It does not count a single process and its children. For each thread that inherits such an event, the
/// kernel reads the file's name again from the memory of the starting process. If the name is not there, the
/// kernel refuses the thread (up to at least Linux 6.18).
pub struct ProbeCount(Vec<File>);

impl ProbeCount {
    /// At byte `offset` of `file`. `semaphore` is the offset of its semaphore, 0 for none.
    pub fn open(file: &Path, (offset, semaphore): (u64, u64)) -> io::Result<ProbeCount> {
        let kind = std::fs::read_to_string(TYPE)?;
        let kind = kind.trim().parse().map_err(|_| io::Error::other(format!("{TYPE} has no number")))?;
        let path = CString::new(file.as_os_str().as_bytes())?;
        let semaphore = u32::try_from(semaphore)
            .map_err(|_| io::Error::other("the semaphore lies too far behind in the file"))?;
        let config = u64::from(semaphore) << SEMAPHORE_SHIFT;
        // The kernel reads the path while it opens the event.
        let attr = Attr { config1: path.as_ptr() as u64, config2: offset, ..Attr::new(kind, config) };
        let cpus = crate::host::online_cpus().into_iter();
        let events = cpus.map(|cpu| perf_ring::open(&attr, -1, i32::from(cpu)).map(File::from));
        events.collect::<io::Result<_>>().map(ProbeCount)
    }

    /// How often so far.
    pub fn read(&self) -> io::Result<u64> {
        let mut all = 0;
        for mut event in &self.0 {
            let mut count = [0; 8];
            event.read_exact(&mut count)?;
            all += u64::from_ne_bytes(count);
        }
        Ok(all)
    }
}
