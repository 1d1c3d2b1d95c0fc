//! The tree of a unit: which function, and which calls inlined into it, hold an address.

use std::collections::BTreeMap;

use gimli::constants;
use gimli::{Abbreviation, AttributeValue, EntriesRaw, Result, UnitOffset, UnitRef};

use super::meter::{Fuel, Metered};
use super::within;

/// Calls inlined into each other deeper than this are cut.
const INLINED_MAX: usize = 256;

/// One function of a chain of inlined calls.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Entry of the call.
    pub die: UnitOffset,
    /// Where its caller calls it: file number of the unit's line table.
    pub call_file: u64,
    /// And the line, 0 if not known.
    pub call_line: u32,
}

/// By address, outermost first.
pub type Chains = BTreeMap<u64, Vec<Step>>;

/// Walks a unit for the ascending `addresses`. Results from before an error are kept.
pub fn walk(unit: UnitRef<'_, Metered<'_>>, addresses: &[u64], fuel: &Fuel) -> (Chains, Result<()>) {
    let mut walk = Walk { unit, addresses, fuel, chains: Chains::new(), path: Vec::new() };
    let walked = walk.run();
    (walk.chains, walked)
}

struct Walk<'a, 'd> {
    unit: UnitRef<'a, Metered<'d>>,
    addresses: &'a [u64],
    fuel: &'a Fuel,
    chains: Chains,
    /// The functions that enclose the present entry: depth and entry.
    path: Vec<(isize, UnitOffset)>,
}

/// Address range of an entry.
#[derive(Default)]
struct Extent<'d> {
    low: Option<u64>,
    high: Option<u64>,
    length: Option<u64>,
    ranges: Option<AttributeValue<Metered<'d>>>,
    sibling: Option<UnitOffset>,
    call_file: u64,
    call_line: u32,
}

impl<'d> Walk<'_, 'd> {
    fn run(&mut self) -> Result<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        let mut depth_before = 0;
        while !entries.is_empty() {
            let die = entries.next_offset();
            let depth = depth_before + entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while self.path.last().is_some_and(|(above, _)| *above >= depth) {
                self.path.pop();
            }
            let inlined = abbreviation.tag() == constants::DW_TAG_inlined_subroutine;
            if !inlined && abbreviation.tag() != constants::DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let extent = self.extent(&mut entries, abbreviation)?;
            let hit = self.add(die, inlined, &extent)?;
            match extent.sibling {
                // No wanted address is inside.
                Some(next) if !hit && next > entries.next_offset() => {
                    entries = unit.entries_raw(Some(next))?;
                    depth_before = depth;
                }
                _ => self.path.push((depth, die)),
            }
        }
        Ok(())
    }

    fn extent(
        &self,
        entries: &mut EntriesRaw<'_, Metered<'d>>,
        abbreviation: &Abbreviation,
    ) -> Result<Extent<'d>> {
        let mut extent = Extent::default();
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            let value = attribute.value();
            match attribute.name() {
                constants::DW_AT_low_pc => extent.low = self.unit.attr_address(value)?,
                constants::DW_AT_high_pc => match value {
                    AttributeValue::Udata(length) => extent.length = Some(length),
                    value => extent.high = self.unit.attr_address(value)?,
                },
                constants::DW_AT_ranges => extent.ranges = Some(value),
                constants::DW_AT_sibling => {
                    if let AttributeValue::UnitRef(next) = value {
                        extent.sibling = Some(next);
                    }
                }
                constants::DW_AT_call_file => {
                    if let AttributeValue::FileIndex(file) = value {
                        extent.call_file = file;
                    }
                }
                constants::DW_AT_call_line => {
                    extent.call_line = value.udata_value().and_then(|line| line.try_into().ok()).unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(extent)
    }

    /// Adds the entry to the chains of the addresses that it holds. `false`: to none.
    fn add(&mut self, die: UnitOffset, inlined: bool, extent: &Extent<'d>) -> Result<bool> {
        let step = Step { die, call_file: extent.call_file, call_line: extent.call_line };
        if let Some(ranges) = extent.ranges
            && let Some(mut ranges) = self.unit.attr_ranges(ranges)?
        {
            let mut hit = false;
            while let Some(range) = ranges.next()? {
                hit |= self.add_range(step, inlined, (range.begin, range.end))?;
            }
            return Ok(hit);
        }
        let Some(low) = extent.low else { return Ok(false) };
        let high = extent.high.or_else(|| low.checked_add(extent.length?));
        self.add_range(step, inlined, (low, high.unwrap_or(low)))
    }

    fn add_range(&mut self, step: Step, inlined: bool, (begin, end): (u64, u64)) -> Result<bool> {
        let hits = within(self.addresses, begin, end);
        self.fuel.burn(hits.len() as u64)?;
        for address in hits {
            let chain = self.chains.entry(*address).or_default();
            // If functions share their code, only the first counts, with its inlined functions.
            let belongs = match chain.last() {
                None => !inlined,
                Some(last) => {
                    inlined
                        && chain.len() < INLINED_MAX
                        && self.path.last().is_some_and(|(_, above)| *above == last.die)
                }
            };
            if belongs {
                chain.push(step);
            }
        }
        Ok(!hits.is_empty())
    }
}
