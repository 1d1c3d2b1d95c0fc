//! Reading what the kernel programs counted of syscalls (`bpf/calls.h`). Nothing is deleted while programs count, so no
//! call is missed between a look and a deletion.

use libbpf_rs::{Map, MapCore, MapFlags, Object};

use super::messages;
use crate::error::CaptureError;

/// The maps, in the order in which they are read.
pub const CALL_MAPS: [&str; 6] =
    ["calls", "calls_plain", "call_errors", "call_stacks", "call_stacks_plain", "object_names"];

/// Takes the key of an entry, and its value on each CPU, or its only one.
pub type EntrySink<'a> = dyn FnMut(&[u8], &[Vec<u8>]) + 'a;

/// Passes on every entry of one of [`CALL_MAPS`]: its key, and its value on each CPU, or its only one.
pub(super) fn read(object: &Object, name: &str, sink: &mut EntrySink<'_>) -> Result<(), CaptureError> {
    let refused = |error| CaptureError::Refused { reason: messages::reason(&error) };
    let Some(map) = object.maps().find(|map| map.name() == name) else { return Ok(()) };
    // First the keys: an entry that comes meanwhile is read the next time. Where entries go meanwhile, too (LRU), the kernel begins anew
    // after one that is gone: not for ever.
    let keys: Vec<Vec<u8>> = map.keys().take(map.max_entries() as usize).collect();
    for key in keys {
        if map.map_type().is_percpu() {
            let values = map.lookup_percpu(&key, MapFlags::ANY).map_err(refused)?;
            sink(&key, &values.unwrap_or_default());
        } else if let Some(value) = map.lookup(&key, MapFlags::ANY).map_err(refused)? {
            sink(&key, &[value]);
        }
    }
    Ok(())
}

/// An entry of one of the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallEntry {
    /// Which of [`CALL_MAPS`].
    pub map: usize,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value on each CPU, or its only one.
    pub values: Vec<Vec<u8>>,
}

/// Every entry; they are gone then. Only while nothing is counted.
pub(super) fn take(object: &Object) -> Result<Vec<CallEntry>, CaptureError> {
    let mut entries = Vec::new();
    for (map, name) in CALL_MAPS.into_iter().enumerate() {
        let from = entries.len();
        read(object, name, &mut |key, values| {
            entries.push(CallEntry { map, key: key.to_vec(), values: values.to_vec() });
        })?;
        let Some(there) = object.maps().find(|map| map.name() == name) else { continue };
        for entry in entries.iter().skip(from) {
            // Deleting what is there is not refused.
            let _ = there.delete(&entry.key);
        }
    }
    Ok(entries)
}

/// When calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountFrom {
    /// From now on.
    Now,
    /// From the next program on that a target executes: what it does before is not the user's.
    NextProgram,
}

/// Sets the word that the programs look at.
pub(super) fn open(object: &Object, from: CountFrom) -> Result<(), CaptureError> {
    set_gate(&gate(object)?, if from == CountFrom::Now { 1 } else { 2 })
}

/// Where the word is that the programs look at.
pub(super) fn gate(object: &Object) -> Result<Map<'_>, CaptureError> {
    let map = object.maps().find(|map| map.name() == "call_gate");
    map.ok_or_else(|| CaptureError::Refused { reason: "no map call_gate".to_owned() })
}

/// Sets it: 0 counts nothing.
pub(super) fn set_gate(gate: &Map<'_>, word: u32) -> Result<(), CaptureError> {
    gate.update(&0u32.to_ne_bytes(), &word.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| CaptureError::Refused { reason: messages::reason(&error) })
}
