//! Which variables futex words are: the address lies in the memory that a mapped binary has for its variables.
//! Words on a heap or a stack have no name.

use std::collections::{BTreeMap, BTreeSet};
use std::panic;

use holdup_events::tables::{Mapping, Processes, Waits};
use holdup_events::{ObjectKind, ProcessId};

use super::binary;
use super::files::Files;

/// Each word that a process waits on, and the mappings below which it may lie.
type Asked<'a> = BTreeMap<(ProcessId, &'a str), (&'a Mapping, BTreeSet<u64>)>;

/// Names the futex words of all waits, as far as the binaries tell.
pub fn name(waits: &mut Waits, mappings: &[Mapping], processes: &Processes, files: &dyn Files) {
    let mut found: BTreeMap<(ProcessId, u64), (String, String)> = BTreeMap::new();
    for ((process, path), (mapping, addresses)) in asked(waits, mappings) {
        let pid = processes.get(process.index()).map_or(0, |process| process.pid);
        let addresses: Vec<u64> = addresses.into_iter().collect();
        // A library that panics on a broken file takes that file's names with it, nothing else.
        let look_up = panic::AssertUnwindSafe(|| binary::variables(files, (pid, mapping), &addresses));
        for (address, name) in panic::catch_unwind(look_up).unwrap_or_default() {
            found.insert((process, address), (name, path.to_owned()));
        }
    }
    for wait in waits.iter_mut().filter(|wait| wait.object_kind == ObjectKind::Futex) {
        if let Some((symbol, module)) = found.get(&(wait.process, wait.object)) {
            wait.symbol.clone_from(symbol);
            wait.module.clone_from(module);
        }
    }
}

/// A binary's variables lie behind its code: of the files that are mapped below a word, the nearest may hold it.
fn asked<'a>(waits: &Waits, mappings: &'a [Mapping]) -> Asked<'a> {
    let mut by_process: BTreeMap<ProcessId, BTreeMap<u64, &Mapping>> = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.path.starts_with('/')) {
        by_process.entry(mapping.process).or_default().insert(mapping.start, mapping);
    }
    let mut asked = Asked::new();
    for wait in waits.iter().filter(|wait| wait.object_kind == ObjectKind::Futex) {
        let below = by_process.get(&wait.process).and_then(|starts| starts.range(..=wait.object).next_back());
        if let Some((_, mapping)) = below {
            let entry = asked.entry((wait.process, mapping.path.as_str()));
            entry.or_insert_with(|| (mapping, BTreeSet::new())).1.insert(wait.object);
        }
    }
    asked
}
