//! `jit-PID.dump`: code that a runtime generated, with names and lines, in the binary format of `perf`.

use std::collections::BTreeMap;

use super::place::{Call, Place};
use crate::fields::Fields;

const MAGIC: u32 = 0x4a69_5444;
const RECORD_HEADER_BYTES: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_MOVE: u32 = 1;
const DEBUG_INFO: u32 = 2;
/// No name is longer.
const NAME_BYTES_MAX: usize = 1 << 12;
/// Entries of line tables that are read, in all.
const LINES_READ_MAX: u64 = 1 << 28;

/// One function as it was loaded last.
struct Code<'a> {
    length: u64,
    name: &'a [u8],
    lines: &'a [u8],
    line_count: u64,
    /// Where it was when `lines` was written.
    lines_base: u64,
}

/// The functions that hold `addresses`, by address. `false`: it is no jitdump, or not all of it could be read.
pub fn look_up(dump: &[u8], addresses: &[u64]) -> (BTreeMap<u64, Place>, bool) {
    let mut codes: BTreeMap<u64, Code<'_>> = BTreeMap::new();
    let is_whole = read(dump, &mut codes).is_some();
    let mut work = LINES_READ_MAX;
    let mut place = |address| place(&codes, address, &mut work);
    let places = addresses.iter().filter_map(|address| Some((*address, place(*address)?))).collect();
    (places, is_whole)
}

fn read<'a>(dump: &'a [u8], codes: &mut BTreeMap<u64, Code<'a>>) -> Option<()> {
    let mut header = Fields(dump);
    let (magic, _version, header_bytes) = (header.u32()?, header.u32()?, header.u32()?);
    if magic != MAGIC {
        return None;
    }
    let mut rest = dump.get(header_bytes as usize..)?;
    let mut debug: Option<(u64, u64, &[u8])> = None;
    while !rest.is_empty() {
        let mut fields = Fields(rest);
        let (kind, bytes) = (fields.u32()?, fields.u32()? as usize);
        // A runtime that is writing still, or was killed, leaves its last record incomplete.
        let (record, behind) = rest.split_at_checked(bytes.max(RECORD_HEADER_BYTES))?;
        rest = behind;
        let body = Fields(record.get(RECORD_HEADER_BYTES..)?);
        match kind {
            CODE_LOAD => load(body, debug.take(), codes)?,
            CODE_MOVE => shift(body, codes)?,
            DEBUG_INFO => {
                let mut body = body;
                debug = Some((body.u64()?, body.u64()?, body.0));
            }
            _ => {}
        }
    }
    Some(())
}

fn load<'a>(
    mut body: Fields<'a>,
    debug: Option<(u64, u64, &'a [u8])>,
    codes: &mut BTreeMap<u64, Code<'a>>,
) -> Option<()> {
    body.bytes(8)?;
    let (_vma, address, length, _index) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let name = body.text()?;
    let (line_count, lines) =
        debug.filter(|debug| debug.0 == address).map_or((0, &[][..]), |debug| (debug.1, debug.2));
    put(address, Code { length, name, lines, line_count, lines_base: address }, codes);
    Some(())
}

/// Inserts code, and removes any code that overlaps it.
fn put<'a>(address: u64, code: Code<'a>, codes: &mut BTreeMap<u64, Code<'a>>) {
    let end = address.saturating_add(code.length);
    let before =
        codes.range(..address).next_back().map(|(start, code)| (*start, start.saturating_add(code.length)));
    if let Some((start, _)) = before.filter(|(_, before_end)| *before_end > address && code.length > 0) {
        codes.remove(&start);
    }
    while let Some((start, _)) = codes.range(address..end).next() {
        let start = *start;
        codes.remove(&start);
    }
    if code.length > 0 {
        codes.insert(address, code);
    }
}

fn shift<'a>(mut body: Fields<'a>, codes: &mut BTreeMap<u64, Code<'a>>) -> Option<()> {
    body.bytes(8)?;
    let (_vma, old, new, _length, _index) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    if let Some(code) = codes.remove(&old) {
        put(new, code, codes);
    }
    Some(())
}

fn place(codes: &BTreeMap<u64, Code<'_>>, address: u64, work: &mut u64) -> Option<Place> {
    let (start, code) = codes.range(..=address).next_back()?;
    let distance = address - start;
    if distance >= code.length {
        return None;
    }
    let name = code.name.get(..NAME_BYTES_MAX).unwrap_or(code.name);
    let function = String::from_utf8_lossy(name).into_owned();
    let (file, line) = line_at(code, distance, work).unwrap_or_default();
    Some(Place { calls: vec![Call { function, file, line }], distance })
}

/// Some runtimes count from the start of the ELF file that `perf inject` makes of the code, behind its header.
const ELF_HEADER_BYTES: u64 = 64;

/// The last entry of the line table that is not behind the address. A table with one entry that makes no sense is
/// not believed at all: runtimes have written names that were freed already.
fn line_at(code: &Code<'_>, distance: u64, work: &mut u64) -> Option<(String, u32)> {
    let mut fields = Fields(code.lines);
    let (mut file, mut best, mut skipped) = ("", None, 0);
    for entry in 0..code.line_count {
        *work = work.checked_sub(1)?;
        let (address, line, _discriminator) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let name = fields.text()?;
        // 0xff alone: the same file as before.
        if name != [0xff] {
            file = std::str::from_utf8(name).ok().filter(|name| is_path(name))?;
        }
        let offset = address.checked_sub(code.lines_base)?;
        if entry == 0 && offset == ELF_HEADER_BYTES {
            skipped = ELF_HEADER_BYTES;
        }
        let offset = offset.checked_sub(skipped).filter(|offset| *offset <= code.length)?;
        if offset <= distance {
            best = best.filter(|(_, _, before)| *before > offset).or(Some((file, line, offset)));
        }
    }
    best.map(|(file, line, _)| (file.to_owned(), line))
}

fn is_path(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut record = kind.to_le_bytes().to_vec();
        record.extend((RECORD_HEADER_BYTES as u32 + body.len() as u32).to_le_bytes());
        record.extend(7u64.to_le_bytes());
        record.extend(body);
        record
    }

    fn longs(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn load(address: u64, length: u64, name: &[u8]) -> Vec<u8> {
        record(CODE_LOAD, &[&longs(&[9, 0, address, length, 1])[..], name, &[0, 0x90]].concat())
    }

    fn dump() -> Vec<u8> {
        let mut dump = MAGIC.to_le_bytes().to_vec();
        dump.extend([1u32, 40, 62, 0, 7].iter().flat_map(|word| word.to_le_bytes()));
        dump.extend([0; 16]);
        let line = |address: u64, line: u32, file: &[u8]| {
            [&address.to_le_bytes()[..], &line.to_le_bytes(), &[0; 4], file, &[0]].concat()
        };
        let lines = [longs(&[0x1000, 2]), line(0x1000, 5, b"a.js"), line(0x1010, 6, &[0xff])].concat();
        dump.extend(record(DEBUG_INFO, &lines));
        dump.extend(load(0x1000, 0x20, b"hot"));
        dump.extend(load(0x3000, 0x20, b"cold"));
        dump.extend(record(CODE_MOVE, &longs(&[9, 0, 0x3000, 0x5000, 0x20, 1])));
        dump
    }

    #[test]
    fn names_lines_and_moves() {
        let (places, is_whole) = look_up(&dump(), &[0x1004, 0x1018, 0x1020, 0x3004, 0x5004]);
        let call = |address: u64| {
            places.get(&address).map(|place| (place.calls[0].function.as_str(), place.calls[0].line))
        };
        assert!(is_whole);
        assert_eq!(call(0x1004), Some(("hot", 5)));
        assert_eq!(call(0x1018), Some(("hot", 6)));
        assert_eq!(places[&0x1018].calls[0].file, "a.js");
        assert_eq!((call(0x1020), call(0x3004), call(0x5004)), (None, None, Some(("cold", 0))));
    }

    #[test]
    fn what_is_overwritten_names_nothing_any_more() {
        let mut dump = dump();
        // Over the end of one, over all of another, over the middle of a third.
        dump.extend(load(0x1018, 0x20, b"after"));
        dump.extend(load(0x2000, 0x10, b"small"));
        dump.extend(load(0x1ff0, 0x100, b"large"));
        dump.extend(load(0x5008, 0x8, b"within"));
        // Moved over one, and nothing at all within another.
        dump.extend(load(0x6000, 0x20, b"moved"));
        dump.extend(load(0x7010, 0x20, b"under"));
        dump.extend(record(CODE_MOVE, &longs(&[9, 0, 0x6000, 0x7000, 0x20, 1])));
        dump.extend(load(0x2010, 0, b"empty"));
        let addresses =
            [0x1004, 0x1018, 0x1030, 0x1ff8, 0x2004, 0x2018, 0x5004, 0x5008, 0x5014, 0x7004, 0x7018, 0x7028];
        let (places, is_whole) = look_up(&dump, &addresses);
        let named =
            addresses.map(|address| places.get(&address).map(|place| place.calls[0].function.as_str()));
        let (after, large, moved) = (Some("after"), Some("large"), Some("moved"));
        let expected =
            [None, after, after, large, large, large, None, Some("within"), None, moved, moved, None];
        assert!(is_whole);
        assert_eq!(named, expected);
    }

    #[test]
    fn a_table_with_garbage_is_not_believed() {
        let mut whole = dump();
        let at = whole.windows(4).position(|bytes| bytes == b"a.js").unwrap();
        whole[at] = 0x1c;
        let (places, _) = look_up(&whole, &[0x1018]);
        assert_eq!((places[&0x1018].calls[0].file.as_str(), places[&0x1018].calls[0].line), ("", 0));
    }

    #[test]
    fn every_cut_of_it_gives_what_came_before() {
        let whole = dump();
        for cut in 0..whole.len() {
            let (places, _) = look_up(&whole[..cut], &[0x1004, 0x3004, 0x5004]);
            assert!(places.len() <= 2);
        }
    }
}
