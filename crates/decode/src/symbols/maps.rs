//! Which mapping held an address of a process at a time.

use std::collections::HashMap;

use holdup_events::tables::Mapping;
use holdup_events::{ProcessId, Timestamp};

/// The mappings of each process, sorted for look-up.
pub struct Maps<'a> {
    by_process: HashMap<ProcessId, Vec<&'a Mapping>>,
}

impl<'a> Maps<'a> {
    /// Sorts them.
    pub fn new(mappings: &'a [Mapping]) -> Maps<'a> {
        let mut by_process: HashMap<ProcessId, Vec<&Mapping>> = HashMap::new();
        for mapping in mappings {
            by_process.entry(mapping.process).or_default().push(mapping);
        }
        for mappings in by_process.values_mut() {
            mappings.sort_by_key(|mapping| mapping.at);
        }
        Maps { by_process }
    }

    /// The last mapping of the address made before `at`. Otherwise the first one made later, because a stack
    /// is recorded immediately, but mappings are read a little later.
    pub fn find(&self, process: ProcessId, address: u64, at: Timestamp) -> Option<&'a Mapping> {
        let mappings = self.by_process.get(&process)?;
        let holds = |mapping: &&&Mapping| (mapping.start..mapping.end).contains(&address);
        let before = mappings.iter().filter(|mapping| mapping.at <= at).rev().find(holds);
        before.or_else(|| mappings.iter().filter(|mapping| mapping.at > at).find(holds)).copied()
    }

    /// The jitdumps that a process mapped: that is how a runtime announces one.
    pub fn jitdumps(&self, process: ProcessId) -> impl Iterator<Item = &'a Mapping> {
        let mappings = self.by_process.get(&process).map_or(&[][..], Vec::as_slice);
        mappings.iter().copied().filter(|mapping| is_jitdump(&mapping.path))
    }
}

/// Whether a mapped file is a jitdump, by its name: `jit-PID.dump`. A runtime goes on writing it.
pub fn is_jitdump(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or("");
    name.starts_with("jit-") && name.ends_with(".dump")
}
