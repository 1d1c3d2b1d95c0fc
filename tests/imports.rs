//! `holdup import`: recordings of other tools, from the command line.

mod support;

use std::path::{Path, PathBuf};

use support::{Scratch, class_sum, holdup, report_json, stderr, stdout};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/imports").join(name)
}

fn import(scratch: &Scratch, file: &Path, options: &[&str]) -> std::process::Output {
    let recording = scratch.join("t.holdup");
    holdup(scratch)
        .arg("import")
        .arg(file)
        .arg("-o")
        .arg(recording)
        .args(options)
        .output()
        .expect("holdup starts")
}

#[test]
fn the_ledger_of_an_import_adds_up() {
    let scratch = Scratch::new("import-sums");
    for name in ["samples.perf", "switches.perf", "dwarf.perf", "sched.perf", "sched.txt", "switches.txt"] {
        let output = import(&scratch, &fixture(name), &["--quiet"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let report = report_json(&scratch, &scratch.join("t.holdup"));
        let lives = report["threads"].as_array().expect("threads").iter().map(|thread| {
            let life = thread["end_ns"].as_u64().unwrap_or(0) - thread["start_ns"].as_u64().unwrap_or(0);
            assert_eq!(class_sum(&thread["classes"]), life, "{name}: {thread}");
            life
        });
        assert_eq!(class_sum(&report["ledger"]["classes"]), lives.sum::<u64>(), "{name}");
        assert_eq!(report["mode"], "import");
    }
}

#[test]
fn what_runtimes_told_is_accounted() {
    let scratch = Scratch::new("import-runtimes");
    // Collections of the young generation and of the old one, and pauses, as the runtimes' own tools counted them.
    let expected: &[(&str, u64, u64, u64)] = &[
        ("ghc902-pause.eventlog", 35, 3, 75),
        ("go126.trace.gz", 0, 6, 59),
        ("jdk17-safepoint-trace.log", 5, 1, 7),
        ("jdk25-zgc.log", 1, 4, 29),
        ("node20-trace-gc.txt", 59, 0, 59),
        ("ocaml-eventlog.json", 5, 1, 22),
        ("otp25-msacc.terms", 0, 0, 0),
    ];
    for (name, young, old, pauses) in expected {
        let output = import(&scratch, &fixture("../runtimes").join(name), &["--quiet"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let report = report_json(&scratch, &scratch.join("t.holdup"));
        let lives = report["threads"].as_array().expect("threads").iter().map(|thread| {
            let life = thread["end_ns"].as_u64().unwrap_or(0) - thread["start_ns"].as_u64().unwrap_or(0);
            assert_eq!(class_sum(&thread["classes"]), life, "{name}: {thread}");
            life
        });
        assert_eq!(class_sum(&report["ledger"]["classes"]), lives.sum::<u64>(), "{name}");
        let gc = &report["gc"];
        let counts = [&gc["minor"], &gc["major"], &gc["pauses"]["count"]].map(|count| count.as_u64());
        assert_eq!(counts, [Some(*young), Some(*old), Some(*pauses)], "{name}");
    }
}

#[test]
fn what_the_file_cannot_tell_is_said() {
    let scratch = Scratch::new("import-limits");
    let output = import(&scratch, &fixture("samples.perf"), &[]);
    let text = stdout(&output).replace("\n  ", " ");
    assert!(text.contains("Imported from perf.data with samples alone"), "{text}");
    let folded = scratch.join("stacks.txt");
    std::fs::write(&folded, "main;work 12\nmain;rest 3\n").expect("write");
    let output = import(&scratch, &folded, &[]);
    let text = stdout(&output).replace("\n  ", " ");
    assert!(text.contains("only their shares mean something"), "{text}");
}

#[test]
fn files_that_cannot_be_imported() {
    let scratch = Scratch::new("import-bad");
    let whole = std::fs::read(fixture("sched.perf")).expect("fixture");
    let cut = scratch.join("cut.perf");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("write");
    let other = scratch.join("other");
    std::fs::write(&other, "no recording of anything\n").expect("write");
    let none = scratch.join("none");
    for (file, expected) in [(&cut, "is cut"), (&other, "no format that holdup reads"), (&none, "none")] {
        let output = import(&scratch, file, &[]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!scratch.join("t.holdup").exists(), "half a recording is left behind");
    }
}
