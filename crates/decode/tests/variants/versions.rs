//! Versions and recordings that are not read: the error names them.

use super::*;

fn error(bytes: &[u8]) -> String {
    Imported::read(bytes).err().expect("not read").to_string()
}

#[test]
fn traces_of_go_before_22_are_named() {
    let expected = "an execution trace of Go 1.21; from 1.22 on they are read";
    assert_eq!(error(&fixture("go121.trace")), expected);
    for version in ["5", "9", "11", "19"] {
        let head = format!("go 1.{version} trace\0\0\0\0\0\0\0\0");
        assert_eq!(error(&head.as_bytes()[..16]), expected.replace("21", version));
    }
}

#[test]
fn samples_of_a_flight_recording_are_stacks() {
    let import = Imported::from_fixture("async40-cpu.jfr");
    assert_eq!(
        (import.trace.samples.len(), import.facts.sample_period_ns, import.losses()),
        (13, 0, BTreeMap::new())
    );
    let names: Vec<String> = import.trace.samples.iter().map(|sample| import.leaf(sample.stack)).collect();
    assert!(names.iter().any(|name| !name.is_empty()), "{names:?}");
    let source = &import.facts.sources[0];
    assert_eq!((&*source.name, source.events), ("java-samples", 13));
    assert!(import.facts.limits.contains("which do not stand for time"), "{}", import.facts.limits);
}

#[test]
fn a_flight_recording_may_have_a_pool_of_texts() {
    let import = Imported::from_fixture("async43-alloc.jfr");
    assert_eq!((import.reader, import.losses()), ("jfr", BTreeMap::new()));
    // As jfr print has them.
    let rows = &import.trace.allocations;
    assert_eq!(rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), [512 << 10; 6]);
    assert!(
        rows.iter().all(|row| import.leaf(row.stack).starts_with("Churn.")),
        "{:?}",
        import.leaf(rows[0].stack)
    );
    assert_eq!(import.trace.threads[rows[0].thread.index()].name, "churn-3");
}
