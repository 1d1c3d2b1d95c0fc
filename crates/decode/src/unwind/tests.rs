//! Tables of real binaries, and of broken ones.

use super::*;
use proptest::prelude::*;

/// The C library of this machine: on every Linux with Rust.
fn libc() -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/libc")).expect("the tests are linked with libc");
    std::fs::read(&line[line.find('/').unwrap()..]).unwrap()
}

fn own_binary() -> Vec<u8> {
    std::fs::read("/proc/self/exe").unwrap()
}

#[test]
fn the_c_library_has_a_table_in_order_with_few_bad_rows() {
    let table = Table::compile(&*libc()).unwrap();
    assert!(table.rows.len() > 5_000, "{}", table.rows.len());
    assert_eq!(table.broken, 0);
    assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc));
    assert!(table.rows.windows(2).all(|pair| !pair[0].same_rule(&pair[1])));
    let count = |kind| table.rows.iter().filter(|row| row.kind == kind).count();
    assert!(count(Kind::Bad) < table.rows.len() / 100, "{}", count(Kind::Bad));
    assert!(count(Kind::Stop) >= 1, "clone has no caller");
    assert!(count(Kind::Signal) >= 1, "the restorer of signals");
}

#[test]
fn a_function_of_ours_is_covered_where_it_is_mapped() {
    let table = Table::compile(&*own_binary()).unwrap();
    let here = own_binary as fn() -> Vec<u8> as usize as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, end, offset) = maps
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            (hex(start), hex(end), hex(words[2]))
        })
        .find(|(start, end, _)| (*start..*end).contains(&here))
        .unwrap();
    let base = table.base_when_mapped(start, end - start, offset).unwrap();
    let pc = u32::try_from(here - base).unwrap();
    let row = table.rows[table.rows.partition_point(|row| row.pc <= pc) - 1];
    // A neighbour that ends as a function begins shares its row.
    assert_eq!(
        (row.kind, row.cfa),
        (Kind::StackPointer, 1),
        "at its first instruction nothing is pushed yet"
    );
}

#[test]
fn a_file_without_section_headers_has_the_same_table() {
    let whole = libc();
    let mut stripped = whole.clone();
    stripped[0x28..0x30].fill(0); // e_shoff
    stripped[0x3c..0x40].fill(0); // e_shnum, e_shstrndx
    let (whole, stripped) = (Table::compile(&*whole).unwrap(), Table::compile(&*stripped).unwrap());
    assert_eq!(whole.rows.len(), stripped.rows.len());
    assert_eq!(whole.rows, stripped.rows);
}

#[test]
fn needed_libraries_are_read() {
    assert!(needed(&*own_binary()).iter().any(|name| name.starts_with("libc.so")));
    assert!(needed(&b"#!/bin/sh"[..]).is_empty());
}

#[test]
fn a_file_that_is_not_elf_is_an_error() {
    assert_eq!(Table::compile(&b"#!/bin/sh\n"[..]), Err(TableError::NotElf));
    assert_eq!(Table::compile(&b""[..]), Err(TableError::NotElf));
    assert_eq!(Table::compile(&b"\x7fELF\x02\x01\x01"[..]), Err(TableError::NotElf));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any change or truncation gives a sorted table or an error, without a panic or excessive memory.
    #[test]
    fn broken_files_give_tables_in_order_or_errors(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
        whether_cut in any::<bool>(),
    ) {
        let mut bytes = libc();
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        if whether_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(table) = Table::compile(&*bytes) {
            prop_assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc));
        }
    }

    /// Damage where it hurts most: in the frame descriptions themselves.
    #[test]
    fn broken_frame_descriptions_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
    ) {
        let mut bytes = libc();
        let (from, to) = {
            use object::{Object, ObjectSection};
            let file = object::File::parse(&bytes[..]).unwrap();
            let (offset, size) = file.section_by_name(".eh_frame").unwrap().file_range().unwrap();
            (offset as usize, (offset + size) as usize)
        };
        for (at, value) in &changes {
            bytes[from + at.index(to - from)] = *value;
        }
        let table = Table::compile(&*bytes).unwrap();
        prop_assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc));
    }
}
