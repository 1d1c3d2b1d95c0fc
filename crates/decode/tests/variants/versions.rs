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
fn a_flight_recording_without_allocations_is_named() {
    let error = error(&fixture("async40-cpu.jfr"));
    assert!(error.starts_with("a flight recording without allocations, not its "), "{error}");
    assert!(error.contains("ExecutionSample") && error.contains("only allocations are read"), "{error}");
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
