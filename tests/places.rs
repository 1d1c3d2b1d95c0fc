//! Paths of recordings and other files: an existing file is replaced by a complete one, or stays, and no
//! incomplete file is left.

mod support;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdup_events::event::Waking;
use holdup_events::recording::{JournalWriter, Manifest};
use holdup_events::{Event, Timestamp};
use support::pty::Terminal;
use support::{Scratch, backends, bpf_or_skip, holdup, report_json, stderr, stdout};

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    holdup(scratch).current_dir(&scratch.0).args(words).output().expect("holdup starts")
}

/// The names in a directory, in their order.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/imports").join(name)
}

/// Two stacks to import, and half of another file.
fn to_import(scratch: &Scratch) {
    fs::write(scratch.join("stacks.folded"), "main;work 12\nmain;rest 3\n").expect("write");
    let whole = fs::read(fixture("sched.perf")).expect("fixture");
    fs::write(scratch.join("cut.perf"), &whole[..whole.len() / 2]).expect("write");
}

#[test]
fn foreign_tables_are_no_recording() {
    let scratch = Scratch::new("places-others");
    to_import(&scratch);
    let table = scratch.join("data/table.parquet");
    fs::create_dir_all(&table).expect("mkdir");
    for file in [scratch.join("data/part-0.parquet"), table.join("part-1")] {
        fs::write(file, "of the user").expect("write");
    }
    fs::create_dir(scratch.join("page")).expect("mkdir");
    fs::write(scratch.join("page/manifest.json"), r#"{"name": "a page"}"#).expect("write");
    for name in ["data", "page"] {
        for words in [["import", "stacks.folded", "-o", name], ["run", "-o", name, "true"]] {
            let output = run(&scratch, &words);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("not a recording"), "{words:?}: {}", stderr(&output));
        }
    }
    assert_eq!(names(&scratch.join("data")), ["part-0.parquet", "table.parquet"]);
    assert_eq!(names(&table), ["part-1"]);
    assert_eq!(names(&scratch.join("page")), ["manifest.json"]);
    assert_eq!(names(&scratch.0), ["cut.perf", "data", "page", "stacks.folded"]);
}

#[test]
fn what_fails_replaces_nothing_and_leaves_nothing() {
    let scratch = Scratch::new("places-fails");
    to_import(&scratch);
    fs::write(scratch.join("plain.txt"), "text").expect("write");
    let output = run(&scratch, &["import", "stacks.folded", "--quiet", "-o", "t.holdup"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let before = fs::read(scratch.join("t.holdup/manifest.json")).expect("a manifest");
    let all = names(&scratch.0);
    let mut failing: Vec<Vec<&str>> = vec![vec!["import", "cut.perf", "-o", "t.holdup"]];
    for backend in backends(&scratch) {
        failing.push(vec!["run", "--backend", backend, "-o", "t.holdup", "--", "./plain.txt"]);
    }
    for words in &failing {
        let output = run(&scratch, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert_eq!(
            fs::read(scratch.join("t.holdup/manifest.json")).expect("still there"),
            before,
            "{words:?}"
        );
        assert_eq!(names(&scratch.0), all, "{words:?}");
    }
    for backend in backends(&scratch) {
        let output = run(&scratch, &["run", "--quiet", "--backend", backend, "-o", "t.holdup", "--", "true"]);
        assert!(output.status.success(), "{backend}: {}", stderr(&output));
        let report = report_json(&scratch, &scratch.join("t.holdup"));
        assert_eq!(report["command"][0], "true", "{backend}: the new one is there");
        assert_eq!(names(&scratch.0), all, "{backend}");
    }
}

/// The new recording has begun: the old one is removed, and the new one is readable although its recorder is
/// killed.
#[test]
fn a_recording_that_is_killed_stands_in_place_of_the_old_one() {
    let scratch = Scratch::new("places-killed");
    for backend in backends(&scratch) {
        let recording = scratch.join("t.holdup");
        let output = run(&scratch, &["run", "--quiet", "--backend", backend, "-o", "t.holdup", "--", "true"]);
        assert!(output.status.success(), "{backend}: {}", stderr(&output));
        let mut command = holdup(&scratch);
        command.current_dir(&scratch.0).args([
            "run",
            "--quiet",
            "--backend",
            backend,
            "-o",
            "t.holdup",
            "--",
        ]);
        let mut child =
            command.args(["sh", "-c", "read line"]).stdin(Stdio::piped()).spawn().expect("holdup starts");
        while recording.join("manifest.json").exists() || !recording.join("journal").exists() {
            assert!(child.try_wait().expect("our child").is_none(), "{backend}: it goes on");
            std::thread::yield_now();
        }
        child.kill().expect("our child");
        child.wait().expect("it ends");
        assert_eq!(report_json(&scratch, &recording)["command"][0], "sh", "{backend}");
    }
}

#[test]
fn an_import_that_is_stopped_leaves_nothing() {
    let scratch = Scratch::new("places-stopped");
    let stacks: String = (0..200_000).map(|number| format!("main;work;step{number} 1\n")).collect();
    fs::write(scratch.join("many.folded"), stacks).expect("write");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut command = holdup(&scratch);
        command.current_dir(&scratch.0).args(["import", "--quiet", "many.folded", "-o", "t.holdup"]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("holdup starts");
        let (aside, whole) = (scratch.join("t.holdup.new"), scratch.join("t.holdup"));
        while !aside.exists() && !whole.exists() {
            std::thread::yield_now();
        }
        // SAFETY: sends a signal to a process of ours.
        unsafe { libc::kill(child.id() as i32, signal) };
        let status = child.wait().expect("it ends");
        let is_whole = whole.join("manifest.json").exists();
        assert_eq!(names(&scratch.0).len(), 1 + usize::from(is_whole), "{:?}", names(&scratch.0));
        let is_stopped = status.signal() == Some(signal) || status.code() == Some(128 + signal);
        assert!(is_stopped || is_whole, "{status}");
        let _ = fs::remove_dir_all(whole);
    }
}

/// A recording whose recorder was killed.
fn killed(path: &Path, mode: &str) {
    fs::create_dir(path).expect("mkdir");
    let manifest =
        Manifest { format: 1, holdup: "0.1".to_owned(), mode: mode.to_owned(), ..Manifest::default() };
    let mut journal = JournalWriter::create(path, &manifest).expect("a journal");
    journal.push(&Event::Waking(Waking { at: Timestamp(5), ..Waking::default() }));
    journal.flush();
}

#[test]
fn half_an_import_is_no_recording() {
    let scratch = Scratch::new("places-half");
    killed(&scratch.join("t.holdup"), "import");
    let output = run(&scratch, &["report", "t.holdup"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("import it again"), "{}", stderr(&output));
}

#[test]
fn temporary_directories_of_exited_processes_are_removed() {
    let scratch = Scratch::new("places-temporary");
    killed(&scratch.join("t.holdup"), "run");
    let place = scratch.join("tmp");
    for name in ["holdup-1-0", "holdup-2-0", "holdup-of-the-user-3"] {
        fs::create_dir_all(place.join(name)).expect("mkdir");
        fs::write(place.join(name).join("slices.parquet"), "old").expect("write");
    }
    let held = File::open(place.join("holdup-2-0")).expect("a directory");
    held.try_lock().expect("nobody else has it");
    // Something has the first name that this process will try.
    let script = "echo x >$TMPDIR/holdup-$$-0; exec \"$0\" report t.holdup";
    let mut command = holdup(&scratch);
    let program = command.get_program().to_owned();
    command = holdup_in_shell(&command, script);
    let output = command.arg(program).current_dir(&scratch.0).env("TMPDIR", &place).output().expect("sh");
    assert!(output.status.success(), "{}", stderr(&output));
    let left = names(&place);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(
        left.contains(&"holdup-2-0".to_owned()) && left.contains(&"holdup-of-the-user-3".to_owned()),
        "{left:?}"
    );
}

/// A shell with the environment that `command` has.
fn holdup_in_shell(command: &Command, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdin(Stdio::null());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

#[test]
fn a_watch_that_is_started_again_replaces_nothing() {
    let scratch = Scratch::new("places-watch");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let mut first = None;
    for number in 1..=2 {
        let watch =
            ["watch", "--quiet", "-t", "output:now", "--after", "0s", "-o", "w.holdup", "--", "echo", "now"];
        let output = run(&scratch, &watch);
        assert!(output.status.success(), "{}", stderr(&output));
        let path = scratch.join(&format!("w-{number}.holdup/manifest.json"));
        let manifest = fs::read(path).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
        let first = first.get_or_insert(manifest);
        assert_eq!(fs::read(scratch.join("w-1.holdup/manifest.json")).expect("the first"), *first);
    }
    let watch =
        ["watch", "--quiet", "-t", "output:now", "--quota", "1k", "-o", "w.holdup", "--", "echo", "now"];
    let output = run(&scratch, &watch);
    assert!(stderr(&output).contains("--quota is reached"), "{}", stderr(&output));
    assert!(!scratch.join("w-3.holdup").exists());
}

#[test]
fn an_export_replaces_what_was_named_once_it_is_whole() {
    let scratch = Scratch::new("places-export");
    to_import(&scratch);
    let output = run(
        &scratch,
        &["import", fixture("sched.perf").to_str().expect("utf-8"), "--quiet", "-o", "t.holdup"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let file = scratch.join("out.json");
    fs::write(&file, "of the user").expect("write");
    let export = "export t.holdup --to perfetto --force -o out.json";
    let all = names(&scratch.0);
    let mut limited = holdup_in_shell(&holdup(&scratch), &format!("ulimit -f 1; exec \"$0\" {export}"));
    limited.arg(holdup(&scratch).get_program()).current_dir(&scratch.0);
    let output = limited.output().expect("sh");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).expect("still there"), "of the user");
    assert_eq!(names(&scratch.0), all);
    let output = run(&scratch, &export.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(file.metadata().expect("a file").len() > 1024);
    assert_eq!(names(&scratch.0), all);
    let piped = run(&scratch, &["export", "t.holdup", "--to", "perfetto", "-o", "/dev/stdout"]);
    assert!(piped.status.success(), "{}", stderr(&piped));
    assert_eq!(
        piped.stdout,
        fs::read(&file).expect("the file"),
        "a pipe is written to: {}",
        stdout(&piped).len()
    );
}

/// Without -o, on a terminal, holdup chooses the name: the user has not allowed to replace the file.
#[test]
fn an_export_that_names_its_file_itself_replaces_none() {
    let scratch = Scratch::new("places-named");
    to_import(&scratch);
    let output = run(&scratch, &["import", "stacks.folded", "--quiet", "-o", "t.holdup"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let export = || {
        let mut command = holdup(&scratch);
        command.current_dir(&scratch.0).args(["export", "t.holdup", "--to", "folded"]);
        Terminal::start(command).end()
    };
    let before = names(&scratch.0);
    let (status, said) = export();
    assert!(status.success(), "{said}");
    let made = names(&scratch.0).into_iter().find(|name| !before.contains(name)).expect("a file");
    fs::write(scratch.join(&made), "of the user").expect("write");
    let (status, said) = export();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("is already there"), "{said}");
    assert_eq!(fs::read_to_string(scratch.join(&made)).expect("still there"), "of the user");
}
