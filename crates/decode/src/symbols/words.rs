//! Resolves addresses of futex words and of shared memory to variables in the data of mapped binaries.
//! Addresses on a heap or stack have no name.

use std::collections::{BTreeMap, BTreeSet};
use std::panic;

use holdup_events::tables::{Mapping, Processes, Waits};
use holdup_events::{ObjectKind, ProcessId, Wait};

use super::binary::{self, Variable};
use super::files::Files;
use super::kept::KeptNames;

/// Each word that a process waits on, and the mappings below which it may lie.
type Asked<'a> = BTreeMap<(ProcessId, &'a str), (&'a Mapping, BTreeSet<u64>)>;

/// Resolves the futex words of all waits, as far as the binaries allow.
pub fn name(
    waits: &mut Waits,
    memory: (&[Mapping], &Processes),
    files: &dyn Files,
    kept: Option<&KeptNames>,
) {
    let is_futex = |wait: &&mut Wait| wait.object_kind == ObjectKind::Futex;
    let words = waits.iter().filter(|wait| wait.object_kind == ObjectKind::Futex);
    let words = words.map(|wait| (wait.process, wait.object)).collect();
    let found = variables(&words, memory, files, kept);
    for wait in waits.iter_mut().filter(is_futex) {
        if let Some((variable, module)) = found.get(&(wait.process, wait.object)) {
            wait.symbol = format!("{}{}", variable.name, variable.part);
            wait.module.clone_from(module);
        }
    }
}

/// The variables at addresses of processes, and their modules. Addresses outside of any variable are left
/// out.
pub fn variables(
    addresses: &BTreeSet<(ProcessId, u64)>,
    (mappings, processes): (&[Mapping], &Processes),
    files: &dyn Files,
    kept: Option<&KeptNames>,
) -> BTreeMap<(ProcessId, u64), (Variable, String)> {
    let mut found = BTreeMap::new();
    for ((process, path), (mapping, addresses)) in asked(addresses, mappings) {
        let pid = processes.get(process.index()).map_or(0, |process| process.pid);
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let look_up = |addresses: &[u64]| {
            // A library that panics on a broken file takes that file's names with it, nothing else.
            let look_up = panic::AssertUnwindSafe(|| binary::variables(files, (pid, mapping), addresses));
            panic::catch_unwind(look_up).unwrap_or_default()
        };
        let named = match kept {
            None => look_up(&addresses),
            Some(kept) => kept.variables((pid, path), &addresses, look_up),
        };
        found.extend(named.into_iter().map(|(address, name)| ((process, address), (name, path.to_owned()))));
    }
    found
}

/// A binary's variables lie behind its code: of the files that are mapped below a word, the nearest may hold it.
fn asked<'a>(addresses: &BTreeSet<(ProcessId, u64)>, mappings: &'a [Mapping]) -> Asked<'a> {
    let mut by_process: BTreeMap<ProcessId, BTreeMap<u64, &Mapping>> = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.path.starts_with('/')) {
        by_process.entry(mapping.process).or_default().insert(mapping.start, mapping);
    }
    let mut asked = Asked::new();
    for (process, address) in addresses {
        let below = by_process.get(process).and_then(|starts| starts.range(..=*address).next_back());
        if let Some((_, mapping)) = below {
            let entry = asked.entry((*process, mapping.path.as_str()));
            entry.or_insert_with(|| (mapping, BTreeSet::new())).1.insert(*address);
        }
    }
    asked
}
