//! Synthetic profiles: unsupported ones, fully sampled ones, and oversampled ones.

use super::message::{Function, Label, Line, Location, Mapping, Sample, ValueType};
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

/// A heap profile with a sampling interval of `period` bytes. Each stack has objects, bytes, bytes in use,
/// and object size.
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
        string_table: TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect(),
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
        string_table: TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect(),
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
        string_table: texts.map(|text| text.as_bytes().to_vec()).to_vec(),
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
        string_table: vec![Vec::new(), long.into_bytes()],
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

/// A profile of these columns, period and stacks.
fn profile(columns: &[(&str, &str)], period: (&str, &str, i64), stacks: &[&[i64]]) -> Vec<u8> {
    let mut texts = vec![Vec::new()];
    let mut number = |text: &str| {
        texts.push(text.as_bytes().to_vec());
        texts.len() as i64 - 1
    };
    let mut of = |(kind, unit): (&str, &str)| ValueType { kind: number(kind), unit: number(unit) };
    let profile = Profile {
        sample_type: columns.iter().map(|column| of(*column)).collect(),
        period_type: Some(of((period.0, period.1))).filter(|_| !period.1.is_empty()),
        sample: stacks.iter().map(|value| Sample { value: value.to_vec(), ..Sample::default() }).collect(),
        period: period.2,
        ..Profile::default()
    };
    Profile { string_table: texts, ..profile }.encode_to_vec()
}

/// CPU time of all samples (ns), and how many there are.
fn cpu_time(bytes: &[u8]) -> Result<(u64, u64), ReadError> {
    assert!(Format.recognises(bytes));
    let mut samples = 0;
    let facts = Format.read(bytes, &Wanted::default(), &mut |event| {
        samples += u64::from(matches!(event, Event::Sample(_)));
    })?;
    Ok((samples * facts.sample_period_ns, samples))
}

#[test]
fn cpu_time_is_read_in_each_unit_and_under_each_name() {
    let none = ("", "", 0);
    for (kind, unit, value) in [
        ("cpu", "nanoseconds", 1_000_000_000),
        ("cpu", "microseconds", 1_000_000),
        ("cpu-time", "milliseconds", 1_000),
        ("cpu_time", "seconds", 1),
        ("CPU", "ms", 1_000),
    ] {
        let read = cpu_time(&profile(&[(kind, unit)], none, &[&[value]])).unwrap();
        assert_eq!(read.0, 1_000_000_000, "{kind}/{unit}");
    }
}

#[test]
fn samples_are_read_where_there_is_no_time() {
    let samples = |kind, unit, period| cpu_time(&profile(&[(kind, unit)], period, &[&[10], &[30]]));
    assert_eq!(samples("samples", "count", ("cpu", "nanoseconds", 10_000_000)).unwrap(), (400_000_000, 40));
    assert_eq!(samples("sample", "count", ("cpu", "microseconds", 10_000)).unwrap(), (400_000_000, 40));
    assert_eq!(samples("samples", "count", ("", "", 0)).unwrap().1, 40, "shares alone");
    assert_eq!(
        samples("cycles_sample", "count", ("cycles", "count", 100_003)).unwrap().1,
        40,
        "shares alone"
    );
    let wall = samples("sample", "count", ("wall", "nanoseconds", 10_000_000)).unwrap_err();
    assert!(wall.to_string().starts_with("a profile of sample; "), "{wall}");
    let beside = [("samples", "count"), ("wall", "nanoseconds")];
    assert!(cpu_time(&profile(&beside, ("", "", 0), &[&[1, 2]])).is_err(), "of a wall clock");
}

#[test]
fn no_stack_is_lost_to_a_period_that_does_not_fit() {
    let columns = [("samples", "count"), ("cpu", "nanoseconds")];
    let stacks: Vec<[i64; 2]> = (1..=97).map(|nth| [1, nth * 1_000_003]).collect();
    let stacks: Vec<&[i64]> = stacks.iter().map(|values| &values[..]).collect();
    for period in [1, 10_000_000, 1_000_000_000] {
        let mut told = 0;
        let bytes = profile(&columns, ("cpu", "nanoseconds", period), &stacks);
        let facts = Format.read(&bytes, &Wanted::default(), &mut |event| {
            told += u64::from(matches!(event, Event::Stack(_)))
        });
        assert_eq!(told, 97, "{period}");
        let whole: i64 = stacks.iter().map(|values| values[1]).sum();
        let off = facts.unwrap().span.1.0.abs_diff(whole as u64) as f64 / whole as f64;
        assert!(off < 0.001, "{period}: {off}");
    }
}

#[test]
fn a_heap_may_have_one_of_its_sums_alone() {
    let live = [("inuse_objects", "count"), ("inuse_space", "bytes")];
    let (census, facts) = rows(&profile(&live, ("space", "bytes", 524_288), &[&[2, 64], &[1, 3]]));
    assert_eq!(census.iter().map(|row| row.bytes).sum::<u64>(), 67);
    assert!(census.iter().all(AllocationRow::is_census) && facts.limits.contains("not all allocations"));
    let allocated = [("alloc_objects", "count"), ("alloc_space", "kilobytes")];
    let (weights, facts) = rows(&profile(&allocated, ("space", "bytes", 1), &[&[4, 64]]));
    assert_eq!(weights.iter().map(|row| row.bytes).sum::<u64>(), 64 << 10);
    let unknown = |row: &AllocationRow| row.is_weight() && !row.is_census() && row.freed.is_none();
    assert!(weights.iter().all(unknown) && facts.limits.contains("not memory in use"));
}

#[test]
fn negative_values_of_a_difference_are_left_out() {
    let columns = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_space", "bytes")];
    let stacks: [&[i64]; 2] = [&[-4, -64, -64], &[0, 0, 32]];
    let (rows, facts) = rows(&profile(&columns, ("space", "bytes", 1), &stacks));
    assert_eq!(rows.iter().map(|row| (row.bytes, row.is_census())).collect::<Vec<_>>(), [(32, true)]);
    assert!(facts.limits.contains("are left out (stacks: 1)"), "{}", facts.limits);
}
