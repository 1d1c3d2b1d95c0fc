//! Matches frees with sampled allocations: a free ends the last allocation at its address in its process.

use std::collections::HashMap;

use holdup_events::event::{Allocated, Freed};
use holdup_events::tables::AllocationRow;
use holdup_events::{StackId, ThreadId, Timestamp};

/// Sampled allocations so far.
#[derive(Default)]
pub(super) struct Allocations {
    rows: Vec<AllocationRow>,
    /// Rows of those that live, by process and address.
    live: HashMap<(u32, u64), usize>,
}

impl Allocations {
    pub(super) fn allocated(&mut self, told: &Allocated, thread: ThreadId, stack: StackId) {
        // An allocation still open at this address was freed, and its free event was lost.
        self.end((told.tgid, told.address), told.at, None);
        self.live.insert((told.tgid, told.address), self.rows.len());
        self.rows.push(AllocationRow {
            thread,
            at: told.at,
            address: told.address,
            bytes: told.bytes,
            every_bytes: told.every_bytes,
            own_bytes: told.own_bytes,
            stack,
            ..AllocationRow::default()
        });
    }

    pub(super) fn freed(&mut self, told: &Freed, thread: Option<ThreadId>) {
        self.end((told.tgid, told.address), told.at, thread);
    }

    fn end(&mut self, place: (u32, u64), at: Timestamp, by: Option<ThreadId>) {
        let row = self.live.remove(&place).and_then(|row| self.rows.get_mut(row));
        if let Some(row) = row {
            (row.freed, row.freed_by) = (Some(at.max(row.at)), by);
        }
    }

    /// The process has a new program, and none of its memory.
    pub(super) fn forget(&mut self, tgid: u32) {
        self.live.retain(|(owner, _), _| *owner != tgid);
    }

    pub(super) fn finish(self) -> Vec<AllocationRow> {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated(at: u64, tgid: u32, address: u64) -> Allocated {
        Allocated {
            at: Timestamp(at),
            tid: tgid,
            tgid,
            address,
            bytes: 8,
            every_bytes: 16,
            own_bytes: 0,
            stack: 0,
        }
    }

    fn freed(at: u64, tgid: u32, address: u64) -> Freed {
        Freed { at: Timestamp(at), tid: tgid, tgid, address }
    }

    fn ends(allocations: Allocations) -> Vec<(Option<u64>, Option<u32>)> {
        let end = |row: &AllocationRow| (row.freed.map(|at| at.0), row.freed_by.map(|thread| thread.0));
        allocations.finish().iter().map(end).collect()
    }

    #[test]
    fn a_free_ends_what_lies_there_in_its_own_process() {
        let mut all = Allocations::default();
        let thread = ThreadId(1);
        all.allocated(&allocated(1, 7, 0x10), thread, StackId::NONE);
        all.allocated(&allocated(2, 8, 0x10), thread, StackId::NONE);
        all.freed(&freed(3, 9, 0x10), Some(thread));
        all.freed(&freed(4, 7, 0x20), Some(thread));
        all.freed(&freed(5, 7, 0x10), Some(ThreadId(2)));
        all.freed(&freed(6, 7, 0x10), Some(thread));
        assert_eq!(ends(all), [(Some(5), Some(2)), (None, None)]);
    }

    #[test]
    fn a_reused_address_was_freed_by_an_unknown_thread() {
        let mut all = Allocations::default();
        all.allocated(&allocated(1, 7, 0x10), ThreadId(1), StackId::NONE);
        all.allocated(&allocated(4, 7, 0x10), ThreadId(1), StackId::NONE);
        assert_eq!(ends(all), [(Some(4), None), (None, None)]);
    }

    #[test]
    fn a_new_program_has_none_of_the_old_memory() {
        let mut all = Allocations::default();
        all.allocated(&allocated(1, 7, 0x10), ThreadId(1), StackId::NONE);
        all.forget(7);
        all.freed(&freed(2, 7, 0x10), Some(ThreadId(1)));
        assert_eq!(ends(all), [(None, None)]);
    }
}
