//! Go's own function table (pclntab), which `strip` keeps: names, files and lines.
//!
//! Supports the layouts of Go 1.16, 1.18 and 1.20. Inlined calls are only in DWARF.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::elf::Elf;
use super::place::{Call, Place};

/// First word of the table: since 1.20, since 1.18, since 1.16.
const MAGICS: [u32; 3] = [0xffff_fff1, 0xffff_fff0, 0xffff_fffa];
/// No name is longer.
const NAME_BYTES_MAX: usize = 1 << 12;
/// Steps through tables of values, in all: a table that never ends is given up.
const STEPS_MAX: u32 = 1 << 28;
/// Where `moduledata.text` is (runtime/symtab.go; its section, `.go.module`, is there since Go 1.26).
pub(crate) const MODULE_TEXT: usize = 176;

/// Go's build id, of its note.
pub fn build_id(note: &[u8]) -> Option<&[u8]> {
    let name_bytes = usize::try_from(word(note, 0)?).ok()?;
    let id_bytes = usize::try_from(word(note, 4)?).ok()?;
    let start = 12usize.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
    note.get(start..start.checked_add(id_bytes)?).filter(|id| !id.is_empty())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let long = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(long.try_into().ok()?))
}

/// The table of one program.
pub struct FunctionTable<'a> {
    bytes: &'a [u8],
    count: usize,
    text: u64,
    /// Entries have 4 bytes and are relative to `text`. Before 1.18, they are 8-byte addresses.
    is_relative: bool,
    /// Instructions are a multiple of this long.
    quantum: u64,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    functions: usize,
    steps: Cell<u32>,
}

impl<'a> FunctionTable<'a> {
    /// Finds the table in a Go program. `None`: it is none, or too old.
    pub fn find(elf: &Elf<'a>) -> Option<FunctionTable<'a>> {
        let text = elf
            .function_address("runtime.text")
            .or_else(|| long(elf.raw_section(".go.module")?, MODULE_TEXT))
            .filter(|text| *text != 0)
            .or_else(|| elf.section_address(".text"));
        for name in [".gopclntab", ".data.rel.ro.gopclntab"] {
            if let Some(table) = elf.raw_section(name).and_then(|bytes| FunctionTable::parse(bytes, text)) {
                return Some(table);
            }
        }
        None
    }

    /// Reads the header. `text`: address of `.text`, which newer tables leave out.
    pub fn parse(bytes: &'a [u8], text: Option<u64>) -> Option<FunctionTable<'a>> {
        let magic = word(bytes, 0)?;
        let version = MAGICS.iter().position(|known| *known == magic)?;
        let [0, 0, quantum, 8] = *bytes.get(4..8)? else { return None };
        let is_relative = version < 2;
        let offset = |field: usize| {
            let offset = usize::try_from(long(bytes, 8 + 8 * field)?).ok()?;
            (offset < bytes.len()).then_some(offset)
        };
        let first = if is_relative { 3 } else { 2 };
        let written = if is_relative { long(bytes, 24)? } else { 0 };
        Some(FunctionTable {
            bytes,
            count: offset(0)?,
            text: if written == 0 { text.unwrap_or(0) } else { written },
            is_relative,
            quantum: u64::from(quantum.max(1)),
            names: offset(first)?,
            units: offset(first + 1)?,
            files: offset(first + 2)?,
            values: offset(first + 3)?,
            functions: offset(first + 4)?,
            steps: Cell::new(STEPS_MAX),
        })
    }

    /// The functions that hold `addresses`, by address.
    pub fn look_up(&self, addresses: &[u64]) -> BTreeMap<u64, Place> {
        addresses.iter().filter_map(|address| Some((*address, self.place(*address)?))).collect()
    }

    /// The functions that have a wanted name, each with the addresses of its code.
    pub fn named(&self, wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Range<u64>)> {
        let named = |index: usize| {
            let (start, record) = self.entry(index)?;
            let name = self.name(record)?;
            wanted(&name).then_some((name, start..self.entry(index + 1)?.0))
        };
        (0..self.count).filter_map(named).collect()
    }

    /// Entry address of function `index`, and the offset of its record. The index after the last one gives
    /// the end of all code.
    fn entry(&self, index: usize) -> Option<(u64, u64)> {
        if self.is_relative {
            let at = self.functions.checked_add(index.checked_mul(8)?)?;
            let entry = self.text.checked_add(u64::from(word(self.bytes, at)?))?;
            Some((entry, u64::from(word(self.bytes, at + 4).unwrap_or(0))))
        } else {
            let at = self.functions.checked_add(index.checked_mul(16)?)?;
            Some((long(self.bytes, at)?, long(self.bytes, at + 8).unwrap_or(0)))
        }
    }

    fn place(&self, address: u64) -> Option<Place> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let index = low.checked_sub(1)?;
        let (end, _) = self.entry(index + 1)?;
        if address >= end {
            return None;
        }
        let (start, record) = self.entry(index)?;
        let fields = self.fields(record)?;
        let function = self.name(record)?;
        let distance = address - start;
        // Words behind the name: args, deferreturn, pcsp, pcfile, pcln, npcdata, cuOffset.
        let field = |number: usize| word(self.bytes, fields + 4 * number);
        let line = self.value(field(5)?, distance).and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let file =
            self.value(field(4)?, distance).and_then(|file| self.file(field(7)?, file)).unwrap_or_default();
        Some(Place { calls: vec![Call { function, file, line }], distance })
    }

    /// Offset of a record's fields. The first field is the name.
    fn fields(&self, record: u64) -> Option<usize> {
        let record = self.functions.checked_add(usize::try_from(record).ok()?)?;
        // A relative entry is 4 bytes, else 8.
        record.checked_add(if self.is_relative { 4 } else { 8 })
    }

    fn name(&self, record: u64) -> Option<String> {
        self.text_at(self.names, word(self.bytes, self.fields(record)?)? as usize)
    }

    fn file(&self, unit: u32, number: i64) -> Option<String> {
        let number = usize::try_from(number).ok()?.checked_add(unit as usize)?;
        let at = self.units.checked_add(number.checked_mul(4)?)?;
        self.text_at(self.files, word(self.bytes, at)? as usize)
    }

    fn text_at(&self, table: usize, offset: usize) -> Option<String> {
        let rest = self.bytes.get(table.checked_add(offset)?..)?;
        let rest = rest.get(..NAME_BYTES_MAX).unwrap_or(rest);
        let name = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// The value of the table at `offset`, `distance` bytes into the function. The table has pairs: the
    /// change of the value (zigzag), and the number of instructions for which it then holds.
    fn value(&self, offset: u32, distance: u64) -> Option<i64> {
        if offset == 0 {
            return None;
        }
        let mut rest = self.bytes.get(self.values.checked_add(offset as usize)?..)?;
        let (mut value, mut reached) = (-1i64, 0u64);
        let mut first = true;
        loop {
            self.steps.set(self.steps.get().checked_sub(1)?);
            let change = varint(&mut rest)?;
            if change == 0 && !first {
                return None;
            }
            first = false;
            value = value.checked_add(((change >> 1) as i64) ^ -((change & 1) as i64))?;
            reached = reached.checked_add(u64::from(varint(&mut rest)?) * self.quantum)?;
            if distance < reached {
                return Some(value);
            }
        }
    }
}

fn varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
