//! Calls inlined into a method, for each place where the method can be stopped (`code/debugInfoRec.cpp`).

use super::Layout;
use super::methods::{Packed, readable};
use crate::process_memory::{Memory, int, pointer};
use crate::symbols::Call;

/// Maximum number of calls at one place, and maximum bytes that encode one call.
const CALLS_MAX: usize = 64;
const CALL_BYTES: usize = 15;
/// Larger tables are none (bytes).
const PLACES_BYTES_MAX: u64 = 1 << 24;
/// Index of byte code in front of the first: the method was just entered (`InvocationEntryBci`).
const ENTRY: u32 = 1;

/// Offsets of the inlining data in a method's block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scopes {
    pub(super) place_bytes: u64,
    pub(super) place_pc: u64,
    pub(super) place_calls: u64,
    pub(super) parts: Parts,
}

/// Where a block has its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parts {
    /// All in the block: up to version 22.
    Within { code: u64, places: u64, places_end: u64, calls: u64, metadata: u64 },
    /// Outside the block, in mutable and immutable data (version 25).
    Beside { code: u64, fixed: u64, places: u64, calls: u64, changing: u64, relocation_bytes: u64 },
}

/// Where the parts of one block are.
struct PartAddresses {
    code: u64,
    places: u64,
    places_end: u64,
    calls: u64,
    metadata: u64,
}

impl Parts {
    fn read(&self, memory: &dyn Memory, blob: u64) -> Option<PartAddresses> {
        let follow = |offset: u64| pointer(memory, blob.checked_add(offset)?);
        let distance = |offset: u64| int(memory, blob.checked_add(offset)?).map(u64::from);
        match self {
            Parts::Within { code, places, places_end, calls, metadata } => Some(PartAddresses {
                code: follow(*code)?,
                places: blob.checked_add(distance(*places)?)?,
                places_end: blob.checked_add(distance(*places_end)?)?,
                calls: follow(*calls)?,
                metadata: blob.checked_add(distance(*metadata)?)?,
            }),
            Parts::Beside { code, fixed, places, calls, changing, relocation_bytes } => {
                let fixed = follow(*fixed)?;
                let calls = fixed.checked_add(distance(*calls)?)?;
                Some(PartAddresses {
                    code: blob.checked_add(distance(*code)?)?,
                    places: fixed.checked_add(distance(*places)?)?,
                    places_end: calls,
                    calls,
                    metadata: follow(*changing)?.checked_add(distance(*relocation_bytes)?)?,
                })
            }
        }
    }
}

impl Layout {
    /// The calls at an address of a method's block, leaf first.
    pub(super) fn inlined(
        &self,
        memory: &dyn Memory,
        scopes: &Scopes,
        blob: u64,
        address: u64,
    ) -> Option<Vec<Call>> {
        let part = scopes.parts.read(memory, blob)?;
        let pc = i64::try_from(address.checked_sub(part.code)?).ok()?;
        let mut at = calls_at(memory, scopes, &part, pc)?;
        let mut calls = Vec::new();
        while at != 0 {
            if calls.len() == CALLS_MAX {
                return None;
            }
            let bytes = readable(memory, part.calls.checked_add(u64::from(at))?, CALL_BYTES);
            let mut packed = Packed { bytes: &bytes, excluded: self.excluded };
            at = packed.number()?;
            let method = u64::from(packed.number()?.checked_sub(1)?);
            let index = packed.number()?.saturating_sub(ENTRY);
            let method =
                pointer(memory, part.metadata.checked_add(method * 8)?).filter(|method| *method != 0)?;
            calls.push(self.call(memory, method, Some(index))?);
        }
        (!calls.is_empty()).then_some(calls)
    }
}

/// Offset of the calls of the first place at or after `pc` (`PcDescContainer::find_pc_desc_internal`).
fn calls_at(memory: &dyn Memory, scopes: &Scopes, part: &PartAddresses, pc: i64) -> Option<u32> {
    let bytes = part.places_end.checked_sub(part.places).filter(|bytes| *bytes <= PLACES_BYTES_MAX)?;
    let count = bytes.checked_div(scopes.place_bytes)?;
    let of = |number: u64, offset: u64| {
        int(memory, part.places.checked_add(number.checked_mul(scopes.place_bytes)?)?.checked_add(offset)?)
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        // The first of all is in front of everything.
        match i64::from(of(middle, scopes.place_pc)? as i32) < pc {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    // The last entry is behind all code and has no calls.
    (low + 1 < count).then(|| of(low, scopes.place_calls))?
}
