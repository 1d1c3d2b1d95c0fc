//! Tables by which the BPF programs unwind user stacks (`bpf/stacks.h`, `bpf/unwind.h`). One array has the
//! rows of every binary. Each process has its executable mappings.

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
    /// Subtracted from an address to get a row's pc.
    pub base: u64,
    /// As [`UnwindTables::add_rows`] gave it.
    pub first_row: u32,
    /// Number of rows. 0 for frame pointers only. [`ROWS_PENDING`] while the table is being made.
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

// The mapping belongs to this value alone. The kernel only reads rows that `processes` references.
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

    /// Adds a binary's rows. Returns the number of the first one. `None` if the array is full.
    pub fn add_rows(&mut self, rows: impl ExactSizeIterator<Item = u64>) -> Option<u32> {
        let (first, count) = (self.used, rows.len());
        if count > self.capacity - self.used {
            return None;
        }
        for (index, row) in rows.take(count).enumerate() {
            // SAFETY: below the capacity, as just checked. These rows are not read before a process
            // references them.
            unsafe { self.array.add(first + index).write_volatile(row) };
        }
        self.used += count;
        u32::try_from(first).ok()
    }

    /// Sets all executable mappings of a process, in any order, replacing earlier ones. If there are more
    /// than [`MAPPINGS_MAX`], mappings with rows are kept first. `lent`: the row for the frame on which code
    /// without rows may run, 0 for none. Returns `false` if some mappings did not fit.
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
        // 0 means none. If a row was found under another generation, the unwinder treats it as another
        // process's.
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

    /// Drops a process that has exited or replaced its memory.
    pub fn forget(&mut self, tgid: u32) {
        // The map may lack the process, or a BPF program may have removed it already.
        let _ = self.processes.delete(&tgid.to_ne_bytes());
    }
}

impl Drop for UnwindTables {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length.
        unsafe { libc::munmap(self.array.cast(), self.capacity * 8) };
    }
}
