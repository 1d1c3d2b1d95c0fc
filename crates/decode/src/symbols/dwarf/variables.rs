//! Which part of a variable lies at an address: `[1].count` of an array of structs, by its type.
//!
//! Variables with a fixed address, of files whose debug information is of a moderate size: to find them all of it is walked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, Operation, Result, Unit, UnitHeader,
    UnitOffset, constants,
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
type SharedUnit<'d> = Rc<Unit<Metered<'d>>>;

/// A type, in whichever unit describes it: Go's are in another unit than the variable, as are those of link-time optimisation.
#[derive(Clone)]
struct Kind<'d> {
    unit: SharedUnit<'d>,
    at: UnitOffset,
}

impl<'d> Kind<'d> {
    fn entry(&self) -> Option<Entry<'d>> {
        self.unit.entry(self.at).ok()
    }
}

/// The units, those that others refer to once they were read.
struct Units<'a, 'd> {
    dwarf: &'a Dwarf<Metered<'d>>,
    /// In the order of the section.
    headers: Vec<UnitHeader<Metered<'d>>>,
    referred: RefCell<BTreeMap<usize, Option<SharedUnit<'d>>>>,
}

impl<'d> Units<'_, 'd> {
    /// The entry that an attribute of an entry of `unit` refers to.
    fn referred(&self, unit: &SharedUnit<'d>, value: &AttributeValue<Metered<'d>>) -> Option<Kind<'d>> {
        match *value {
            AttributeValue::UnitRef(at) => Some(Kind { unit: Rc::clone(unit), at }),
            AttributeValue::DebugInfoRef(offset) => self.elsewhere(offset),
            _ => None,
        }
    }

    fn elsewhere(&self, offset: DebugInfoOffset) -> Option<Kind<'d>> {
        let begins = |header: &UnitHeader<Metered<'d>>| {
            header.debug_info_offset().is_some_and(|begin| begin.0 <= offset.0)
        };
        let index = self.headers.partition_point(begins).checked_sub(1)?;
        let header = self.headers.get(index)?;
        let at = offset.to_unit_offset(header)?;
        let read = || self.dwarf.unit(*header).ok().map(Rc::new);
        let unit = self.referred.borrow_mut().entry(index).or_insert_with(read).clone()?;
        Some(Kind { unit, at })
    }
}

/// The parts at `addresses`, ascending. Empty at the first byte of a variable that is not compound.
pub fn parts(sections: &Sections<'_>, addresses: &[u64]) -> BTreeMap<u64, String> {
    let mut found = BTreeMap::new();
    if sections.bytes > BYTES_MAX || addresses.is_empty() {
        return found;
    }
    let reads = (sections.bytes as u64).saturating_mul(READS_A_BYTE).saturating_add(READS_AT_LEAST);
    let fuel = Fuel::new(reads);
    let dwarf = sections.dwarf(&fuel);
    let (mut headers, mut iter) = (Vec::new(), dwarf.units());
    while let Ok(Some(header)) = iter.next() {
        headers.push(header);
    }
    let units = Units { dwarf: &dwarf, headers, referred: RefCell::default() };
    for header in &units.headers {
        // A damaged unit gives partial results.
        let _ = dwarf.unit(*header).and_then(|unit| walk(&units, &Rc::new(unit), addresses, &mut found));
        if fuel.is_spent() || found.len() == addresses.len() {
            break;
        }
    }
    found
}

fn walk<'d>(
    units: &Units<'_, 'd>,
    unit: &SharedUnit<'d>,
    addresses: &[u64],
    found: &mut BTreeMap<u64, String>,
) -> Result<()> {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag() != constants::DW_TAG_variable {
            continue;
        }
        let Some(start) = fixed_address(units.dwarf, unit, entry) else { continue };
        let first = addresses.partition_point(|address| *address < start);
        let Some(kind) = addresses.get(first).and_then(|_| type_of(units, unit, entry)) else { continue };
        let Some(bytes) = size(units, &kind, TYPES_MAX) else { continue };
        for address in addresses.iter().skip(first).take_while(|address| **address - start < bytes) {
            if let Some(part) = part(units, &kind, *address - start, TYPES_MAX) {
                found.insert(*address, part);
            }
        }
    }
    Ok(())
}

/// Where it is, if its place is one fixed address.
fn fixed_address<'d>(dwarf: &Dwarf<Metered<'d>>, unit: &Unit<Metered<'d>>, entry: &Entry<'d>) -> Option<u64> {
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

/// Type of an entry, which may be in its declaration.
fn type_of<'d>(units: &Units<'_, 'd>, unit: &SharedUnit<'d>, entry: &Entry<'d>) -> Option<Kind<'d>> {
    if let Some(kind) = entry.attr_value(constants::DW_AT_type) {
        return units.referred(unit, &kind);
    }
    let declared = units.referred(unit, &entry.attr_value(constants::DW_AT_specification)?)?;
    let kind = declared.entry()?.attr_value(constants::DW_AT_type)?;
    units.referred(&declared.unit, &kind)
}

fn number(entry: &Entry<'_>, name: gimli::DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

/// How many bytes a type has.
fn size<'d>(units: &Units<'_, 'd>, kind: &Kind<'d>, types_left: usize) -> Option<u64> {
    let entry = kind.entry()?;
    if let Some(bytes) = number(&entry, constants::DW_AT_byte_size) {
        return Some(bytes);
    }
    let left = types_left.checked_sub(1)?;
    let of = size(units, &type_of(units, &kind.unit, &entry)?, left)?;
    match entry.tag() {
        constants::DW_TAG_array_type => {
            counts(kind).into_iter().try_fold(of, |bytes, count| bytes.checked_mul(count))
        }
        _ => Some(of),
    }
}

/// Number of elements in each dimension of an array. The list ends at the first unknown one.
fn counts(array: &Kind<'_>) -> Vec<u64> {
    let children = children(array);
    let dimension = |entry: &Entry<'_>| {
        let bound = || number(entry, constants::DW_AT_upper_bound)?.checked_add(1);
        number(entry, constants::DW_AT_count).or_else(bound)
    };
    let dimensions = children.iter().filter(|entry| entry.tag() == constants::DW_TAG_subrange_type);
    dimensions.take(DIMENSIONS_MAX).map_while(dimension).collect()
}

fn children<'d>(of: &Kind<'d>) -> Vec<Entry<'d>> {
    let mut found = Vec::new();
    let Ok(mut tree) = of.unit.entries_tree(Some(of.at)) else { return found };
    let Ok(root) = tree.root() else { return found };
    let mut nodes = root.children();
    while let Ok(Some(node)) = nodes.next() {
        found.push(node.entry().clone());
    }
    found
}

/// The part of a type at a distance from its start.
fn part<'d>(units: &Units<'_, 'd>, kind: &Kind<'d>, distance: u64, types_left: usize) -> Option<String> {
    let entry = kind.entry()?;
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
        | constants::DW_TAG_restrict_type => {
            part(units, &type_of(units, &kind.unit, &entry)?, distance, left)
        }
        _ if distance == 0 => Some(String::new()),
        _ => Some(format!("+0x{distance:x}")),
    }
}

fn element<'d>(
    units: &Units<'_, 'd>,
    array: &Entry<'d>,
    (kind, distance): (&Kind<'d>, u64),
    left: usize,
) -> Option<String> {
    let of = type_of(units, &kind.unit, array)?;
    let bytes = size(units, &of, left).filter(|bytes| *bytes > 0)?;
    let (mut index, rest) = (distance / bytes, distance % bytes);
    let counts = counts(kind);
    let mut indices = Vec::new();
    // The last dimension varies fastest.
    for count in counts.iter().skip(1).rev().filter(|count| **count > 0) {
        indices.push(index % count);
        index /= count;
    }
    indices.push(index);
    let indices: String = indices.iter().rev().map(|index| format!("[{index}]")).collect();
    Some(indices + &part(units, &of, rest, left)?)
}

/// The last member that begins before it.
fn member<'d>(units: &Units<'_, 'd>, (kind, distance): (&Kind<'d>, u64), left: usize) -> Option<String> {
    let mut best: Option<(u64, Entry<'_>)> = None;
    // Go's atomics begin with two empty marker fields for its compiler.
    let is_empty = |child: &Entry<'d>| {
        type_of(units, &kind.unit, child).and_then(|of| size(units, &of, left)) == Some(0)
    };
    for child in children(kind) {
        if !matches!(child.tag(), constants::DW_TAG_member | constants::DW_TAG_inheritance) {
            continue;
        }
        let is_static = child.attr_value(constants::DW_AT_external).is_some();
        let at = number(&child, constants::DW_AT_data_member_location).unwrap_or(0);
        if !is_static
            && !is_empty(&child)
            && at <= distance
            && best.as_ref().is_none_or(|(start, _)| *start < at)
        {
            best = Some((at, child));
        }
    }
    let Some((at, found)) = best else { return Some(format!("+0x{distance:x}")) };
    let of = type_of(units, &kind.unit, &found)?;
    let rest = distance - at;
    if size(units, &of, left).is_some_and(|bytes| rest >= bytes) {
        return Some(format!("+0x{distance:x}")); // between two members
    }
    let name = found
        .attr_value(constants::DW_AT_name)
        .and_then(|name| units.dwarf.attr_string(&kind.unit, name).ok());
    let name = name.map(|name| format!(".{}", name.text())).unwrap_or_default();
    Some(name + &part(units, &of, rest, left)?)
}
