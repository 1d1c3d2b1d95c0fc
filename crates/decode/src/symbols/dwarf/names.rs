//! Names of entries, followed to where the name is: the declaration, the abstract function, another unit.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use gimli::constants;
use gimli::{AttributeValue, DebugInfoOffset, Dwarf, Result, Unit, UnitHeader, UnitOffset};

use super::meter::Metered;
use crate::symbols::demangle::demangle;

/// An entry refers to another, and that to a third, but not longer than this.
const REFERENCES_MAX: usize = 16;
/// Maximum number of units.
const UNITS_MAX: usize = 1 << 20;
/// Parsed units of other names that are kept at a time.
const UNITS_KEPT: usize = 8;

/// Where names come from: the file itself, and the one that it shares parts with.
pub struct Names<'a, 'd> {
    files: [Option<File<'a, 'd>>; 2],
}

struct File<'a, 'd> {
    dwarf: &'a Dwarf<Metered<'d>>,
    headers: Vec<UnitHeader<Metered<'d>>>,
    is_whole: bool,
    units: RefCell<BTreeMap<usize, Rc<Unit<Metered<'d>>>>>,
}

impl<'a, 'd> File<'a, 'd> {
    fn new(dwarf: &'a Dwarf<Metered<'d>>) -> File<'a, 'd> {
        let mut units = dwarf.units();
        let mut headers = Vec::new();
        let is_whole = loop {
            match units.next() {
                Ok(Some(_)) if headers.len() >= UNITS_MAX => break false,
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        File { dwarf, headers, is_whole, units: RefCell::default() }
    }

    /// The unit that holds an offset of the section, and the place in it.
    fn unit(&self, offset: DebugInfoOffset) -> Option<(Rc<Unit<Metered<'d>>>, UnitOffset)> {
        let begins = |header: &UnitHeader<Metered<'d>>| header.debug_info_offset().map_or(0, |start| start.0);
        let behind = self.headers.partition_point(|header| begins(header) <= offset.0);
        let header = self.headers.get(behind.checked_sub(1)?)?;
        let place = offset.to_unit_offset(header)?;
        let key = begins(header);
        if let Some(unit) = self.units.borrow().get(&key) {
            return Some((Rc::clone(unit), place));
        }
        let unit = Rc::new(self.dwarf.unit(*header).ok()?);
        let mut units = self.units.borrow_mut();
        if units.len() >= UNITS_KEPT {
            units.clear();
        }
        units.insert(key, Rc::clone(&unit));
        Some((unit, place))
    }
}

/// Name attributes of an entry.
struct Said<'d> {
    linkage: Option<String>,
    plain: Option<String>,
    refers_to: Option<AttributeValue<Metered<'d>>>,
}

impl<'a, 'd> Names<'a, 'd> {
    /// Reads the headers of all units.
    pub fn new(dwarf: &'a Dwarf<Metered<'d>>) -> Names<'a, 'd> {
        Names { files: [Some(File::new(dwarf)), dwarf.sup().map(File::new)] }
    }

    /// Headers of the file's own units.
    pub fn headers(&self) -> impl Iterator<Item = &UnitHeader<Metered<'d>>> {
        self.files.iter().take(1).flatten().flat_map(|file| &file.headers)
    }

    /// All of them could be read.
    pub fn all_headers(&self) -> bool {
        self.files.iter().flatten().all(|file| file.is_whole)
    }

    /// The demangled name of an entry, empty if there is none.
    pub fn resolve(&self, unit: &Rc<Unit<Metered<'d>>>, die: UnitOffset) -> String {
        let (mut file, mut unit, mut die) = (0, Rc::clone(unit), die);
        let mut plain = None;
        for _ in 0..REFERENCES_MAX {
            let Some(at) = self.files.get(file).and_then(Option::as_ref) else { break };
            let Ok(said) = read_entry(at.dwarf, &unit, die) else { break };
            if let Some(name) = said.linkage {
                return demangle(&name);
            }
            plain = plain.or(said.plain);
            let next = match said.refers_to {
                Some(AttributeValue::UnitRef(next)) => {
                    die = next;
                    continue;
                }
                Some(AttributeValue::DebugInfoRef(offset)) => at.unit(offset),
                Some(AttributeValue::DebugInfoRefSup(offset)) => {
                    file = 1;
                    self.files.get(1).and_then(Option::as_ref).and_then(|shared| shared.unit(offset))
                }
                _ => None,
            };
            let Some((next_unit, next_die)) = next else { break };
            (unit, die) = (next_unit, next_die);
        }
        plain.map(|name| demangle(&name)).unwrap_or_default()
    }
}

fn read_entry<'d>(dwarf: &Dwarf<Metered<'d>>, unit: &Unit<Metered<'d>>, die: UnitOffset) -> Result<Said<'d>> {
    let mut said = Said { linkage: None, plain: None, refers_to: None };
    let mut entries = unit.entries_raw(Some(die))?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(said) };
    let text = |value| dwarf.attr_string(unit, value).ok().map(|text| text.text());
    for spec in abbreviation.attributes() {
        let attribute = entries.read_attribute(*spec)?;
        match attribute.name() {
            constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                said.linkage = text(attribute.value())
            }
            constants::DW_AT_name => said.plain = text(attribute.value()),
            constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                said.refers_to = Some(attribute.value())
            }
            _ => {}
        }
    }
    Ok(said)
}
