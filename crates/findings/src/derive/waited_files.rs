//! Which files threads wait for.

use std::collections::BTreeMap;

use holdup_events::tables::Slice;
use holdup_events::{ObjectKind, ThreadId, Trace};

use super::parallel;

/// A file, and what of the waiting is for it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitedFile {
    /// Path of the file, as far as recorded.
    pub path: String,
    /// Share of the total wait time, for files or anything else (0 to 1).
    pub share: f64,
}

/// Files that target threads wait for in the slices that `matches` accepts, largest share first. Only files
/// with known names. Also returns the number of all files, with or without a name.
pub fn waited(trace: &Trace, matches: impl Fn(&Slice) -> bool + Sync) -> (Vec<WaitedFile>, usize) {
    let groups = parallel::thread_groups(trace);
    let parts = parallel::map(groups.len(), |group| {
        let mut sums: BTreeMap<Option<u64>, u64> = BTreeMap::new();
        let targets = groups[group].clone().map(ThreadId).filter(|id| trace.threads[id.index()].target);
        for slice in targets.flat_map(|thread| trace.slices.of_thread(thread)).filter(&matches) {
            let wait = trace.wait(slice.wait);
            let file = (wait.object_kind == ObjectKind::File).then_some(wait.object);
            *sums.entry(file).or_default() += slice.duration().0;
        }
        sums
    });
    let mut sums: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for (file, ns) in parts.into_iter().flatten() {
        *sums.entry(file).or_default() += ns;
    }
    let total = sums.values().sum::<u64>().max(1) as f64;
    let mut files: Vec<(u64, u64)> = sums.into_iter().filter_map(|(file, ns)| Some((file?, ns))).collect();
    files.sort_by_key(|(file, ns)| (std::cmp::Reverse(*ns), *file));
    let named = files.iter().filter_map(|(file, ns)| {
        let path = trace.calls.name_of(ObjectKind::File, *file);
        (!path.is_empty()).then(|| WaitedFile { path: path.to_owned(), share: *ns as f64 / total })
    });
    (named.collect(), files.len())
}
