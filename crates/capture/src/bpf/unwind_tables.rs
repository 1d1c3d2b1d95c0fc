//! The tables by which the kernel programs walk user stacks (`bpf/stacks.h`, `bpf/unwind.h`): rows of every
//! binary in one array, and for each process its executable mappings.

use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::messages;
use crate::error::CaptureError;

/// The walker knows no more mappings of one process (`UNWIND_MAPPINGS_MAX`).
pub const MAPPINGS_MAX: usize = 512;

/// One executable mapping and the rows of its file (`struct unwind_mapping`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedRows {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// What to take off an address to get a row's pc.
    pub base: u64,
    /// As [`UnwindTables::add_rows`] gave it.
    pub first_row: u32,
    /// How many; 0: frame pointers only; [`ROWS_PENDING`]: they are being made.
    pub rows: u32,
}

/// See [`MappedRows::rows`] (`UNWIND_PENDING` in `bpf/unwind.h`): stacks through such a mapping are copied.
pub const ROWS_PENDING: u32 = u32::MAX;

/// The maps of one session. Usable from another thread than the session's.
pub struct UnwindTables {
    array: *mut u64,
    capacity: usize,
    used: usize,
    processes: MapHandle,
    generation: u32,
    value: Vec<u8>,
}

// The mapping belongs to this value alone; the kernel only reads what `processes` points it to.
unsafe impl Send for UnwindTables {}

const HEAD_BYTES: usize = 16;
const MAPPING_BYTES: usize = 32;

impl UnwindTables {
    pub(super) fn open(object: &Object) -> Result<UnwindTables, CaptureError> {
        let map = |name: &str| {
            let found = object.maps().find(|map| map.name() == name);
            found.ok_or_else(|| CaptureError::Refused { reason: format!("no map {name}") })
        };
        let processes = map("unwind_processes")?;
        let processes = MapHandle::try_from(&processes)
            .map_err(|error| CaptureError::Refused { reason: messages::reason(&error) })?;
        let rows = map("unwind_rows")?;
        let capacity = rows.max_entries() as usize;
        // SAFETY: a new shared mapping of the array's own size.
        let array = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                capacity * 8,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                rows.as_fd().as_raw_fd(),
                0,
            )
        };
        if array == libc::MAP_FAILED {
            return Err(CaptureError::last("mapping the unwind rows"));
        }
        Ok(UnwindTables {
            array: array.cast(),
            capacity,
            used: 0,
            processes,
            generation: 0,
            value: Vec::new(),
        })
    }

    /// Adds a binary's rows; gives the number of the first, or `None` if there is no room left.
    pub fn add_rows(&mut self, rows: impl ExactSizeIterator<Item = u64>) -> Option<u32> {
        let (first, count) = (self.used, rows.len());
        if count > self.capacity - self.used {
            return None;
        }
        for (index, row) in rows.take(count).enumerate() {
            // SAFETY: below the capacity, as just checked; nobody reads these rows before a process names them.
            unsafe { self.array.add(first + index).write_volatile(row) };
        }
        self.used += count;
        u32::try_from(first).ok()
    }

    /// Tells all executable mappings of a process, in any order; replaces what was told before. Beyond
    /// [`MAPPINGS_MAX`] those with rows stay. `lent`: the row that says on what frame code without rows may run; 0: none
    /// does. `false`: some did not fit.
    pub fn set_process(
        &mut self,
        tgid: u32,
        mappings: &[MappedRows],
        lent: u64,
    ) -> Result<bool, CaptureError> {
        let mut kept = mappings.to_vec();
        if kept.len() > MAPPINGS_MAX {
            kept.sort_by_key(|mapping| mapping.rows == 0);
            kept.truncate(MAPPINGS_MAX);
        }
        kept.sort_by_key(|mapping| mapping.start);
        self.value.clear();
        self.value.extend((kept.len() as u32).to_ne_bytes());
        // 0 is none; the walker takes a row that it found under another generation for another process's.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.value.extend(self.generation.to_ne_bytes());
        self.value.extend(lent.to_ne_bytes());
        for mapping in &kept {
            for word in [mapping.start, mapping.end, mapping.base] {
                self.value.extend(word.to_ne_bytes());
            }
            self.value.extend(mapping.first_row.to_ne_bytes());
            self.value.extend(mapping.rows.to_ne_bytes());
        }
        self.value.resize(HEAD_BYTES + MAPPINGS_MAX * MAPPING_BYTES, 0);
        self.processes
            .update(&tgid.to_ne_bytes(), &self.value, MapFlags::ANY)
            .map_err(|error| CaptureError::Refused { reason: messages::reason(&error) })?;
        Ok(kept.len() == mappings.len())
    }

    /// The process is gone, or its memory is.
    pub fn forget(&mut self, tgid: u32) {
        // It may never have been told, or a program may have forgotten it already.
        let _ = self.processes.delete(&tgid.to_ne_bytes());
    }
}

impl Drop for UnwindTables {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length.
        unsafe { libc::munmap(self.array.cast(), self.capacity * 8) };
    }
}
