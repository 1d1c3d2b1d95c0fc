//! Order of the major page faults of threads. A thread that faults on each page in sequence has no effective
//! readahead.

use std::collections::HashMap;

use holdup_events::tables::FaultRow;
use holdup_events::{ThreadId, Trace};

use super::split::share_error;

/// Bytes of a page (x86-64; where pages are larger, a fault brings more of these).
const PAGE_BYTES: u64 = 4096;
/// Maximum step between sequential faults (pages). Larger steps are jumps. The default readahead is 32 pages,
/// and the maximum some hundreds (`read_ahead_kb`).
const STEP_MAX_PAGES: u64 = 1024;
/// Minimum number of steps. Fewer may be chance.
const STEPS_MIN: u64 = 50;

/// The way of a program's faults for which a disk was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultOrder {
    /// Part of the steps that went on upwards, and not far (0 to 1).
    pub upwards: f64,
    /// Half the width of its 95 % interval.
    pub upwards_error: f64,
    /// Mean length of such a step in pages per fault. Faults are counted by CPU, so threads that share a CPU
    /// lower it.
    pub pages_each: f64,
}

/// Steps from each sampled fault to the next one of its thread. `None` if there are too few samples.
pub fn derive(trace: &Trace) -> Option<FaultOrder> {
    let mut last: HashMap<ThreadId, u64> = HashMap::new();
    let (mut steps, mut upwards, mut pages, mut faults) = (0, 0, 0.0, 0);
    let drawn = |row: &&FaultRow| row.major && trace.threads[row.thread.index()].target;
    for row in trace.faults.iter().filter(drawn) {
        let Some(before) = last.insert(row.thread, row.address) else { continue };
        let stands_for = row.stands_for.max(1);
        steps += 1;
        let far = stands_for.saturating_mul(STEP_MAX_PAGES * PAGE_BYTES);
        if row.address > before && row.address - before <= far {
            upwards += 1;
            pages += (row.address - before) as f64 / PAGE_BYTES as f64;
            faults += stands_for;
        }
    }
    (steps >= STEPS_MIN).then(|| FaultOrder {
        upwards: upwards as f64 / steps as f64,
        upwards_error: share_error(upwards, steps),
        pages_each: pages / f64::max(faults as f64, 1.0),
    })
}
