//! Compares `--json` of every command that has it with docs/json.md: each documented key exists with its
//! type, and each existing key is documented.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, holdup, stderr, stdout};

/// A row of a table in docs/json.md or docs/json-*.md.
struct Key {
    /// Steps from the top: a name, `[]` for every entry of an array, `*` for every name of an object.
    path: Vec<String>,
    kind: String,
}

/// The keys of the section whose heading names `command`.
fn documented(command: &str) -> Vec<Key> {
    let page: String = [
        "json.md",
        "json-calls.md",
        "json-memory.md",
        "json-over-time.md",
        "json-experiments.md",
        "json-live.md",
    ]
    .map(|name| std::fs::read_to_string(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).expect(name))
    .concat();
    let heading = format!("`holdup {command} --json`");
    let is_it = |section: &&str| section.lines().next().is_some_and(|line| line.contains(&heading));
    let sections: Vec<&str> = page.split("\n## ").filter(is_it).collect();
    assert!(!sections.is_empty(), "the pages on JSON have no section on {heading}");
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let path = cells.next()?.trim_end_matches('`').replace("[]", ".[]");
        let mut path: Vec<String> =
            path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        let kind = cells.next()?.to_owned();
        // A row for `threads[]` describes the array.
        path.pop_if(|step| step == "[]");
        Some(Key { path, kind })
    };
    let keys: Vec<Key> = sections.iter().flat_map(|section| section.lines()).filter_map(row).collect();
    assert!(!keys.is_empty(), "{heading}: no keys");
    keys
}

/// Returns the values at a path. A missing name is reported.
fn values<'a>(value: &'a Value, path: &[String]) -> Vec<&'a Value> {
    let Some((step, rest)) = path.split_first() else { return vec![value] };
    match (step.as_str(), value) {
        ("[]", Value::Array(entries)) => entries.iter().flat_map(|entry| values(entry, rest)).collect(),
        ("*", Value::Object(names)) => names.values().flat_map(|entry| values(entry, rest)).collect(),
        (name, Value::Object(names)) => {
            let found = names.get(name).unwrap_or_else(|| panic!("{name} of {path:?} is missing in {value}"));
            values(found, rest)
        }
        // The object's own row decides whether it may be null.
        (_, Value::Null) => Vec::new(),
        _ => panic!("{path:?} does not fit {value}"),
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    kind.split(" or ").any(|kind| match kind {
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array of objects" => value.is_array(),
        _ => match kind.strip_prefix("array of ").map(|kind| kind.trim_end_matches('s')) {
            Some(kind) => {
                value.as_array().is_some_and(|entries| entries.iter().all(|entry| is_of(entry, kind)))
            }
            None => panic!("docs/json.md: '{kind}' is no type"),
        },
    })
}

/// Every path in a value, in the notation of [`Key::path`].
fn emitted(value: &Value, at: &mut Vec<String>, keys: &[Key], undocumented: &mut Vec<String>) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Object(names) => names.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(entries) => entries.iter().map(|entry| ("[]".to_owned(), entry)).collect(),
        _ => return,
    };
    for (step, value) in entries {
        at.push(step);
        let matches = |key: &&Key| {
            key.path.len() >= at.len()
                && key.path.iter().zip(at.iter()).all(|(wanted, found)| wanted == found || wanted == "*")
        };
        let leaf_of_array = at.last().is_some_and(|step| step == "[]") && !value.is_object();
        if !leaf_of_array && !keys.iter().any(|key| matches(&key)) {
            undocumented.push(at.join("."));
        }
        emitted(value, at, keys, undocumented);
        at.pop();
    }
}

fn check(command: &str, output: &Output, json: &[u8]) {
    assert!(output.status.success(), "{command}: {}", stderr(output));
    let value: Value = serde_json::from_slice(json)
        .unwrap_or_else(|error| panic!("{command}: {error}: {}", String::from_utf8_lossy(json)));
    let keys = documented(command);
    for key in &keys {
        for found in values(&value, &key.path) {
            assert!(is_of(found, &key.kind), "{command}: {:?} should be {}: {found}", key.path, key.kind);
        }
    }
    let mut undocumented = Vec::new();
    emitted(&value, &mut Vec::new(), &keys, &mut undocumented);
    assert!(undocumented.is_empty(), "{command}: not in docs/json.md: {undocumented:?}");
}

/// The commands that have `--json`, by their own help.
fn commands_with_json(scratch: &Scratch) -> Vec<String> {
    let help = |words: &[&str]| {
        let output = holdup(scratch).args(words).arg("--help").output().expect("holdup starts");
        stdout(&output)
    };
    let top = help(&[]);
    let names = top.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let names = names
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut found: Vec<String> = names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| help(&[name]).contains("--json"))
        .map(str::to_owned)
        .collect();
    found.sort();
    found
}

/// Runs a command with arguments and options, and checks its output.
type Test<'a> = &'a mut dyn FnMut(&str, &[&str], &dyn Fn(&mut Command));

fn experiments(test: Test, recording: &Path) {
    let quick =
        ["-n", "2", "--warm-up", "0", "--", "sh", "-c", "i=0; while [ $i -lt {n} ]; do i=$((i+1)); done"];
    test("sweep", &[&["--size", "n=1k,2k,4k,8k,16k"], &quick[..]].concat(), &|_| ());
    test("sweep", &[&["--set", "n=10,20"], &quick[..]].concat(), &|_| ());
    test("sweep", &["--layout", "-n", "2", "--warm-up", "0", "--record", "none", "--", "true"], &|_| ());
    test("scale", &["--workers", "1,2", "-n", "2", "--warm-up", "0", "--", "true", "{}"], &|_| ());
    test("try", &["-n", "2", "--warm-up", "0"], &|run| {
        run.arg(recording);
    });
}

/// Commands that keep their recording in memory. The report goes to `file`.
fn in_memory(test: Test, file: &Path, scratch: &Scratch) {
    test("watch", &["-t", "output:here", "--after", "0s"], &|run| {
        run.arg("--report").arg(file).arg("-o").arg(scratch.join("watched.holdup"));
        run.args(["--", "sh", "-c", "echo here; sleep 0.3"]).stdout(std::process::Stdio::null());
    });
    test("top", &["-n", "1", "-d", "200ms"], &|run| {
        run.arg("--report").arg(file).args([
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done",
        ]);
    });
}

#[test]
fn every_command_prints_what_is_documented() {
    let scratch = Scratch::new("json");
    let recording = scratch.join("state/holdup/kept.holdup");
    std::fs::create_dir_all(scratch.join("state/holdup")).expect("mkdir");
    let file = scratch.join("report.json");
    let mut tested = Vec::new();
    let script =
        "for i in 1 2 3; do sleep 0.02 & done; wait; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";

    let mut test = |command: &str, words: &[&str], options: &dyn Fn(&mut Command)| {
        let mut run = holdup(&scratch);
        run.arg(command).arg("--json").args(words);
        options(&mut run);
        let output = run.output().expect("holdup starts");
        let json = std::fs::read(&file).unwrap_or_else(|_| output.stdout.clone());
        let _ = std::fs::remove_file(&file);
        let section = if ["attach", "import", "watch"].contains(&command) { "run" } else { command };
        check(section, &output, &json);
        tested.push(command.to_owned());
    };
    test("run", &[], &|run| {
        run.arg("--report").arg(&file).arg("-o").arg(&recording).args(["--", "sh", "-c", script]);
    });
    let mut other = Command::new("sleep").arg("100").spawn().expect("sleep");
    let pid = other.id().to_string();
    test("attach", &[&pid, "--for", "100ms"], &|run| {
        // Quiet is about the terminal: a file that is asked for is written.
        run.arg("--quiet").arg("--report").arg(&file).arg("-o").arg(scratch.join("attached.holdup"));
    });
    other.kill().expect("kill");
    other.wait().expect("wait");
    if bpf_or_skip(&scratch) {
        in_memory(&mut test, &file, &scratch);
    }
    test("report", &[], &|run| {
        run.arg(&recording);
    });
    let perf = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/imports/samples.perf");
    test("import", &[perf], &|run| {
        run.arg("-o").arg(scratch.join("imported.holdup"));
    });
    test("whatif", &["--without", "run-queue", "--cpus", "8"], &|run| {
        run.arg(&recording);
    });
    test("diff", &[], &|run| {
        run.arg(&recording).arg(&recording);
    });
    experiments(&mut test, &recording);
    test("list", &[], &|_| ());
    test("doctor", &[], &|_| ());
    #[cfg(feature = "sql")]
    test("query", &["SELECT class, sum(time_ns) AS time_ns FROM ledger GROUP BY class"], &|_| ());
    test("explain", &[], &|_| ());
    test("explain", &["lock-contention"], &|_| ());

    tested.sort();
    tested.dedup();
    let mut there = commands_with_json(&scratch);
    // A build without SQL has the command only to print an error.
    there.retain(|command| cfg!(feature = "sql") || command != "query");
    there.retain(|command| !["top", "watch"].contains(&command.as_str()) || tested.contains(command));
    assert_eq!(tested, there, "commands with --json that are tested, and that there are");
}
