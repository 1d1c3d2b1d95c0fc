//! What goes with forks of a large process.

use std::sync::Arc;

use holdup_events::tables::ThreadState;
use holdup_events::{Trace, WaitReason};

use super::Removal;
use crate::charge::Charge;
use crate::derive::forks::Copying;
use crate::derive::replay::{Change, Speed};

/// Nobody waits for the address space, and no tables are copied nor taken down; waits for children are as much shorter as
/// these are.
pub(super) fn copies(trace: &Trace, charge: &Charge) -> Removal {
    let copying = Copying::new(trace);
    let waits = Charge::of_rows(trace, |id, take| {
        for (row, slice) in trace.slices.rows(id).zip(trace.slices.of(id)) {
            let is_wait = slice.state == ThreadState::Blocked;
            if charge.has(row) && is_wait && trace.wait(slice.wait).reason == WaitReason::MmapLock {
                take(row);
            }
        }
    });
    let copied = Speed::new(trace, 0.0, |sample| copying.holds(sample));
    Removal::exact(vec![Change::WithoutSlices(waits), Change::Ran(Arc::new(copied))])
}
