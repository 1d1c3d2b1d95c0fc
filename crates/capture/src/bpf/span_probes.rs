//! Probes at which spans of a runtime begin and end, in one process each (`bpf/spans.h`).
//!
//! Each is for one process without those that it starts, and ends with the recorder, however that ends ([`super::uprobes`]).

use std::collections::BTreeMap;
use std::path::Path;

use holdup_events::condition::{COMPARISONS_MAX, Comparison, Condition, Relation};
use libbpf_rs::{MapCore, MapFlags, Object};

use super::messages;
use super::uprobes::{Attached, Place, Point, Uprobes};
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
    /// Offset of the semaphore to raise. 0 for none.
    pub semaphore: u64,
    /// Passes in a second beyond which it falls silent.
    pub per_second_max: u32,
    /// Only hits with such arguments are recorded.
    pub condition: Option<&'a Condition>,
}

/// The probes that are in place, by process and place.
#[derive(Default)]
pub(super) struct SpanProbes(BTreeMap<(u32, u32), Attached>);

const PROGRAM: &str = "on_place";
const GUARDS: &str = "place_guards";
const CONDITIONS: &str = "place_conditions";
/// `struct place_guard`: where `per_second_max` and `has_condition` are, and its size.
const LIMIT_AT: usize = 12;
const CONDITIONAL_AT: usize = 20;
const GUARD_BYTES: usize = 24;
/// `struct wire_condition`: where the comparisons are, and their size.
const COMPARISONS_AT: usize = 8;
const COMPARISON_BYTES: usize = 16;
const CONDITION_BYTES: usize = COMPARISONS_AT + COMPARISONS_MAX * COMPARISON_BYTES;

impl SpanProbes {
    /// Puts a probe.
    pub fn arm(
        &mut self,
        object: &Object,
        uprobes: &Uprobes,
        at: &SpanPlace<'_>,
    ) -> Result<(), CaptureError> {
        let mut guard = [0u8; GUARD_BYTES];
        guard[LIMIT_AT..LIMIT_AT + 4].copy_from_slice(&at.per_second_max.to_ne_bytes());
        if let Some(condition) = at.condition {
            guard[CONDITIONAL_AT] = 1;
            put_into(object, CONDITIONS, (&at.place.to_ne_bytes(), &bytes_of(condition)))?;
        }
        put_into(object, GUARDS, (&key(at.tgid, at.place), &guard))?;
        let point = Point { offset: at.offset, semaphore: at.semaphore, cookie: u64::from(at.place) };
        let points = &[point];
        let place = Place { program: PROGRAM, tgid: at.tgid, number: at.place, file: at.file, points };
        let attached = uprobes.attach(object, &place)?;
        self.0.insert((at.tgid, at.place), attached);
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

    /// Removes all probes of a process that has exited.
    pub fn forget(&mut self, object: &Object, tgid: u32) {
        let of_it = self.0.range((tgid, 0)..=(tgid, u32::MAX));
        let places: Vec<u32> = of_it.map(|((_, place), _)| *place).collect();
        places.into_iter().for_each(|place| self.disarm(object, (tgid, place)));
    }

    /// Detaches all probes. Nothing is recorded from then on.
    pub fn clear(&mut self, object: &Object) {
        let places: Vec<(u32, u32)> = self.0.keys().copied().collect();
        places.into_iter().for_each(|place| self.disarm(object, place));
    }
}

pub(super) fn put_into(
    object: &Object,
    name: &str,
    (key, value): (&[u8], &[u8]),
) -> Result<(), CaptureError> {
    let refused = |reason: String| CaptureError::Refused { reason };
    let map =
        object.maps().find(|map| map.name() == name).ok_or_else(|| refused(format!("no map {name}")))?;
    map.update(key, value, MapFlags::ANY).map_err(|error| refused(messages::reason(&error)))
}

/// `struct wire_condition`.
fn bytes_of(condition: &Condition) -> [u8; CONDITION_BYTES] {
    let all = condition.alternatives().iter().flat_map(|together| {
        let last = together.len().saturating_sub(1);
        together.iter().enumerate().map(move |(at, comparison)| (comparison, at == last))
    });
    let mut bytes = [0; CONDITION_BYTES];
    let (head, places) = bytes.split_at_mut(COMPARISONS_AT);
    let mut count = 0u32;
    for ((comparison, is_last), place) in all.zip(places.chunks_exact_mut(COMPARISON_BYTES)) {
        let Comparison { argument, width, relation, value } = *comparison;
        place[..8].copy_from_slice(&value.to_ne_bytes());
        let rest = [argument, width.bytes, width.is_signed.into(), code(relation), is_last.into()];
        place[8..8 + rest.len()].copy_from_slice(&rest);
        count += 1;
    }
    head[..4].copy_from_slice(&count.to_ne_bytes());
    bytes
}

/// `enum wire_relation`.
fn code(relation: Relation) -> u8 {
    match relation {
        Relation::Equal => 0,
        Relation::NotEqual => 1,
        Relation::Less => 2,
        Relation::LessOrEqual => 3,
        Relation::More => 4,
        Relation::MoreOrEqual => 5,
        Relation::AnyBit => 6,
        Relation::NoBit => 7,
    }
}

/// `struct place_key`.
fn key(tgid: u32, place: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&tgid.to_ne_bytes());
    key[4..].copy_from_slice(&place.to_ne_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_laid_out_as_the_kernel_program_reads_it() {
        let condition = Condition::parse("arg0 > 4096 && arg5:s32 < -1 || arg2:u8 & 4").unwrap();
        let bytes = bytes_of(&condition);
        assert_eq!(bytes.len(), 136);
        let comparison = |at: usize| {
            let bytes = &bytes[8 + 16 * at..][..16];
            (u64::from_ne_bytes(bytes[..8].try_into().unwrap()), bytes[8..].to_vec())
        };
        assert_eq!(bytes[..8], [3u32.to_ne_bytes(), [0; 4]].concat());
        assert_eq!(comparison(0), (4096, vec![0, 8, 1, 4, 0, 0, 0, 0]));
        assert_eq!(comparison(1), (-1i64 as u64, vec![5, 4, 1, 2, 1, 0, 0, 0]));
        assert_eq!(comparison(2), (4, vec![2, 1, 0, 6, 1, 0, 0, 0]));
        assert_eq!(comparison(3), (0, vec![0; 8]));
    }
}
