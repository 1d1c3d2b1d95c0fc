//! Broken binaries, tables and maps: a reason, never a panic, and an end.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_events::tables::Mapping;
use proptest::prelude::*;

use super::elf::Elf;
use super::real_tests::{Scratch, c_program, catalogue_at};
use super::*;

struct One(Arc<Vec<u8>>);

impl Files for One {
    fn binary(&self, _pid: u32, _mapping: &Mapping, take: &mut dyn FnMut(Bytes) -> bool) {
        take(Arc::clone(&self.0) as Bytes);
    }
}

fn cases(usual: u32) -> u32 {
    if std::env::var_os("HOLDUP_QUICK").is_some() { usual / 10 } else { usual }
}

/// Numbers without meaning, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Runs every query. None may panic, not even where a panic would be caught.
fn survives(bytes: Vec<u8>, offsets: &[u64], seed: u64) {
    let files = One(Arc::new(bytes));
    let mut symbols = Symbols::new(&files, "");
    symbols.resolve(&catalogue_at(offsets));
    let failed = symbols.notes().iter().any(|note| note.contains("reading it failed"));
    assert!(!failed, "seed {seed}: {:?}", symbols.notes());
}

/// Ranges of the file that are read.
fn telling_ranges(bytes: &[u8]) -> Vec<(usize, usize)> {
    let elf = Elf::parse(bytes).unwrap();
    let names = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_line",
        ".debug_rnglists",
        ".debug_str",
        ".symtab",
        ".strtab",
    ];
    let mut ranges = vec![(0, 64), (bytes.len().saturating_sub(2600), bytes.len())];
    for section in names.iter().filter_map(|name| elf.raw_section(name)) {
        let start = section.as_ptr() as usize - bytes.as_ptr() as usize;
        ranges.push((start, start + section.len()));
    }
    ranges
}

#[test]
fn mutated_programs_are_survived() {
    let scratch = Scratch::new("hostile");
    let Some(app) = c_program(&scratch) else { return };
    let whole = std::fs::read(app).unwrap();
    let ranges = telling_ranges(&whole);
    let text = 0x1000..0x1300u64;
    let offsets: Vec<u64> = text.step_by(3).collect();
    survives(whole.clone(), &offsets, 0);
    for seed in 1..=u64::from(cases(250)) {
        let mut dice = Dice(seed);
        let mut bytes = whole.clone();
        let (start, end) = ranges[dice.below(ranges.len())];
        for _ in 0..=dice.below(6) {
            let at = start + dice.below(end - start);
            let value = [0, 1, 0x7f, 0x80, 0xff, dice.below(256) as u8][dice.below(6)];
            bytes[at] = value;
        }
        survives(bytes, &offsets, seed);
    }
    for cut in (0..whole.len()).step_by((whole.len() / cases(100) as usize).max(1)) {
        survives(whole[..cut].to_vec(), &offsets, cut as u64);
    }
}

/// A table of Go 1.20 with two functions, `main.a` at 0 and `main.b` at 0x20, in line 7 and 8 of `a.go`.
fn go_table() -> Vec<u8> {
    let (names, units, files, values) =
        (b"main.a\0main.b\0", [0u8; 4], b"a.go\0", b"\x00\x10\x00\x00\x02\x20\x00");
    // Fields of a function: entry, name, args, deferreturn, pcsp, pcfile, pcln, npcdata, unit.
    let record = |entry: u32, name: u32, line: u32| {
        [entry, name, 0, 0, 0, 4, line, 0, 0].map(u32::to_le_bytes).concat()
    };
    let lines = b"\x00\x10\x20\x00\x12\x20\x00";
    let header_bytes = 8 + 8 * 8;
    let mut body = Vec::new();
    let mut place = |bytes: &[u8]| {
        let at = header_bytes + body.len();
        body.extend_from_slice(bytes);
        at as u64
    };
    let at = [place(names), place(&units), place(files), place(&[values.as_slice(), lines].concat())];
    let functions = [[0u32, 20], [0x20, 56]].map(|pair| pair.map(u32::to_le_bytes).concat()).concat();
    let records = [record(0, 0, 10), record(0x20, 7, 11)].concat();
    let table = place(&[functions, 0x40u32.to_le_bytes().to_vec(), records].concat());
    let mut bytes = 0xffff_fff1u32.to_le_bytes().to_vec();
    bytes.extend([0, 0, 1, 8]);
    bytes.extend(
        [2, 1, 0x40_0000, at[0], at[1], at[2], at[3], table].iter().flat_map(|word: &u64| word.to_le_bytes()),
    );
    bytes.extend(body);
    bytes
}

fn go_names(bytes: &[u8]) -> BTreeMap<u64, String> {
    let Some(table) = go::FunctionTable::parse(bytes, None) else { return BTreeMap::new() };
    let addresses: Vec<u64> = (0x3f_fff0..0x40_0060).collect();
    let places = table.look_up(&addresses);
    places.into_iter().map(|(address, place)| (address, place.calls[0].function.clone())).collect()
}

#[test]
fn go_tables_broken_at_every_byte_are_survived() {
    let whole = go_table();
    let names = go_names(&whole);
    assert_eq!(names.len(), 0x40);
    assert_eq!((names[&0x40_0005].as_str(), names[&0x40_0020].as_str()), ("main.a", "main.b"));
    for at in 0..whole.len() {
        go_names(&whole[..at]);
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            go_names(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(1000)))]

    #[test]
    fn any_bytes_as_a_map_a_dump_a_cache_or_a_name(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let addresses: Vec<u64> = (0..64).map(|step| step * 0x1111).collect();
        perf_map::look_up(&bytes, &addresses);
        jitdump::look_up(&bytes, &addresses);
        let mut dump = 0x4a69_5444u32.to_le_bytes().to_vec();
        dump.extend([1, 0, 0, 0, 12, 0, 0, 0]);
        dump.extend(&bytes);
        jitdump::look_up(&dump, &addresses);
        cache::decode(&bytes);
        demangle::demangle(&format!("_ZN{}", String::from_utf8_lossy(&bytes)));
        demangle::demangle(&format!("_RN{}", String::from_utf8_lossy(&bytes)));
        demangle::demangle(&format!("caml{}", String::from_utf8_lossy(&bytes)));
    }

    #[test]
    fn lines_like_those_of_a_map(start in any::<u64>(), size in any::<u64>(), address in any::<u64>()) {
        let text = format!("{start:x} {size:x} f\n");
        let (found, broken) = perf_map::look_up(text.as_bytes(), &[address]);
        let inside = address >= start && address - start < size;
        // An end beyond the last address is cut.
        prop_assert_eq!(broken, 0);
        prop_assert!(found.is_empty() || inside);
    }
}
