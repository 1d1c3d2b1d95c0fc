//! What control groups allowed the processes of the program.

use std::collections::BTreeMap;

use holdup_events::tables::CountKind;
use holdup_events::{ThreadId, Timestamp, Trace};

/// Lowest limit of one kind over the program's processes, in the kind's unit. Uses the last recorded value of
/// each process. `None` if there is no limit, or if limits were not recorded.
pub fn tightest(trace: &Trace, what: CountKind) -> Option<u64> {
    let mut last: BTreeMap<ThreadId, (Timestamp, u64)> = BTreeMap::new();
    for row in trace.kernel_counts.iter().filter(|row| row.what == what) {
        if let Some(thread) = row.thread.filter(|thread| trace.threads[thread.index()].target) {
            let seen = last.entry(thread).or_default();
            *seen = (*seen).max((row.end, row.count));
        }
    }
    last.into_values().map(|(_, count)| count).min()
}
