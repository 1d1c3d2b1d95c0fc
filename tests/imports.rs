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
fn runtime_events_are_accounted() {
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
fn limits_of_the_file_are_reported() {
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
    for (file, expected) in [(&cut, "is cut"), (&other, "not a format that holdup reads"), (&none, "none")] {
        let output = import(&scratch, file, &[]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
        assert!(!scratch.join("t.holdup").exists(), "half a recording is left behind");
    }
}

/// The report of an imported file, of one section or of all, as one line.
fn section(scratch: &Scratch, name: &str) -> String {
    let output = holdup(scratch).arg("report").arg(scratch.join("t.holdup")).args(name.split(' ')).output();
    let text = stdout(&output.expect("holdup starts"));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn export(scratch: &Scratch, format: &str) -> std::process::Output {
    let mut command = holdup(scratch);
    command.arg("export").arg(scratch.join("t.holdup")).args(["--to", format]);
    command.output().expect("holdup starts")
}

#[test]
fn samples_that_do_not_stand_for_time_have_shares() {
    let scratch = Scratch::new("import-untimed");
    for (name, samples) in [("page-faults.perf", 64), ("page-faults.txt", 21), ("cycles.txt", 22)] {
        let output = import(&scratch, &fixture("../variants").join(name), &[]);
        let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("with samples that do not stand for time: running times are not known"),
            "{text}"
        );
        assert!(text.contains("how much of the thread time was running is not known"), "{text}");
        assert!(!text.contains("0.0 % of the thread time was running"), "{text}");
        let stacks = section(&scratch, "stacks");
        assert!(stacks.contains(&format!("{samples} samples, each shown as 1.00 ms")), "{stacks}");
        assert!(section(&scratch, "threads").contains("not known not known unknown 100 %"), "{name}");
        let folded = stdout(&export(&scratch, "folded"));
        let counts = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        assert_eq!(counts.sum::<u64>(), samples * 1000, "each sample once: {folded}");
        for format in ["flame", "pprof", "speedscope", "chrome", "firefox"] {
            let output = export(&scratch, format);
            assert!(
                output.status.success() && !output.stdout.is_empty(),
                "{name} as {format}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn an_export_of_nothing_is_an_error() {
    let scratch = Scratch::new("import-no-time");
    let output = import(&scratch, &fixture("../profiles").join("go126-heap.pb.gz"), &["--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for format in ["folded", "flame", "pprof", "speedscope", "chrome", "perfetto", "firefox"] {
        let output = export(&scratch, format);
        let text = stderr(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{format}");
        assert!(text.contains("no time to export, only allocations"), "{format}: {text}");
    }
}

#[test]
fn nothing_is_lost_of_a_long_profile() {
    let scratch = Scratch::new("import-long");
    let output = import(&scratch, &fixture("../variants").join("long.folded"), &[]);
    let text = stdout(&output);
    assert!(text.contains("Lost 0 of ") && !text.contains("less sure"), "{text}");
    let output = import(&scratch, &fixture("../variants").join("bad-line.folded"), &[]);
    assert!(stdout(&output).contains("Lost 1 of "), "{}", stdout(&output));
}

#[test]
fn switches_that_are_missing_are_lost_once() {
    let scratch = Scratch::new("import-half-switches");
    let output = import(&scratch, &fixture("../variants").join("half-switches.txt"), &[]);
    let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("2 context switches are missing") && text.contains("Lost 2 of "), "{text}");
    assert!(!text.contains("exact") && !text.contains("0.0 % of the thread time"), "{text}");
}

#[test]
fn memory_in_use_may_be_older_than_the_profile() {
    let scratch = Scratch::new("import-heap-delta");
    let output = import(&scratch, &fixture("../variants").join("pprof-heap-delta.pb.gz"), &["--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = section(&scratch, "allocs");
    assert!(text.contains("64.0 MiB ± 0 B not freed") && text.contains("cache.fill 0 B"), "{text}");
}

#[test]
fn collections_of_variants_are_counted() {
    let scratch = Scratch::new("import-collections");
    for (name, young, old) in [("ghc902-microseconds.eventlog", 35, 3), ("hotspot-comma.log", 6, 0)] {
        let output = import(&scratch, &fixture("../variants").join(name), &["--quiet"]);
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        let gc = &report_json(&scratch, &scratch.join("t.holdup"))["gc"];
        let counts = [&gc["minor"], &gc["major"]].map(|count| count.as_u64());
        assert_eq!(counts, [Some(young), Some(old)], "{name}");
    }
}
