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
    let asked = asked(addresses, mappings);
    let pid = |process: ProcessId| processes.get(process.index()).map_or(0, |process| process.pid);
    let Some(kept) = kept else { return by_binary(&asked, files, &pid) };
    let mut found = BTreeMap::new();
    for ((process, path), (mapping, addresses)) in asked {
        let addresses: Vec<u64> = addresses.into_iter().collect();
        let pid = pid(process);
        let named =
            kept.variables((pid, path), &addresses, |addresses| look_up(files, (pid, mapping), addresses));
        found.extend(named.into_iter().map(|(address, name)| ((process, address), (name, path.to_owned()))));
    }
    found
}

/// A library that panics on a broken file takes that file's names with it, nothing else.
fn look_up(files: &dyn Files, (pid, mapping): (u32, &Mapping), addresses: &[u64]) -> BTreeMap<u64, Variable> {
    let look_up = panic::AssertUnwindSafe(|| binary::variables(files, (pid, mapping), addresses));
    panic::catch_unwind(look_up).unwrap_or_default()
}

/// A part of a file that processes have mapped, at any address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part<'a> {
    path: &'a str,
    build_id: &'a [u8],
    file_offset: u64,
    length: u64,
    /// The process, for a file without a build ID: the path may be another file elsewhere.
    process: Option<ProcessId>,
}

impl<'a> Part<'a> {
    fn new(process: ProcessId, mapping: &'a Mapping) -> Part<'a> {
        Part {
            path: &mapping.path,
            build_id: &mapping.build_id,
            file_offset: mapping.file_offset,
            length: mapping.end.saturating_sub(mapping.start),
            process: mapping.build_id.is_empty().then_some(process),
        }
    }
}

/// Reads each file once, with the offsets that all its processes ask for. A program may have run thousands of
/// times.
fn by_binary(
    asked: &Asked<'_>,
    files: &dyn Files,
    pid: &dyn Fn(ProcessId) -> u32,
) -> BTreeMap<(ProcessId, u64), (Variable, String)> {
    let mut parts: BTreeMap<Part<'_>, (ProcessId, &Mapping, BTreeSet<u64>)> = BTreeMap::new();
    for ((process, _), (mapping, addresses)) in asked {
        let part = parts.entry(Part::new(*process, mapping));
        let (_, _, offsets) = part.or_insert_with(|| (*process, mapping, BTreeSet::new()));
        offsets.extend(addresses.iter().map(|address| address - mapping.start));
    }
    let named = parts.into_iter().map(|(part, (process, mapping, offsets))| {
        let addresses: Vec<u64> = offsets.into_iter().map(|offset| mapping.start + offset).collect();
        let found = look_up(files, (pid(process), mapping), &addresses).into_iter();
        (part, found.map(|(address, name)| (address - mapping.start, name)).collect())
    });
    let named: BTreeMap<Part<'_>, BTreeMap<u64, Variable>> = named.collect();
    let mut found = BTreeMap::new();
    for ((process, path), (mapping, addresses)) in asked {
        let Some(of_part) = named.get(&Part::new(*process, mapping)) else { continue };
        let of_process = addresses.iter().filter_map(|address| {
            let name = of_part.get(&(address - mapping.start))?.clone();
            Some(((*process, *address), (name, (*path).to_owned())))
        });
        found.extend(of_process);
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
