//! OCaml 5 programs under holdup: compares the runtime's events with its own counters.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use holdup_events::tables::SpanRow;
use holdup_events::{Trace, recording};
use serde_json::Value;
use support::{Scratch, bpf_or_skip, holdup, ocaml, report_json, stderr, stdout};

/// Rings that recordings have left behind.
fn rings_left(of: u32) -> bool {
    PathBuf::from(format!("/dev/shm/holdup-events-{of}")).exists()
}

/// Runs a command under holdup. Returns its output and the report.
fn run(scratch: &Scratch, change: impl Fn(&mut Command), command: &[&str]) -> (String, Value) {
    let recording = scratch.join("t.holdup");
    let _ = std::fs::remove_dir_all(&recording);
    let mut holdup = holdup(scratch);
    holdup.args(["run", "--quiet", "-o"]).arg(&recording).arg("--").args(command);
    change(&mut holdup);
    let child = holdup
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("holdup starts");
    let pid = child.id();
    let output = child.wait_with_output().expect("holdup ends");
    assert!(output.status.success(), "{command:?}: {:?}\n{}", output.status, stderr(&output));
    assert!(!rings_left(pid), "rings are left behind");
    (stdout(&output), report_json(scratch, &recording))
}

/// Returns a number that `alloc_domains` prints as NAME=NUMBER.
fn printed(text: &str, name: &str) -> u64 {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn collections_are_those_that_the_runtime_counts() {
    let scratch = Scratch::new("ocaml-collections");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    if !bpf_or_skip(&scratch) {
        return;
    }
    let program = program.to_str().expect("a path");
    for domains in ["1", "2", "4"] {
        let (text, report) = run(&scratch, |_| {}, &[program, domains, "3000000"]);
        let gc = &report["gc"];
        if report["loss"]["by_source"].get("runtime-events").is_some() {
            println!("skipped: the machine was too busy to read the rings in time");
            continue;
        }
        assert_eq!(gc["minor"].as_u64(), Some(printed(&text, "minors")), "{text}");
        assert_eq!(gc["major"].as_u64(), Some(printed(&text, "majors")), "{text}");
        let (told, matched) =
            (gc["events"].as_u64().expect("events"), gc["matched"].as_u64().expect("matched"));
        assert!(told > 100 && matched * 1000 >= told * 999, "{matched} of {told}");
        assert_eq!(gc["domains"].as_array().map(Vec::len), domains.parse::<usize>().ok().map(|n| n + 1));
        assert_eq!(gc["domains"][0]["runtime"].as_str().map(|name| name.starts_with("ocaml 5.")), Some(true));
    }
}

#[test]
fn events_of_children_are_recorded_and_no_file_remains() {
    let scratch = Scratch::new("ocaml-children");
    let Some(program) = ocaml::program(&scratch, "fk") else { return };
    let program = program.to_str().expect("a path");
    let (_, report) = run(&scratch, |_| {}, &["sh", "-c", &format!("{program}; {program}")]);
    let domains = report["gc"]["domains"].as_array().expect("domains");
    let mut pids: Vec<u64> = domains.iter().filter_map(|domain| domain["pid"].as_u64()).collect();
    pids.dedup();
    // Two programs, each with a forked child.
    assert_eq!(pids.len(), 4, "{domains:?}");
}

#[test]
fn a_missing_directory_of_the_users_does_not_end_the_program() {
    let scratch = Scratch::new("ocaml-missing");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    let program = program.to_str().expect("a path");
    let missing = scratch.join("missing");
    let (text, report) = run(
        &scratch,
        |holdup| {
            holdup.env("OCAML_RUNTIME_EVENTS_DIR", &missing).env("OCAMLRUNPARAM", "s=64k,e=1");
        },
        &[program, "1", "1000000"],
    );
    assert!(printed(&text, "minors") > 10, "{text}");
    assert!(!report["gc"].is_null());
}

#[test]
fn a_program_with_its_own_events_keeps_the_file() {
    let scratch = Scratch::new("ocaml-own");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    let program = program.to_str().expect("a path");
    let own = scratch.join("own");
    std::fs::create_dir_all(&own).expect("mkdir");
    let change = |holdup: &mut Command| {
        holdup.env("OCAML_RUNTIME_EVENTS_START", "1").env("OCAML_RUNTIME_EVENTS_DIR", &own);
        holdup.env("OCAML_RUNTIME_EVENTS_PRESERVE", "1");
    };
    let (_, report) = run(&scratch, change, &[program, "2", "6000000"]);
    assert_eq!(std::fs::read_dir(&own).expect("own").count(), 1);
    assert!(!report["gc"].is_null(), "the ring was not found");
}

/// A program that runs before it is recorded, and ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records a running program for 0.5 s, once `ready` returns `true`.
fn attached(scratch: &Scratch, command: &mut Command, ready: impl Fn() -> bool) -> Value {
    let program = Running(command.stdout(Stdio::null()).spawn().expect("the program starts"));
    for _ in 0..1_000 {
        if ready() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let recording = scratch.join("attached.holdup");
    let mut holdup = holdup(scratch);
    holdup.args(["attach", &program.0.id().to_string(), "--for", "500ms", "--quiet", "-o"]).arg(&recording);
    let output = holdup.output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    report_json(scratch, &recording)
}

#[test]
fn a_ring_that_is_on_already_is_read_from_then_on() {
    let scratch = Scratch::new("ocaml-attach-ring");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    let own = scratch.join("own");
    std::fs::create_dir_all(&own).expect("mkdir");
    let mut command = Command::new(program);
    command.args(["2", "1000000000000"]).env("OCAML_RUNTIME_EVENTS_START", "1");
    command.env("OCAML_RUNTIME_EVENTS_DIR", &own);
    let has_ring = || std::fs::read_dir(&own).is_ok_and(|files| files.count() > 0);
    let report = attached(&scratch, &mut command, has_ring);
    let gc = &report["gc"];
    assert!(gc["minor"].as_u64() > Some(0), "{gc}");
    let domains = gc["domains"].as_array().expect("domains");
    // Earlier events are not included: the lanes' lives are within the recording.
    let lives: Vec<Option<u64>> = domains.iter().map(|domain| domain["life_ns"].as_u64()).collect();
    assert!(lives.iter().all(|life| *life <= report["wall_ns"].as_u64()), "{lives:?}");
    let (told, matched) = (gc["events"].as_u64().expect("events"), gc["matched"].as_u64().expect("matched"));
    // By polling, threads are matched to nothing.
    let is_matched = report["backend"] != "bpf" || matched * 100 >= told * 99;
    assert!(is_matched, "{matched} of {told}; lost: {}", report["loss"]);
    assert_eq!(std::fs::read_dir(&own).expect("own").count(), 1, "the ring is its user's");
}

/// Collections that were begun from then to then (ns): domain and moment.
fn begun(trace: &Trace, (from, to): (u64, u64)) -> BTreeSet<(u32, u64)> {
    let of = |row: &SpanRow| (trace.lanes[row.lane as usize].number, row.start.0);
    let minors = trace.spans.rows().iter().filter(|row| trace.event_name(row.name).text == "minor");
    minors.map(of).filter(|(_, at)| (from..to).contains(at)).collect()
}

#[test]
fn a_ring_with_earlier_events_covers_the_whole_recording() {
    let scratch = Scratch::new("ocaml-attach-whole");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    let own = scratch.join("own");
    std::fs::create_dir_all(&own).expect("mkdir");
    let mut command = Command::new(program);
    command.args(["2", "1000000000000"]).env("OCAML_RUNTIME_EVENTS_START", "1");
    command.env("OCAML_RUNTIME_EVENTS_DIR", &own).env("OCAMLRUNPARAM", "d=4,e=20");
    let files = || std::fs::read_dir(&own).expect("own").filter_map(|file| Some(file.ok()?.path()));
    let report = attached(&scratch, &mut command, || files().next().is_some());
    // The program was killed, and all of its events are still there.
    let ring = files().next().expect("a ring");
    let imported = scratch.join("imported.holdup");
    let output = holdup(&scratch).arg("import").arg(&ring).arg("-o").arg(&imported).output();
    assert!(output.expect("holdup runs").status.success());
    let load = |path: PathBuf| recording::open(&path).expect("it opens");
    let (ours, all) = (load(scratch.join("attached.holdup")), load(imported));
    if !ours.losses.is_empty() {
        println!("skipped: the machine was too busy to read the rings in time");
        return;
    }
    let (from, to) = (ours.start().0, ours.end().0);
    let told = begun(&all, (from, to));
    assert!(!told.is_empty(), "{report}");
    // Spans that began before the end may have ended after it.
    assert_eq!(begun(&ours, (from, to)), told);
}

#[test]
fn a_program_without_a_ring_is_known_by_its_code() {
    let scratch = Scratch::new("ocaml-attach-code");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    if !bpf_or_skip(&scratch) {
        return;
    }
    let report = attached(&scratch, Command::new(program).args(["4", "1000000000000"]), || true);
    assert!(report["gc"].is_null(), "{}", report["gc"]);
    let found = report["runtimes"].as_array().expect("runtimes").iter().find(|one| one["name"] == "ocaml5");
    let roles = found.unwrap_or_else(|| panic!("{}", report["runtimes"]))["roles"].as_array().expect("roles");
    let has = |wanted: &str| roles.iter().any(|used| used["role"] == wanted);
    assert!(has("spin") && (has("gc-wait") || has("gc-work")), "{roles:?}");
}

#[test]
fn other_programs_and_opted_out_ones_see_no_change() {
    let scratch = Scratch::new("ocaml-never");
    let (text, report) = run(&scratch, |_| {}, &["env"]);
    assert!(!text.contains("OCAML_RUNTIME_EVENTS") && report["gc"].is_null(), "{text}");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    let recording = scratch.join("never.holdup");
    let output = holdup(&scratch)
        .args(["run", "--quiet", "--runtime-events", "never", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(program)
        .args(["1", "1000"])
        .output()
        .expect("holdup starts");
    assert!(output.status.success());
    assert!(report_json(&scratch, &recording)["gc"].is_null());
}

#[test]
fn two_recordings_differ_by_what_collections_cost() {
    let scratch = Scratch::new("ocaml-diff");
    let Some(program) = ocaml::program(&scratch, "alloc_domains") else { return };
    if !bpf_or_skip(&scratch) {
        return;
    }
    let program = program.to_str().expect("a path");
    let record = |words: &str| {
        let environment = |holdup: &mut Command| {
            holdup.env("OCAMLRUNPARAM", format!("s={words}"));
        };
        run(&scratch, environment, &[program, "1", "10000000"]);
        let to = scratch.join(words);
        std::fs::rename(scratch.join("t.holdup"), &to).expect("rename");
        to
    };
    // Collections that follow each other within microseconds, and a handful of them.
    let (rare, often) = (record("8M"), record("1k"));
    let diff = |a, b| -> Value {
        let output = holdup(&scratch).arg("diff").arg(a).arg(b).arg("--json").output().expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let told = diff(&rare, &often);
    let found = &told["diff"]["collections"];
    let [a_ns, b_ns] = ["a_ns", "b_ns"].map(|side| found[side].as_f64().unwrap_or_else(|| panic!("{found}")));
    assert!(b_ns > 2.0 * a_ns && found["share"].as_f64() >= Some(0.2), "{found}");
    let parts = found["parts"].as_array().expect("parts");
    assert!(parts.iter().any(|part| part["name"] == "gc-work"), "{found}");
    assert!(diff(&often, &often)["diff"]["collections"].is_null());
}
