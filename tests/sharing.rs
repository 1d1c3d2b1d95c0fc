//! Programs whose threads share memory: the sampled accesses, and the data's name. How often threads run in
//! parallel depends on the machine, so contention is not asserted.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, record_json};

/// Builds a case's program and records it.
fn record(scratch: &Scratch, source: &str) -> Option<Value> {
    if !bpf_or_skip(scratch) || !have("gcc") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(source);
    let program = scratch.join("program");
    let built = Command::new("gcc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("gcc starts").success());
    Some(record_json(scratch, &[], &[program.to_str().expect("a name"), "2", "100000000"]))
}

/// Some samples have the accessed address. Otherwise the rules would report that they cannot judge.
fn assert_addresses(report: &Value) {
    let skipped = report["skipped"].as_array().expect("skipped");
    assert!(skipped.iter().all(|one| one["rule"] != "shared-counter"), "no addresses: {skipped:?}");
}

/// If watchpoints saw threads in parallel, the result must be right.
fn assert_watched(line: &Value, sharing: &str) {
    let watched = &line["watched"];
    assert!(watched.is_null() || watched["sharing"].is_null() || watched["sharing"] == sharing, "{line}");
}

#[test]
fn samples_identify_the_shared_variable() {
    let scratch = Scratch::new("shared-id");
    let Some(report) = record(&scratch, "shared-id/ids.c") else { return };
    assert_addresses(&report);
    for line in report["lines"].as_array().expect("lines") {
        if line["name"] == "next_id" {
            assert_eq!(line["sharing"], "true", "{line}");
            assert_watched(line, "true");
            assert_eq!(line["samples"], line["atomic_samples"], "{line}");
            assert_eq!(line["functions"][0]["function"], "number_records", "{line}");
        }
    }
}

#[test]
fn parts_of_an_array_are_named_by_their_types() {
    let scratch = Scratch::new("random-states");
    let Some(report) = record(&scratch, "random-states/pi.c") else { return };
    assert_addresses(&report);
    for line in report["lines"].as_array().expect("lines") {
        if line["name"] == "generators" {
            assert_eq!(line["sharing"], "false", "{line}");
            assert_watched(line, "false");
            for thread in line["threads"].as_array().expect("threads") {
                let part = thread["part"].as_str().expect("part");
                assert!(part.starts_with('[') && part.contains("].s["), "{thread}");
            }
        }
    }
}

/// Two threads take turns at a shared field and request the line again and again. Each writes a field next to
/// the other's.
const JAVA: &str = "public class Turns {
    static class Pair { volatile long left, right; }
    static final Pair pair = new Pair();
    static volatile long turn;
    static void take(long until, boolean left) {
        for (long at = 0; at < until; at++) {
            while ((turn & 1) == (left ? 1 : 0)) { }
            for (int i = 0; i < 2000; i++) if (left) pair.left = i; else pair.right = i;
            turn++;
        }
    }
    public static void main(String[] words) throws Exception {
        Thread other = new Thread(() -> take(30000, true));
        other.start();
        take(30000, false);
        other.join();
    }
}
";

/// Code that a virtual machine compiles is in no file.
#[test]
fn code_that_a_runtime_makes_is_read_while_it_is_there() {
    let scratch = Scratch::new("sharing-java");
    if !bpf_or_skip(&scratch) || !have("javac") || !have("java") {
        return;
    }
    std::fs::write(scratch.join("Turns.java"), JAVA).expect("the source is written");
    let built =
        Command::new("javac").arg("-d").arg(scratch.join(".")).arg(scratch.join("Turns.java")).status();
    assert!(built.expect("javac starts").success());
    let folder = scratch.join(".");
    let report = record_json(&scratch, &[], &["java", "-cp", folder.to_str().expect("a name"), "Turns"]);
    assert_addresses(&report);
    let sources = report["sources"].as_array().expect("sources");
    if let Some(untold) = sources.iter().find(|source| source["name"] == "touched-memory") {
        // On a busy machine, much code is sampled only once and not read in time.
        assert!(untold["events"].as_u64().expect("a number") > 0, "{untold}");
    }
    let spin = report["ledger"]["classes"]["spin"].as_u64().expect("a number");
    assert!(spin > 0, "one of them waits all the time: {}", report["ledger"]["classes"]);
}

/// Maps a file as a virtual machine's library, and works for a second of CPU time.
const NO_MACHINE: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv)
{
	volatile unsigned long sum = 0;

	if (mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) == MAP_FAILED)
		return 1;
	while (clock() < CLOCKS_PER_SEC)
		sum++;
	return 0;
}
"#;

#[test]
fn a_fake_virtual_machine_is_reported_without_names() {
    let scratch = Scratch::new("no-machine");
    if !bpf_or_skip(&scratch) || !have("gcc") {
        return;
    }
    let (source, program, library) =
        (scratch.join("no.c"), scratch.join("no-machine"), scratch.join("libjvm.so"));
    std::fs::write(&source, NO_MACHINE).expect("the source is written");
    std::fs::write(&library, [0x7f; 8192]).expect("the library is written");
    let built = Command::new("gcc").arg("-o").arg(&program).arg(&source).status();
    assert!(built.expect("gcc starts").success());
    let command = [&program, &library].map(|path| path.to_str().expect("a name"));
    let report = record_json(&scratch, &[], &command);
    let sources = report["sources"].as_array().expect("sources");
    let told = sources.iter().find(|source| source["name"] == "runtime-names").expect("a source");
    assert!(told["missing"].as_str().is_some_and(|why| why.ends_with("have no names")), "{told}");
}
