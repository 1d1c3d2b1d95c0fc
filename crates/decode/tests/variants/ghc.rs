//! GHC's eventlog: coarse clocks, and files without some classes of events.

use super::*;

/// How many spans of each name.
fn counts(import: &Imported) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for span in import.trace.spans.rows() {
        let name = import.trace.event_name(span.name).text.to_string();
        if name.starts_with("gc") {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

#[test]
fn a_coarse_clock_has_the_same_collections() {
    let coarse = Imported::from_fixture("ghc902-microseconds.eventlog");
    let fine = Imported::from_fixture("../runtimes/ghc902-pause.eventlog");
    assert_eq!(counts(&coarse), counts(&fine));
    assert_eq!((counts(&coarse)["gc generation 0"], counts(&coarse)["gc generation 1"]), (35, 3));
    assert_eq!(coarse.losses(), BTreeMap::new());
}

#[test]
fn a_census_is_read_without_scheduler_events() {
    let bytes = |import: &Imported| import.trace.allocations.iter().map(|row| row.bytes).sum::<u64>();
    let alone = Imported::from_fixture("ghc902-census-alone.eventlog");
    let whole = Imported::from_fixture("../runtimes/ghc902-census.eventlog");
    assert_eq!((alone.reader, bytes(&alone)), ("ghc-eventlog", bytes(&whole)));
    assert!(bytes(&alone) > 500_000 && alone.trace.allocations.iter().all(|row| row.is_census()));
    assert!(alone.facts.limits.contains("without scheduler events"), "{}", alone.facts.limits);
    let thread = alone.trace.target_threads().next().unwrap();
    let states: Vec<ThreadState> = alone.trace.slices.of_thread(thread).map(|slice| slice.state).collect();
    assert!(matches!(states[..], [ThreadState::Unknown | ThreadState::Untracked]), "{states:?}");
}
