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
    // Keys are read first: an entry added during the read is read the next time. In an LRU map, entries may
    // also disappear. After a missing key the kernel restarts from the first one, so the number of keys is
    // limited.
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
    /// The key.
    pub key: Vec<u8>,
    /// The value on each CPU, or the only value.
    pub values: Vec<Vec<u8>>,
}

/// Returns and removes all entries. Call it only while counting is off.
pub(super) fn take(object: &Object) -> Result<Vec<CallEntry>, CaptureError> {
    let mut entries = Vec::new();
    for (map, name) in CALL_MAPS.into_iter().enumerate() {
        let from = entries.len();
        read(object, name, &mut |key, values| {
            entries.push(CallEntry { map, key: key.to_vec(), values: values.to_vec() });
        })?;
        let Some(there) = object.maps().find(|map| map.name() == name) else { continue };
        for entry in entries.iter().skip(from) {
            // Deleting an existing entry does not fail.
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
    /// From the next exec of a target on. Syscalls before it belong to holdup's child.
    NextProgram,
}

/// Sets the gate that the programs check.
pub(super) fn open(object: &Object, from: CountFrom) -> Result<(), CaptureError> {
    set_gate(&gate(object)?, if from == CountFrom::Now { 1 } else { 2 })
}

/// Returns the map with the gate that the programs check.
pub(super) fn gate(object: &Object) -> Result<Map<'_>, CaptureError> {
    let map = object.maps().find(|map| map.name() == "call_gate");
    map.ok_or_else(|| CaptureError::Refused { reason: "no map call_gate".to_owned() })
}

/// Sets it: 0 counts nothing.
pub(super) fn set_gate(gate: &Map<'_>, word: u32) -> Result<(), CaptureError> {
    gate.update(&0u32.to_ne_bytes(), &word.to_ne_bytes(), MapFlags::ANY)
        .map_err(|error| CaptureError::Refused { reason: messages::reason(&error) })
}
