//! `holdup pack --dataset`: the queries of docs/fleet.md and docs/sql.md on a dataset, by `holdup query` and
//! by other engines (`HOLDUP_BLESS=1` writes the answers). Also tests rejected runs, and that the others are
//! kept.
#![cfg(feature = "sql")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Output;

use holdup_events::recording::FORMAT_VERSION;
use holdup_testkit::check::trace_of_lanes;
use holdup_testkit::saved::save;
use serde_json::Value;
use support::python::python_with;
use support::questions::{Question, questions};
use support::{Scratch, busy, holdup, stderr, stdout};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fleet.md");
const TWENTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sql.md");

/// The whole work under a lock, without other programs.
const SLOW: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    worker-1  0000mmmmrr0dd0\n\
    worker-2  mmmm1111011rr1  holds m 4..8\n";
/// The same with a foreign program on its CPUs.
const CROWDED: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    worker-1  0000mmmmrr0dd0\n\
    worker-2  mmmm1111011rr1  holds m 4..8\n\
    ~noisy    ....0000.0.00.\n";
/// A quarter of it under the lock.
const MENDED: &str = "@cpus 2\n@d disk\n@repeat 40\n\
    worker-1  00000000000dd0\n\
    worker-2  m1111111111111\n";

/// 2026-11-20 10:00 UTC, and a day (ns).
const FRIDAY: u64 = 1_795_168_800_000_000_000;
const DAY: u64 = 86_400_000_000_000;

fn recording(scratch: &Scratch, name: &str, lanes: &str, (host, start_unix_ns): (&str, u64)) -> PathBuf {
    let (_, mut trace) = trace_of_lanes(lanes);
    trace.manifest.command = vec!["./server".into()];
    trace.manifest.mode = "run".into();
    trace.manifest.host.name = host.into();
    trace.manifest.start_unix_ns = start_unix_ns;
    let path = scratch.join(name);
    save(&trace, &path).expect("a recording");
    path
}

fn pack(scratch: &Scratch, dataset: &Path, recordings: &[&Path], words: &[&str]) -> Output {
    let mut command = holdup(scratch);
    command.arg("pack").arg("--dataset").arg(dataset).args(words).args(recordings);
    command.output().expect("holdup runs")
}

/// Two hosts, two releases.
fn fleet(scratch: &Scratch) -> PathBuf {
    let dataset = scratch.join("fleet");
    let runs = [
        ("a1", SLOW, ("web-1", FRIDAY - DAY), "release=A"),
        ("a2", CROWDED, ("web-2", FRIDAY - DAY), "release=A"),
        ("b1", MENDED, ("web-1", FRIDAY), "release=B"),
        ("b2", CROWDED, ("web-2", FRIDAY - 10 * DAY), "release=0"),
    ];
    for (name, lanes, place, label) in runs {
        let recording = recording(scratch, name, lanes, place);
        let output = pack(scratch, &dataset, &[&recording], &["--label", label]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    dataset
}

fn ask(scratch: &Scratch, dataset: &Path, words: &[&str]) -> Output {
    holdup(scratch).arg("query").arg("--dataset").arg(dataset).args(words).output().expect("holdup runs")
}

/// The rows of an answer in the order of its columns.
fn rows(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let columns = answer["columns"].as_array().expect("columns").clone();
    let names: Vec<&str> = columns.iter().filter_map(|one| one["name"].as_str()).collect();
    let row = |row: &Value| -> Value { names.iter().map(|name| row[*name].clone()).collect() };
    answer["rows"].as_array().expect("rows").iter().map(row).collect()
}

fn page(path: &str, from: &str) -> (String, Vec<Question>) {
    let page = std::fs::read_to_string(path).expect("the page");
    let questions = questions(&page, from);
    (page, questions)
}

#[test]
fn three_questions_have_these_answers() {
    let scratch = Scratch::new("fleet-three");
    let dataset = fleet(&scratch);
    let (page, questions) = page(PAGE, "## Three questions");
    assert_eq!(questions.len(), 3);
    let mut blessed = page.clone();
    for question in questions.iter().rev() {
        let output = ask(&scratch, &dataset, &[&question.sql]);
        assert!(output.status.success(), "{}: {}", question.sql, stderr(&output));
        let said = stdout(&output);
        assert!(said.lines().count() > 1, "no rows: {}", question.sql);
        blessed.replace_range(question.answer.clone(), &said);
    }
    if std::env::var_os("HOLDUP_BLESS").is_some() {
        std::fs::write(PAGE, &blessed).expect("docs/fleet.md");
    } else {
        assert_eq!(blessed, page, "answers of docs/fleet.md (HOLDUP_BLESS=1 accepts)");
    }
}

/// Queries the other engines, and prints their output.
fn compare(scratch: &Scratch, dataset: &Path, answers: &[Value]) {
    let Some(python) = python_with("pandas", &["python-fleet", "python"]) else { return };
    let file = scratch.join("answers.json");
    std::fs::write(&file, serde_json::to_vec(answers).expect("JSON")).expect("answers");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/fleet.py");
    let output =
        std::process::Command::new(python).arg(script).arg(dataset).arg(&file).output().expect("Python runs");
    let said = stdout(&output);
    println!("{said}");
    assert!(output.status.success() && said.contains(" equal"), "{said}\n{}", stderr(&output));
}

#[test]
fn every_engine_gives_the_same_answers_of_a_fleet() {
    let scratch = Scratch::new("fleet-engines");
    let dataset = fleet(&scratch);
    let answer = |(number, question): (usize, Question)| {
        let rows = rows(&ask(&scratch, &dataset, &[&question.sql, "--json"]));
        serde_json::json!([format!("fleet {}", number + 1), question.elsewhere, rows])
    };
    let (_, questions) = page(PAGE, "## Three questions");
    let answers: Vec<Value> = questions.into_iter().enumerate().map(answer).collect();
    compare(&scratch, &dataset, &answers);
}

#[test]
fn a_dataset_of_one_run_answers_as_its_recording_does() {
    let scratch = Scratch::new("fleet-twenty");
    let recording = scratch.join("busy.holdup");
    save(&busy::busy(), &recording).expect("a recording");
    let dataset = scratch.join("one");
    let made = pack(&scratch, &dataset, &[&recording], &[]);
    assert!(made.status.success(), "{}", stderr(&made));
    let mut answers = Vec::new();
    for (number, question) in page(TWENTY, "# Twenty questions").1.into_iter().enumerate() {
        let of_dataset = rows(&ask(&scratch, &dataset, &[&question.sql, "--json"]));
        let words = ["query", recording.to_str().expect("a path"), &question.sql, "--json"];
        let of_recording = rows(&holdup(&scratch).args(words).output().expect("holdup runs"));
        assert_eq!(of_dataset, of_recording, "{}", question.sql);
        answers.push(serde_json::json!([format!("question {}", number + 1), question.elsewhere, of_dataset]));
    }
    assert_eq!(answers.len(), 20);
    compare(&scratch, &dataset, &answers);
}

#[test]
fn a_run_is_added_once_and_whole() {
    let scratch = Scratch::new("fleet-once");
    let recording = recording(&scratch, "a", SLOW, ("web/1 =x", FRIDAY));
    let dataset = scratch.join("fleet");
    let first = pack(&scratch, &dataset, &[&recording], &["--views", "ledger,locks"]);
    assert!(stderr(&first).contains("added"), "{}", stderr(&first));
    let again = pack(&scratch, &dataset, &[&recording], &[]);
    assert!(again.status.success() && stderr(&again).contains("is there already"), "{}", stderr(&again));
    let names = std::fs::read_dir(&dataset).expect("a directory").flatten().map(|entry| entry.file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["host=web_1__x"], "nothing is left beside it");
    let said = ask(&scratch, &dataset, &["SELECT DISTINCT host, date FROM ledger", "--csv"]);
    assert_eq!(stdout(&said), "host,date\nweb_1__x,2026-11-20\n", "{}", stderr(&said));
    // A view that was not packed has no rows and is no error.
    let none = ask(&scratch, &dataset, &["SELECT count(*) AS n FROM slices", "--csv"]);
    assert_eq!(stdout(&none), "n\n0\n", "{}", stderr(&none));
    let all = ask(
        &scratch,
        &dataset,
        &["SELECT count(*) AS n FROM ledger WHERE date > '2026-11-20' OR host IS NULL", "--csv"],
    );
    assert_eq!(stdout(&all), "n\n0\n", "{}", stderr(&all));
}

#[test]
fn unreadable_recordings_are_reported_and_the_rest_is_packed() {
    let scratch = Scratch::new("fleet-refused");
    let dataset = fleet(&scratch);
    // A recording of a newer format, one that is none, and a good one.
    let newer = recording(&scratch, "newer", SLOW, ("web-9", FRIDAY));
    let manifest = newer.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replacen(&format!("\"format\": {FORMAT_VERSION}"), "\"format\": 99", 1))
        .expect("a manifest");
    let good = recording(&scratch, "good", MENDED, ("web-3", FRIDAY));
    let nothing = scratch.join("nothing");
    let output = pack(&scratch, &dataset, &[&newer, &nothing, &good], &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("format 99") && said.contains("use the newer one") && said.contains("host=web-3"),
        "{said}"
    );
    let output = pack(&scratch, &dataset, &[&newer], &[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));

    // Runs of another dataset version, and damaged ones.
    let count = |said: &Output| stdout(said).lines().nth(1).expect("a row").parse::<u32>().expect("a number");
    let sql = ["SELECT count(*) FROM recording", "--csv"];
    assert_eq!(count(&ask(&scratch, &dataset, &sql)), 5);
    let run = |host: &str| {
        let below = |path: PathBuf| {
            std::fs::read_dir(path).expect("a directory").flatten().next().expect("an entry").path()
        };
        below(below(dataset.join(host))).join("manifest.json")
    };
    let text = std::fs::read_to_string(run("host=web-3")).expect("a manifest");
    std::fs::write(run("host=web-3"), text.replacen("\"dataset\": 1", "\"dataset\": 7", 1))
        .expect("a manifest");
    std::fs::write(run("host=web-1"), "{").expect("a manifest");
    let output = ask(&scratch, &dataset, &sql);
    let said = stderr(&output);
    assert_eq!(count(&output), 3, "{said}");
    assert!(
        said.contains("dataset version 7") && said.contains("use the newer one") && said.contains("damaged"),
        "{said}"
    );
}

#[test]
fn invalid_arguments_are_reported() {
    let scratch = Scratch::new("fleet-words");
    let recording = recording(&scratch, "a", SLOW, ("web-1", FRIDAY));
    let dataset = scratch.join("fleet");
    let bad = |words: &[&str], wanted: &str| {
        let output = pack(&scratch, &dataset, &[&recording], words);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(wanted), "no '{wanted}' in: {}", stderr(&output));
    };
    bad(&["--views", "lokcs"], "no view lokcs");
    bad(&["--label", "release"], "NAME=VALUE");
    let bucket = pack(&scratch, Path::new("gs://bucket/fleet"), &[&recording], &[]);
    assert!(stderr(&bucket).contains("aws s3 sync"), "{}", stderr(&bucket));
    let none = ask(&scratch, &scratch.join("a"), &["SELECT 1"]);
    assert!(stderr(&none).contains("it contains no run"), "{}", stderr(&none));
    let two = ask(&scratch, &dataset, &["a.holdup", "SELECT 1"]);
    assert_eq!(two.status.code(), Some(2), "{}", stderr(&two));
    let several = holdup(&scratch).args(["pack", "a", "b"]).output().expect("holdup runs");
    assert!(stderr(&several).contains("one recording is packed at a time"), "{}", stderr(&several));
}
