//! Profiles of pprof's format: units of time, columns that are left out, periods, and differences of two profiles.

use super::*;

/// Bytes in use of each leaf, and bytes that were allocated within the profile.
fn heap_by_leaf(import: &Imported) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in &import.trace.allocations {
        let bytes = if row.is_weight() { row.bytes as f64 } else { row.bytes as f64 / row.probability() };
        let (live, allocated) = sums.entry(import.leaf(row.stack)).or_default();
        *live += if row.freed.is_none() { bytes } else { 0.0 };
        *allocated += if row.is_census() { 0.0 } else { bytes };
    }
    sums.into_iter().map(|(name, (live, all))| (name, (live.round() as u64, all.round() as u64))).collect()
}

#[test]
fn cpu_time_may_be_in_microseconds() {
    let import = Imported::from_fixture("pprof-microseconds.pb.gz");
    assert_eq!(import.time_by_leaf(), BTreeMap::from([("hot".to_owned(), 1_000_000_000)]));
}

#[test]
fn samples_alone_are_as_long_as_the_period() {
    let import = Imported::from_fixture("pprof-samples-count.pb.gz");
    assert_eq!(import.time_by_leaf(), BTreeMap::from([("hot".to_owned(), 19 * 52_631_578)]));
    assert_eq!((import.trace.samples.len(), import.losses()), (19, BTreeMap::new()));
}

#[test]
fn a_sample_stands_for_its_value_and_not_for_the_period() {
    let import = Imported::from_fixture("pprof-long-period.pb.gz");
    let times = import.time_by_leaf();
    assert_eq!(times.len(), 40);
    assert!(times.values().all(|ns| *ns == 50_000_000), "{times:?}");
}

#[test]
fn memory_in_use_is_not_less_for_what_was_allocated_before() {
    let import = Imported::from_fixture("pprof-heap-delta.pb.gz");
    let sums = heap_by_leaf(&import);
    assert_eq!(sums["cache.fill"], (64 << 20, 0), "{sums:?}");
    assert!(sums["request.parse"].1 > 0, "{sums:?}");
}
