//! Probes at which spans of a runtime begin and end, in one process each (`bpf/spans.h`).
//!
//! They are links of the kind that takes many probes (Linux 6.6), each for one process without those that it starts, and end with the
//! recorder, however that ends. Perf's uprobes would need more rights than a recorder keeps (CAP_SYS_ADMIN).

use std::collections::BTreeMap;
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, UprobeMultiOpts};

use super::messages;
use crate::error::CaptureError;

/// A place in a binary of a process that spans begin or end at.
#[derive(Clone, Copy, Debug)]
pub struct SpanPlace<'a> {
    /// The process.
    pub tgid: u32,
    /// The place's number, which records have.
    pub place: u32,
    /// The binary, as we can open it.
    pub file: &'a Path,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// That of the semaphore that is to be raised; 0: none.
    pub semaphore: u64,
    /// Passes in a second beyond which it falls silent.
    pub per_second_max: u32,
}

/// The probes that are in place, by process and place.
#[derive(Default)]
pub(super) struct SpanProbes(BTreeMap<(u32, u32), Link>);

const PROGRAM: &str = "on_place";
const GUARDS: &str = "place_guards";
/// `struct place_guard`: where `per_second_max` is, and its size.
const LIMIT_AT: usize = 12;
const GUARD_BYTES: usize = 24;

impl SpanProbes {
    /// Puts a probe.
    pub fn arm(&mut self, object: &Object, at: &SpanPlace<'_>) -> Result<(), CaptureError> {
        let refused = |reason: String| CaptureError::Refused { reason };
        let program = object.progs_mut().find(|program| program.name() == PROGRAM);
        let program = program.ok_or_else(|| refused(format!("no program {PROGRAM}")))?;
        if !program.autoload() {
            return Err(refused("this kernel cannot put many probes at once (Linux 6.6 can)".to_owned()));
        }
        let mut guard = [0u8; GUARD_BYTES];
        guard[LIMIT_AT..LIMIT_AT + 4].copy_from_slice(&at.per_second_max.to_ne_bytes());
        let guards = object.maps().find(|map| map.name() == GUARDS);
        let guards = guards.ok_or_else(|| refused(format!("no map {GUARDS}")))?;
        let put = guards.update(&key(at.tgid, at.place), &guard, MapFlags::ANY);
        put.map_err(|error| refused(messages::reason(&error)))?;
        let tgid = i32::try_from(at.tgid).map_err(|_| refused("no such process".to_owned()))?;
        let one = UprobeMultiOpts {
            offsets: vec![at.offset as usize],
            ref_ctr_offsets: vec![at.semaphore as usize],
            cookies: vec![u64::from(at.place)],
            ..UprobeMultiOpts::default()
        };
        let put = program.attach_uprobe_multi_with_opts(tgid, at.file, "", one);
        let link = put.map_err(|error| refused(messages::reason(&error)))?;
        self.0.insert((at.tgid, at.place), link);
        messages::take();
        Ok(())
    }

    /// Takes a probe away.
    pub fn disarm(&mut self, object: &Object, (tgid, place): (u32, u32)) {
        if self.0.remove(&(tgid, place)).is_some()
            && let Some(guards) = object.maps().find(|map| map.name() == GUARDS)
        {
            // One that stays costs its room.
            let _ = guards.delete(&key(tgid, place));
        }
    }

    /// Takes away all of a process that is gone.
    pub fn forget(&mut self, object: &Object, tgid: u32) {
        let of_it = self.0.range((tgid, 0)..=(tgid, u32::MAX));
        let places: Vec<u32> = of_it.map(|((_, place), _)| *place).collect();
        places.into_iter().for_each(|place| self.disarm(object, (tgid, place)));
    }

    /// Takes all away.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// `struct place_key`.
fn key(tgid: u32, place: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&tgid.to_ne_bytes());
    key[4..].copy_from_slice(&place.to_ne_bytes());
    key
}
