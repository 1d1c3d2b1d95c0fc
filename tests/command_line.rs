//! What the command line accepts, refuses and leaves behind.

mod support;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Output, Stdio};

use support::*;

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    holdup(scratch).current_dir(&scratch.0).args(words).output().expect("holdup starts")
}

/// Fails before anything is done.
fn refused(scratch: &Scratch, words: &[&str]) -> String {
    let output = run(scratch, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
    stderr(&output)
}

fn recorded(scratch: &Scratch) -> &'static str {
    let made = run(scratch, &["run", "--quiet", "-o", "t.holdup", "--", "true"]);
    assert!(made.status.success(), "{}", stderr(&made));
    "t.holdup"
}

/// A command through a shell, which sets up its streams.
fn shell(scratch: &Scratch, line: &str) -> Output {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(line).arg(env!("CARGO_BIN_EXE_holdup"));
    command.current_dir(&scratch.0).env("XDG_STATE_HOME", scratch.join("state"));
    command.output().expect("a shell")
}

#[test]
fn no_command_overwrites_a_file_without_force() {
    let scratch = Scratch::new("command-line-force");
    let recording = recorded(&scratch);
    let file = scratch.join("file");
    let quick = ["-n", "2", "--warm-up", "0", "--record", "none"];
    let diff = [&["diff", "--a", "true", "--b", "true"][..], &quick].concat();
    let scale = [&["scale", "--workers", "1,2", "--env", "N"][..], &quick].concat();
    // Each writer: before its file, and behind it.
    let writers: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["export", recording, "--to", "folded", "-o"], vec![]),
        (vec!["export", recording, "--to", "flame", "-o"], vec![]),
        (vec!["view", recording, "--html"], vec![]),
        (vec!["pack", recording, "-o"], vec![]),
        (vec!["run", "-o", "new.holdup", "--report"], vec!["--", "true"]),
        ([&diff[..], &["--html"]].concat(), vec![]),
        ([&diff[..], &["--table"]].concat(), vec![]),
        ([&scale[..], &["--svg"]].concat(), vec!["--", "true"]),
        ([&scale[..], &["--png"]].concat(), vec!["--", "true"]),
    ];
    for (before, behind) in writers {
        std::fs::write(&file, "of the user").unwrap();
        let words = [&before[..], &["file"], &behind[..]].concat();
        let said = refused(&scratch, &words);
        assert!(said.contains("cannot write file: it is already there (--force replaces it)"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "of the user", "{words:?}");
        let forced = run(&scratch, &[&before[..], &["file", "--force"], &behind[..]].concat());
        if stderr(&forced).contains("built without its viewer") {
            println!("skipped: {words:?}: the page was not built");
            continue;
        }
        assert!(forced.status.success(), "{words:?}: {}", stderr(&forced));
        assert_ne!(std::fs::read(&file).unwrap(), b"of the user", "{words:?}");
    }
    // An empty file is mktemp's.
    std::fs::write(&file, "").unwrap();
    assert!(run(&scratch, &["export", recording, "--to", "folded", "-o", "file"]).status.success());
    // A recording that replaces another program's directory or file is none of these: never, whatever is asked.
    std::fs::write(&file, "of the user").unwrap();
    refused(&scratch, &["run", "--force", "-o", "file", "--", "true"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of the user");
}

#[test]
fn a_named_place_makes_no_directories_above_it() {
    let scratch = Scratch::new("command-line-above");
    recorded(&scratch);
    std::fs::write(scratch.join("folded"), "main;work 3\n").unwrap();
    let quick = ["-n", "2", "--warm-up", "0", "--record", "none"];
    let cases: Vec<Vec<&str>> = vec![
        vec!["run", "-o", "none/deep/x.holdup", "--", "touch", "ran"],
        vec!["watch", "-t", "output:x", "-o", "none/deep/x.holdup", "--", "touch", "ran"],
        vec!["import", "folded", "-o", "none/deep/x.holdup"],
        vec!["pack", "t.holdup", "-o", "none/deep/x.pack"],
        vec!["export", "t.holdup", "--to", "folded", "-o", "none/deep/x"],
        [&["diff", "--a", "touch ran", "--b", "true", "-o", "none/deep/x.holdup-set"][..], &quick].concat(),
    ];
    for words in cases {
        refused(&scratch, &words);
        assert!(!scratch.join("none").exists() && !scratch.join("ran").exists(), "{words:?}");
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let scratch = Scratch::new("command-line-values");
    let me = std::process::id().to_string();
    let cases: [(&[&str], &str); 6] = [
        (&["attach", &me, "--for", "0s"], "above zero"),
        (&["watch", "-t", "output:x", "--keep", "0", "--", "true"], "above zero"),
        (&["top", "--keep", "0", "--", "true"], "above zero"),
        (&["diff", "--a", "true", "--b", "true", "--timeout", "0"], "above zero"),
        (&["run", "--buffer", "63", "--", "true"], "a power of two"),
        (&["run", "--buffer", "2048", "--", "true"], "from 1 to 1024"),
    ];
    for (words, why) in cases {
        let said = refused(&scratch, words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

#[test]
fn an_answer_that_has_no_place_is_a_failure() {
    let scratch = Scratch::new("command-line-closed");
    recorded(&scratch);
    let lines = [
        "report t.holdup",
        "report t.holdup --json",
        "list",
        "doctor",
        "explain",
        "man",
        "completions bash",
        "--help",
        "--version",
        "export t.holdup --to folded",
        "view t.holdup --no-open",
        "whatif t.holdup --cpus 1",
    ];
    for line in lines {
        let output = shell(&scratch, &format!("\"$0\" {line} >&-"));
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains("standard output is closed"), "{line}: {}", stderr(&output));
    }
    // The report goes to standard error, and the status is the program's.
    let output = shell(&scratch, "\"$0\" run -o u.holdup -- sh -c 'exit 5' 2>&-");
    assert_eq!(output.status.code(), Some(5));
    assert!(Path::new(&scratch.join("u.holdup")).exists());
    let output =
        shell(&scratch, "sleep 600 & \"$0\" attach $! --for 200ms -o v.holdup 2>&-; kill $!; exit $?");
    assert!(output.status.success(), "the shell itself: {}", stderr(&output));
    // A file needs no standard output.
    let output = shell(&scratch, "\"$0\" export t.holdup --to folded -o f.txt >&-");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn help_lists_no_command_that_the_build_lacks() {
    let scratch = Scratch::new("command-line-help");
    let help = stdout(&run(&scratch, &["--help"]));
    assert!(!help.contains("this build has none"), "{help}");
    let has_sql = !stderr(&run(&scratch, &["query", "SELECT 1"])).contains("this build has no SQL");
    assert_eq!(help.contains("\n  query"), has_sql, "{help}");
    let page = stdout(&run(&scratch, &["man"]));
    assert!(!page.contains("this build has none"));
}

#[test]
fn a_pipe_gets_whole_names_in_as_many_columns_as_are_asked_for() {
    let scratch = Scratch::new("command-line-columns");
    let name = "n".repeat(150);
    let words = ["run", "--quiet", "-o", "t.holdup", "--", "true", &name];
    assert!(run(&scratch, &words).status.success());
    let shown = |columns: &str| {
        let mut command = holdup(&scratch);
        command.current_dir(&scratch.0).args(["report", "t.holdup"]).env("COLUMNS", columns);
        stdout(&command.output().expect("holdup starts"))
    };
    let longest = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains(&name) && !line.contains("See:"));
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    let (narrow, usual, wide) = (shown("40"), shown("80"), shown("120"));
    for text in [&narrow, &usual, &wide] {
        assert!(text.contains(&name), "{text}");
    }
    assert!(longest(&narrow) <= 40, "{narrow}");
    assert!(longest(&usual) <= 80 && longest(&wide) > longest(&usual), "{wide}");
}

#[test]
fn the_report_has_how_the_command_ended() {
    let scratch = Scratch::new("command-line-ended");
    let cases = [
        ("exit 7", 7.into(), serde_json::Value::Null, "Exit status 7."),
        ("kill -9 $$", 137.into(), 9.into(), "Ended by signal 9 (SIGKILL)."),
    ];
    for (script, status, signal, sentence) in cases {
        let recording = scratch.join("t.holdup");
        let output =
            holdup(&scratch).args(["run", "-o"]).arg(&recording).args(["--", "sh", "-c", script]).output();
        let printed = stderr(&output.expect("holdup starts")).replace('\n', " ");
        assert!(printed.contains(sentence), "{printed}");
        let report = report_json(&scratch, &recording);
        assert_eq!((&report["exit_status"], &report["exit_signal"]), (&status, &signal));
    }
}

#[test]
fn a_damaged_table_is_named_in_the_head_and_in_json() {
    let scratch = Scratch::new("command-line-damaged");
    recorded(&scratch);
    let whole = scratch.join("t.holdup");
    let damaged = scratch.join("d.holdup");
    std::fs::create_dir(&damaged).unwrap();
    let tables: Vec<String> = std::fs::read_dir(&whole)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".parquet").map(str::to_owned))
        .collect();
    assert!(tables.len() > 20, "{tables:?}");
    for table in tables {
        for entry in std::fs::read_dir(&whole).unwrap().flatten() {
            std::fs::copy(entry.path(), damaged.join(entry.file_name())).unwrap();
        }
        let file =
            std::fs::File::options().write(true).open(damaged.join(format!("{table}.parquet"))).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        let report = report_json(&scratch, &damaged);
        assert_eq!(report["damaged"][0]["table"], table.as_str(), "{}", report["damaged"]);
        assert_eq!(report["damaged"][0]["reason"], "unreadable");
        let missing = report["damaged"][0]["missing"].as_str().unwrap();
        for words in [&["report", "d.holdup"][..], &["report", "d.holdup", "sources"]] {
            let text = stdout(&run(&scratch, words));
            let head: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
            let head = head.join(" ").replace("   ", " ");
            let said = format!("Damaged: {table}.parquet cannot be read. Missing: {missing}.");
            assert!(head.contains(&said), "{head}");
            assert!(!head.contains("of unknown size"), "{head}");
        }
        let exported = run(&scratch, &["export", "d.holdup", "--to", "folded"]);
        assert!(stderr(&exported).contains(&format!("Damaged: {table}.parquet")), "{}", stderr(&exported));
    }
    assert_eq!(report_json(&scratch, &whole)["damaged"].as_array().map(Vec::len), Some(0));
}

/// Stops `holdup` with a signal after `waits` × 100 ms. Returns its status, its output, and whether a
/// recording is left.
fn stopped(scratch: &Scratch, words: &[&str], (signal, waits): (i32, u64)) -> (Option<i32>, String, bool) {
    let recording = scratch.join("s.holdup");
    let _ = std::fs::remove_dir_all(&recording);
    let mut command = holdup(scratch);
    command.current_dir(&scratch.0).args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    // Under nohup it would ignore SIGHUP, as it should.
    let by_default = move || {
        // SAFETY: only resets how this process handles the signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: the closure calls nothing that is unsafe between fork and exec.
    unsafe { command.pre_exec(by_default) };
    let child = command.spawn().expect("holdup starts");
    std::thread::sleep(std::time::Duration::from_millis(100 * waits));
    // SAFETY: a child that is not reaped yet.
    unsafe { libc::kill(child.id() as i32, signal) };
    let output = child.wait_with_output().expect("holdup ends");
    let status = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
    (status, stderr(&output), recording.exists())
}

#[test]
fn a_signal_at_any_moment_leaves_a_recording_or_nothing() {
    let scratch = Scratch::new("command-line-stopped");
    let mut target = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = target.id().to_string();
    let commands: [&[&str]; 2] =
        [&["run", "-o", "s.holdup", "--", "sleep", "600"], &["attach", &pid, "-o", "s.holdup"]];
    for (index, signal) in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().enumerate() {
        for waits in [0, 2, 5, 9, 14, 30] {
            let words = commands[(index + waits as usize) % 2];
            let (status, said, is_there) = stopped(&scratch, words, (signal, waits));
            let what = format!("{words:?}, signal {signal} after {waits}: {said}");
            // Whatever moment it was: it is whole, or nothing is there.
            if is_there {
                assert!(scratch.join("s.holdup/manifest.json").exists(), "{what}");
                assert!(!said.contains("with 0 threads"), "{what}");
            } else {
                assert_eq!(status, Some(128 + signal), "{what}");
            }
        }
    }
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn a_job_in_the_background_heeds_an_interrupt_of_a_process() {
    let scratch = Scratch::new("command-line-background");
    // A shell without job control starts the job with SIGINT ignored. The signal is repeated until the job
    // ends.
    let script = "sleep 600 & target=$!; \"$0\" attach $target --backend proc -o b.holdup --quiet & job=$!; \
        while kill -INT $job 2>/dev/null; do sleep 0.2; done; wait $job; echo $?; kill $target";
    let output = shell(&scratch, script);
    assert!(output.status.success(), "{}", stderr(&output));
    let status = stdout(&output);
    assert!(["0\n", "130\n"].contains(&status.as_str()), "{status}: {}", stderr(&output));
}

#[test]
fn threads_with_lost_events_are_unknown_and_counted() {
    let scratch = Scratch::new("command-line-lost");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let place = scratch.join("small");
    std::fs::create_dir(&place).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&place)
        .status()
        .is_ok_and(|status| status.success());
    if !mounted {
        println!("skipped: no small file system can be mounted");
        return;
    }
    // Each process of the shell is a thread of the program.
    let script = "i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done";
    let words = ["run", "--json", "-o", "small/x.holdup", "--", "sh", "-c", script];
    let output = run(&scratch, &words);
    let unmounted = std::process::Command::new("umount").arg(&place).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    let json = said.find("\n{").map(|at| &said[at..]).expect("the report");
    let report: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert!(report["loss"]["events"].as_u64() > Some(0), "{}", report["loss"]);
    // The shell and its children, as far as they were seen.
    let seen = report["threads_seen"].as_u64().unwrap();
    let threads = report["threads"].as_array().unwrap();
    assert!((500..=601).contains(&seen) && (threads.len() as u64) < seen, "{seen}, {}", threads.len());
    // After the loss, the shell's state is unknown.
    let shell = &threads[0]["classes"];
    let all: u64 = shell.as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
    assert!(shell["unknown"].as_u64().unwrap() > all / 2, "{shell}");
}

#[test]
fn the_demo_records_its_program_and_prints_the_next_step() {
    let scratch = Scratch::new("command-line-demo");
    let output = run(&scratch, &["demo", "-o", "d.holdup"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "20000000 words counted\n");
    let text = stderr(&output);
    assert!(text.contains("demo --work") && text.contains("WHERE THE TIME WENT"), "{text}");
    assert!(text.contains("Next: holdup demo --fixed"), "{text}");
    assert!(Path::new(&scratch.join("d.holdup")).exists());
    let fixed = run(&scratch, &["demo", "--fixed", "-o", "e.holdup"]);
    assert!(fixed.status.success(), "{}", stderr(&fixed));
    assert_eq!(stdout(&fixed), "20000000 words counted\n");
}
