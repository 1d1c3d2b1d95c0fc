//! Memory of living processes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use holdup_capture::process_memory;
use holdup_decode::process_memory::Memory;

/// Time for which read memory is reused, and the maximum number of pages kept per process (4 MiB).
const READ_FOR: Duration = Duration::from_millis(250);
const PAGES_MAX: usize = 1024;
/// The smallest piece of memory of which all or nothing can be read (bytes).
const PAGE_BYTES: u64 = 4096;

/// Memory of a living process, read page by page. Recently read pages are reused.
pub(super) struct OfProcess {
    pub(super) pid: u32,
    pages: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
    fresh: Cell<Instant>,
}

impl OfProcess {
    /// For the process with this PID.
    pub(super) fn new(pid: u32) -> OfProcess {
        OfProcess { pid, pages: RefCell::default(), fresh: Cell::new(Instant::now()) }
    }

    /// Whether something was read before this moment.
    pub(super) fn is_old(&self) -> bool {
        self.fresh.get().elapsed() >= READ_FOR || self.pages.borrow().len() >= PAGES_MAX
    }

    /// Drops the cached pages, so that the next reads are current.
    pub(super) fn forget(&self) {
        self.pages.borrow_mut().clear();
        self.fresh.set(Instant::now());
    }

    /// Nothing was read since it was forgotten.
    pub(super) fn is_fresh(&self) -> bool {
        self.pages.borrow().is_empty()
    }

    fn page(&self, address: u64) -> Option<Box<[u8]>> {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let read = process_memory::read(self.pid, address, &mut bytes).ok()?;
        (read == bytes.len()).then(|| bytes.into_boxed_slice())
    }
}

impl Memory for OfProcess {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut pages = self.pages.borrow_mut();
        let mut filled = 0;
        while filled < bytes.len() {
            let at = address.checked_add(filled as u64)?;
            let into = (at % PAGE_BYTES) as usize;
            let page = pages.entry(at - at % PAGE_BYTES).or_insert_with_key(|page| self.page(*page));
            let wanted = bytes.get_mut(filled..)?;
            let part = page.as_deref()?.get(into..)?;
            let length = part.len().min(wanted.len());
            wanted.get_mut(..length)?.copy_from_slice(part.get(..length)?);
            filled += length;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_across_pages_and_not_where_there_is_none() {
        let own: Vec<u8> = (0..3 * PAGE_BYTES as u32).map(|at| at as u8).collect();
        let (memory, start) = (OfProcess::new(std::process::id()), own.as_ptr() as u64);
        let mut bytes = vec![0; 2 * PAGE_BYTES as usize];
        assert!(memory.read(start + 100, &mut bytes).is_some());
        assert_eq!(bytes, own[100..100 + bytes.len()]);
        assert!(memory.read(8, &mut bytes).is_none());
        assert!(memory.read(u64::MAX - 8, &mut bytes).is_none());
        assert!(OfProcess::new(u32::MAX).read(start, &mut bytes).is_none());
    }
}
