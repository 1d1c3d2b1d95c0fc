//! DWARF: functions at an address, including inlined calls, and their lines. Walks only the units that hold a
//! wanted address, and keeps nothing else in memory.

mod calls;
mod lines;
mod meter;
mod names;
mod variables;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::thread;

use gimli::{Dwarf, SectionId, UnitHeader, UnitOffset, UnitRef, UnitType};

use super::elf::Elf;
use super::place::{Call, Place};
use calls::Step;
use lines::Lines;
use meter::{Fuel, Metered};
use names::Names;
pub use variables::parts;

/// Reads that are granted for each byte of debug information: an honest file takes about one.
const READS_A_BYTE: u64 = 8;
const READS_AT_LEAST: u64 = 4 << 20;
/// Bytes of names that are kept for the price of one read.
const TEXT_BYTES_A_READ: u64 = 4;
/// Sections that are shorter are walked by one thread.
const SHARE_FROM_BYTES: usize = 32 << 20;

/// Sections that look-ups read. Location lists and type units are not needed.
const READ: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The sections of one file, uncompressed.
pub struct Sections<'a> {
    by_name: BTreeMap<&'static str, Cow<'a, [u8]>>,
    bytes: usize,
}

impl<'a> Sections<'a> {
    /// Loads what look-ups read. `Err`: a section is broken or too big.
    pub fn load(elf: &Elf<'a>) -> Result<Sections<'a>, String> {
        let mut by_name = BTreeMap::new();
        for id in READ {
            by_name.insert(id.name(), elf.section(id.name())?);
        }
        let bytes = by_name.values().map(|section| section.len()).sum();
        Ok(Sections { by_name, bytes })
    }

    fn dwarf<'b>(&'b self, fuel: &'b Fuel) -> Dwarf<Metered<'b>> {
        let section = |id: SectionId| -> Result<Metered<'b>, Infallible> {
            Ok(Metered::new(self.by_name.get(id.name()).map_or(&[][..], |bytes| bytes), fuel))
        };
        let Ok(dwarf) = Dwarf::load(section);
        dwarf
    }
}

/// DWARF's results for some addresses, and whether reading was aborted.
#[derive(Default)]
pub struct Found {
    /// By address. Addresses without a result are missing.
    pub places: BTreeMap<u64, Place>,
    /// The debug information contradicts itself: not all of it was read.
    pub gave_up: bool,
    /// The debug information is in other files (`-gsplit-dwarf`), which are not read.
    pub is_split: bool,
}

/// Looks up `addresses`, ascending. `shared`: the file that `dwz` moved common parts to.
pub fn look_up(
    sections: &Sections<'_>,
    shared: Option<&Sections<'_>>,
    addresses: &[u64],
    threads: usize,
) -> Found {
    let threads = if sections.bytes < SHARE_FROM_BYTES { 1 } else { threads.clamp(1, 64) };
    let share = addresses.len().div_ceil(threads).max(1);
    let parts: Vec<Found> = thread::scope(|scope| {
        let running: Vec<_> = addresses
            .chunks(share)
            .map(|part| scope.spawn(move || look_up_part(sections, shared, part)))
            .collect();
        let gave_up = || Found { gave_up: true, ..Found::default() };
        running.into_iter().map(|part| part.join().unwrap_or_else(|_| gave_up())).collect()
    });
    parts.into_iter().fold(Found::default(), |mut all, part| {
        all.places.extend(part.places);
        all.gave_up |= part.gave_up;
        all.is_split |= part.is_split;
        all
    })
}

fn look_up_part(sections: &Sections<'_>, shared: Option<&Sections<'_>>, addresses: &[u64]) -> Found {
    let bytes = sections.bytes + shared.map_or(0, |shared| shared.bytes);
    let fuel = Fuel::new((bytes as u64).saturating_mul(READS_A_BYTE).saturating_add(READS_AT_LEAST));
    let mut dwarf = sections.dwarf(&fuel);
    if let Some(shared) = shared {
        dwarf.set_sup(shared.dwarf(&fuel));
    }
    let mut found = Found::default();
    let names = Names::new(&dwarf);
    for header in names.headers() {
        if unit(&dwarf, header, addresses, &fuel, &names, &mut found).is_err() {
            found.gave_up = true;
        }
    }
    found.gave_up |= !names.all_headers() || fuel.is_spent();
    found
}

/// Adds the results of one unit. A damaged unit gives partial results.
fn unit<'d>(
    dwarf: &Dwarf<Metered<'d>>,
    header: &UnitHeader<Metered<'d>>,
    addresses: &[u64],
    fuel: &Fuel,
    names: &Names<'_, 'd>,
    found: &mut Found,
) -> gimli::Result<()> {
    if !matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_)) {
        return Ok(());
    }
    let unit = Rc::new(dwarf.unit(*header)?);
    let mut inside = Vec::new();
    let mut ranges = dwarf.unit_ranges(&unit)?;
    while let Some(range) = ranges.next()? {
        let hits = within(addresses, range.begin, range.end);
        fuel.burn(hits.len() as u64)?;
        inside.extend(hits.iter().filter(|address| !found.places.contains_key(address)));
    }
    if inside.is_empty() {
        return Ok(());
    }
    inside.sort_unstable();
    inside.dedup();
    found.is_split |= unit.dwo_id.is_some();
    let (chains, walked) = calls::walk(UnitRef::new(dwarf, &unit), &inside, fuel);
    let call_files = chains.values().flatten().map(|step| step.call_file);
    let lines = Lines::of_unit(UnitRef::new(dwarf, &unit), &inside, call_files);
    let mut told = BTreeMap::new();
    for address in inside {
        let chain = chains.get(&address).map_or(&[][..], Vec::as_slice);
        let calls = calls(chain, address, &lines, &mut |die| {
            told.entry(die.0).or_insert_with(|| names.resolve(&unit, die)).clone()
        });
        let text: usize = calls.iter().map(|call| call.function.len() + call.file.len()).sum();
        fuel.burn(text as u64 / TEXT_BYTES_A_READ)?;
        if !calls.is_empty() {
            found.places.insert(address, Place { calls, distance: 0 });
        }
    }
    walked
}

/// The calls at an address, leaf first. `chain` is outermost first.
fn calls(
    chain: &[Step],
    address: u64,
    lines: &Lines,
    name: &mut dyn FnMut(UnitOffset) -> String,
) -> Vec<Call> {
    let (mut file, mut line) = lines.at(address);
    let mut calls = Vec::with_capacity(chain.len().max(1));
    for step in chain.iter().rev() {
        calls.push(Call { function: name(step.die), file, line });
        (file, line) = (lines.file(step.call_file), step.call_line);
    }
    if chain.is_empty() && line != 0 {
        calls.push(Call { function: String::new(), file, line });
    }
    calls
}

/// The part of the ascending `addresses` in `begin..end`. Code dropped by the linker begins at 0.
fn within(addresses: &[u64], begin: u64, end: u64) -> &[u64] {
    if begin == 0 {
        return &[];
    }
    let first = addresses.partition_point(|address| *address < begin);
    let behind = addresses.partition_point(|address| *address < end);
    addresses.get(first..behind).unwrap_or_default()
}

#[cfg(test)]
mod tests;
