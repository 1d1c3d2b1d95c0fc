//! Bad input gets a clear message and exit status 2.

mod support;

use holdup_events::recording::{JournalWriter, Manifest};
use support::{Scratch, holdup, stderr};

fn fails_with(scratch: &Scratch, words: &[&str], expected: &str) {
    let output = holdup(scratch).args(words).output().expect("holdup starts");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
    assert!(text.contains(expected), "{words:?} should say '{expected}', says: {text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn commands_that_cannot_be_run() {
    let scratch = Scratch::new("commands");
    fails_with(&scratch, &["--", "/no/such/program"], "/no/such/program");
    fails_with(&scratch, &["--", "no-such-program-anywhere"], "no-such-program-anywhere");
    let plain = scratch.join("plain.txt");
    std::fs::write(&plain, "text").expect("write");
    fails_with(&scratch, &["--", plain.to_str().expect("utf-8")], "ermission denied");
    fails_with(&scratch, &["run"], "CMD");
}

#[test]
fn processes_that_cannot_be_attached_to() {
    let scratch = Scratch::new("attach");
    fails_with(&scratch, &["attach", "4194304"], "4194304");
    fails_with(&scratch, &["attach", "0"], "0");
    fails_with(&scratch, &["attach"], "PID");
    fails_with(&scratch, &["attach", "--allocs", "1"], "holdup run --allocs");
    fails_with(&scratch, &["attach", "--allocs=64k", "1"], "holdup run --allocs");
}

#[test]
fn places_that_cannot_be_written() {
    let scratch = Scratch::new("places");
    fails_with(&scratch, &["-o", "/proc/no.holdup", "--", "true"], "/proc/no.holdup");
    let taken = scratch.join("taken.holdup");
    std::fs::write(&taken, "a file of somebody else").expect("write");
    fails_with(&scratch, &["-o", taken.to_str().expect("utf-8"), "--", "true"], "taken.holdup");
    assert_eq!(std::fs::read_to_string(&taken).expect("still there"), "a file of somebody else");
}

#[test]
fn recordings_that_cannot_be_read() {
    let scratch = Scratch::new("recordings");
    fails_with(&scratch, &["report", "/no/such.holdup"], "/no/such.holdup");
    fails_with(&scratch, &["report"], "no recording");
    let newer = scratch.join("newer.holdup");
    std::fs::create_dir_all(&newer).expect("mkdir");
    std::fs::write(newer.join("manifest.json"), r#"{"format": 9999, "holdup": "99.0"}"#).expect("write");
    fails_with(&scratch, &["report", newer.to_str().expect("utf-8")], "9999");
    let empty = scratch.join("empty.holdup");
    std::fs::create_dir_all(&empty).expect("mkdir");
    fails_with(&scratch, &["report", empty.to_str().expect("utf-8")], "empty.holdup");
}

#[test]
fn journals_that_cannot_be_read() {
    let scratch = Scratch::new("journals");
    let begun = |name: &str, manifest: &Manifest| {
        let path = scratch.join(name);
        std::fs::create_dir_all(&path).expect("mkdir");
        drop(JournalWriter::create(&path, manifest).expect("a journal"));
        path
    };
    let newer = begun("newer.holdup", &Manifest { format: 9999, ..Manifest::default() });
    fails_with(&scratch, &["report", newer.to_str().expect("utf-8")], "in format 9999");
    let damaged = begun("damaged.holdup", &Manifest::default());
    let mut bytes = std::fs::read(damaged.join("journal")).expect("a journal");
    *bytes.last_mut().expect("a byte") ^= 1;
    std::fs::write(damaged.join("journal"), bytes).expect("write");
    fails_with(&scratch, &["report", damaged.to_str().expect("utf-8")], "the manifest is damaged");
    std::fs::write(damaged.join("journal"), "").expect("write");
    fails_with(&scratch, &["report", damaged.to_str().expect("utf-8")], "the manifest is damaged");
}

#[test]
fn words_that_mean_nothing() {
    let scratch = Scratch::new("words");
    fails_with(&scratch, &["explain", "no-such-rule"], "no-such-rule");
    fails_with(&scratch, &["export", "--to", "no-such-format"], "no-such-format");
    fails_with(&scratch, &["no-such-command"], "no-such-command");
}
