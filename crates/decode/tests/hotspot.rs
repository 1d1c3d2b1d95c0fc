//! Names of compiled methods, from saved memory of real virtual machines.

use holdup_decode::hotspot::SavedMemory;
use holdup_decode::readers;

/// Function, file and line of each call there, leaf first.
fn calls(name: &str) -> Vec<(String, String, u32)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/runtimes");
    let packed = std::fs::read(format!("{folder}/{name}")).expect("a fixture");
    let bytes = readers::unpack(&packed, 1 << 24).expect("gzip");
    let code = SavedMemory::parse(&bytes).expect("a head").name().expect("a name");
    code.calls.into_iter().map(|call| (call.function, call.file, call.line)).collect()
}

fn call(function: &str, file: &str, line: u32) -> (String, String, u32) {
    (function.to_owned(), file.to_owned(), line)
}

#[test]
fn a_method_of_version_17_has_its_name_and_line() {
    assert_eq!(calls("jdk17-memory.pages.gz"), [call("Sharing.add", "Sharing.java", 39)]);
}

#[test]
fn inlined_calls_of_jdk_25_are_listed_innermost_first() {
    let expected = [
        call("Sharing.add", "Sharing.java", 39),
        call("Sharing.lambda$main$1", "Sharing.java", 65),
        call("Sharing$$Lambda.make", "", 0),
        call("Sharing.lambda$main$5", "Sharing.java", 77),
    ];
    assert_eq!(calls("jdk25-memory.pages.gz"), expected);
}
