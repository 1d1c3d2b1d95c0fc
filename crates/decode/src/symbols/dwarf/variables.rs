//! Which part of a variable lies at an address: `[1].count` of an array of structs, by its type.
//!
//! Variables with a fixed address, of files whose debug information is of a moderate size: to find them all of it is walked.

use std::collections::BTreeMap;

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, Operation, Result, Unit, UnitOffset, constants,
};

use super::meter::{Fuel, Metered};
use super::{READS_A_BYTE, READS_AT_LEAST, Sections};

/// Larger debug information is not walked for it.
const BYTES_MAX: usize = 256 << 20;
/// Types that are followed to each other.
const TYPES_MAX: usize = 32;
/// Dimensions of an array.
const DIMENSIONS_MAX: usize = 8;

type Entry<'d> = DebuggingInformationEntry<Metered<'d>>;
type Units<'a, 'd> = (&'a Dwarf<Metered<'d>>, &'a Unit<Metered<'d>>);

/// The parts at `addresses`, ascending; empty at a variable's first byte if it is no compound.
pub fn parts(sections: &Sections<'_>, addresses: &[u64]) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    if sections.bytes > BYTES_MAX || addresses.is_empty() {
        return found;
    }
    let reads = (sections.bytes as u64).saturating_mul(READS_A_BYTE).saturating_add(READS_AT_LEAST);
    let fuel = Fuel::new(reads);
    let dwarf = sections.dwarf(&fuel);
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        // A broken unit says what it can.
        let _ = dwarf.unit(header).and_then(|unit| walk((&dwarf, &unit), addresses, &mut found));
        if fuel.is_spent() || found.len() == addresses.len() {
            break;
        }
    }
    found
}

fn walk(units: Units<'_, '_>, addresses: &[u64], found: &mut BTreeMap<u64, String>) -> Result<()> {
    let (_, unit) = units;
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != constants::DW_TAG_variable {
            continue;
        }
        let Some(start) = fixed_address(units, entry) else { continue };
        let first = addresses.partition_point(|address| *address < start);
        let Some(kind) = addresses.get(first).and_then(|_| type_of(unit, entry)) else { continue };
        let Some(bytes) = size(unit, kind, TYPES_MAX) else { continue };
        for address in addresses.iter().skip(first).take_while(|address| **address - start < bytes) {
            if let Some(part) = part(units, kind, *address - start, TYPES_MAX) {
                found.insert(*address, part);
            }
        }
    }
    Ok(())
}

/// Where it is, if its place is one fixed address.
fn fixed_address((dwarf, unit): Units<'_, '_>, entry: &Entry<'_>) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = entry.attr_value(constants::DW_AT_location)? else {
        return None;
    };
    let mut operations = expression.operations(unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => dwarf.address(unit, index).ok()?,
        _ => return None,
    };
    // Behind an address, other operations make it something else (thread-local memory).
    operations.next().ok()?.is_none().then_some(address)
}

/// Its type, which the declaration may have.
fn type_of(unit: &Unit<Metered<'_>>, entry: &Entry<'_>) -> Option<UnitOffset> {
    if let Some(AttributeValue::UnitRef(kind)) = entry.attr_value(constants::DW_AT_type) {
        return Some(kind);
    }
    let AttributeValue::UnitRef(declared) = entry.attr_value(constants::DW_AT_specification)? else {
        return None;
    };
    match unit.entry(declared).ok()?.attr_value(constants::DW_AT_type)? {
        AttributeValue::UnitRef(kind) => Some(kind),
        _ => None,
    }
}

fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

/// How many bytes a type has.
fn size(unit: &Unit<Metered<'_>>, kind: UnitOffset, types_left: usize) -> Option<u64> {
    let entry = unit.entry(kind).ok()?;
    if let Some(bytes) = number(&entry, constants::DW_AT_byte_size) {
        return Some(bytes);
    }
    let left = types_left.checked_sub(1)?;
    let of = size(unit, type_of(unit, &entry)?, left)?;
    match entry.tag() {
        constants::DW_TAG_array_type => {
            counts(unit, kind).into_iter().try_fold(of, |bytes, count| bytes.checked_mul(count))
        }
        _ => Some(of),
    }
}

/// How many elements each dimension of an array has; those of which it is not known end the list.
fn counts(unit: &Unit<Metered<'_>>, array: UnitOffset) -> Vec<u64> {
    let children = children(unit, array);
    let dimension = |entry: &Entry<'_>| {
        let bound = || number(entry, constants::DW_AT_upper_bound)?.checked_add(1);
        number(entry, constants::DW_AT_count).or_else(bound)
    };
    let dimensions = children.iter().filter(|entry| entry.tag() == constants::DW_TAG_subrange_type);
    dimensions.take(DIMENSIONS_MAX).map_while(dimension).collect()
}

fn children<'d>(unit: &Unit<Metered<'d>>, of: UnitOffset) -> Vec<Entry<'d>> {
    let mut found = Vec::new();
    let Ok(mut tree) = unit.entries_tree(Some(of)) else { return found };
    let Ok(root) = tree.root() else { return found };
    let mut nodes = root.children();
    while let Ok(Some(node)) = nodes.next() {
        found.push(node.entry().clone());
    }
    found
}

/// What lies so far into a type.
fn part(units: Units<'_, '_>, kind: UnitOffset, distance: u64, types_left: usize) -> Option<String> {
    let (_, unit) = units;
    let entry = unit.entry(kind).ok()?;
    let left = types_left.checked_sub(1)?;
    match entry.tag() {
        constants::DW_TAG_array_type => element(units, &entry, (kind, distance), left),
        constants::DW_TAG_structure_type | constants::DW_TAG_class_type | constants::DW_TAG_union_type => {
            member(units, (kind, distance), left)
        }
        constants::DW_TAG_typedef
        | constants::DW_TAG_const_type
        | constants::DW_TAG_volatile_type
        | constants::DW_TAG_atomic_type
        | constants::DW_TAG_restrict_type => part(units, type_of(unit, &entry)?, distance, left),
        _ if distance == 0 => Some(String::new()),
        _ => Some(format!("+0x{distance:x}")),
    }
}

fn element(
    units: Units<'_, '_>,
    array: &Entry<'_>,
    (kind, distance): (UnitOffset, u64),
    left: usize,
) -> Option<String> {
    let (_, unit) = units;
    let of = type_of(unit, array)?;
    let bytes = size(unit, of, left).filter(|bytes| *bytes > 0)?;
    let (mut index, rest) = (distance / bytes, distance % bytes);
    let counts = counts(unit, kind);
    let mut indices = Vec::new();
    // The last dimension varies fastest.
    for count in counts.iter().skip(1).rev().filter(|count| **count > 0) {
        indices.push(index % count);
        index /= count;
    }
    indices.push(index);
    let indices: String = indices.iter().rev().map(|index| format!("[{index}]")).collect();
    Some(indices + &part(units, of, rest, left)?)
}

/// The last member that begins before it.
fn member(units: Units<'_, '_>, (kind, distance): (UnitOffset, u64), left: usize) -> Option<String> {
    let (dwarf, unit) = units;
    let mut best: Option<(u64, Entry<'_>)> = None;
    for child in children(unit, kind) {
        if !matches!(child.tag(), constants::DW_TAG_member | constants::DW_TAG_inheritance) {
            continue;
        }
        let is_static = child.attr_value(constants::DW_AT_external).is_some();
        let at = number(&child, constants::DW_AT_data_member_location).unwrap_or(0);
        if !is_static && at <= distance && best.as_ref().is_none_or(|(start, _)| *start < at) {
            best = Some((at, child));
        }
    }
    let Some((at, found)) = best else { return Some(format!("+0x{distance:x}")) };
    let of = type_of(unit, &found)?;
    let rest = distance - at;
    if size(unit, of, left).is_some_and(|bytes| rest >= bytes) {
        return Some(format!("+0x{distance:x}")); // between two members
    }
    let name = found.attr_value(constants::DW_AT_name).and_then(|name| dwarf.attr_string(unit, name).ok());
    let name = name.map(|name| format!(".{}", name.text())).unwrap_or_default();
    Some(name + &part(units, of, rest, left)?)
}
