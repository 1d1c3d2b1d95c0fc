//! Profiles that are made here: what is not read, and what is drawn wholly or too often.

use super::message::{Function, Label, Line, Location, Mapping, ValueType};
use super::*;
use crate::imported::TEXT_MAX;
use crate::states::Builder;
use crate::symbols::NoFiles;
use holdup_events::tables::{AllocationRow, Rows};

const TEXTS: &[&str] =
    &["", "alloc_objects", "count", "alloc_space", "bytes", "inuse_space", "delay", "nanoseconds"];

fn number(text: &str) -> i64 {
    TEXTS.iter().position(|of| *of == text).unwrap() as i64
}

/// A heap of which one byte in `period` was drawn; each stack has objects, bytes, those in use, and the size of one.
fn heap(period: i64, stacks: &[([i64; 3], i64)]) -> Vec<u8> {
    let types = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes")];
    let label = |size: i64| Label { key: number("bytes"), number: size };
    let sample = |(value, size): &([i64; 3], i64)| Sample {
        value: value.to_vec(),
        label: vec![label(*size)],
        ..Sample::default()
    };
    let profile = Profile {
        sample_type: types.map(|(kind, unit)| ValueType { kind: number(kind), unit: number(unit) }).to_vec(),
        sample: stacks.iter().map(sample).collect(),
        string_table: TEXTS.iter().map(|text| (*text).to_owned()).collect(),
        period,
        ..Profile::default()
    };
    profile.encode_to_vec()
}

fn rows(bytes: &[u8]) -> (Vec<AllocationRow>, Facts) {
    let (mut builder, mut rows) =
        (Builder::new((Timestamp(0), Timestamp(u64::MAX)), true, &NoFiles), Rows::default());
    let facts = Format.read(bytes, &Wanted::default(), &mut |event| builder.push(event, &mut rows)).unwrap();
    (builder.finish(&mut rows).allocations, facts)
}

#[test]
fn a_profile_of_something_else_is_named() {
    let profile = Profile {
        sample_type: vec![ValueType { kind: number("delay"), unit: number("nanoseconds") }],
        string_table: TEXTS.iter().map(|text| (*text).to_owned()).collect(),
        ..Profile::default()
    };
    let bytes = profile.encode_to_vec();
    assert!(Format.recognises(&bytes));
    let error = Format.read(&bytes, &Wanted::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with("a profile of delay; "), "{error}");
}

#[test]
fn endless_cpu_time_is_an_error() {
    let texts = ["", "cpu", "nanoseconds"];
    let profile = Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }],
        sample: vec![Sample { value: vec![i64::MAX], ..Sample::default() }],
        string_table: texts.map(str::to_owned).to_vec(),
        period: 1,
        ..Profile::default()
    };
    let read = Format.read(&profile.encode_to_vec(), &Wanted::default(), &mut |_| {});
    assert!(matches!(read, Err(ReadError::Broken { .. })));
}

#[test]
fn where_all_was_drawn_all_is_exact() {
    let (rows, _) = rows(&heap(1, &[([50, 400, 80], 8)]));
    assert_eq!((rows.len(), rows.iter().filter(|row| row.freed.is_none()).count()), (50, 10));
    assert!(rows.iter().all(|row| row.probability() == 1.0 && row.bytes == 8));
}

#[test]
fn what_was_drawn_too_often_is_thinned_and_keeps_its_sums() {
    let (rows, facts) = rows(&heap(1, &[([3 << 20, 24 << 20, 0], 8), ([1 << 20, 96 << 20, 0], 96)]));
    assert_eq!(rows.len() as u64, ROWS_MAX);
    assert!(facts.sources[0].missing.contains("4194304 are thinned down to 1048576"), "{:?}", facts.sources);
    for (size, truth) in [(8, (24 << 20) as f64), (96, (96 << 20) as f64)] {
        let of_size = rows.iter().filter(|row| row.bytes == size);
        let sum: f64 = of_size.map(|row| row.bytes as f64 / row.probability()).sum();
        assert!((sum / truth - 1.0).abs() < 0.03, "{sum} for {truth}");
    }
}

#[test]
fn lines_that_name_one_long_text_do_not_have_it_each() {
    let long = "x".repeat(1 << 20);
    let function = Function { id: 1, name: 1, filename: 1 };
    let mapping = Mapping { id: 1, filename: 1, ..Mapping::default() };
    let line = (0..300).map(|line| Line { function_id: 1, line }).collect();
    let profile = Profile {
        string_table: vec![String::new(), long],
        function: vec![function],
        mapping: vec![mapping],
        location: vec![Location { id: 1, mapping_id: 1, line, ..Location::default() }],
        ..Profile::default()
    };
    let places = Places::new(&profile);
    assert_eq!(places.text(1).len(), TEXT_MAX);
    assert_eq!(places.stack(&[1]).addresses.len(), 300);
    let (_, frames) = places.names.resolve(&crate::states::Catalogue::default());
    let texts = frames.iter().map(|frame| frame.function.len() + frame.file.len() + frame.module.len());
    assert_eq!(texts.max(), Some(3 * TEXT_MAX));
    assert!(frames.iter().take(299).all(|frame| frame.inlined), "into the last one");
}
