//! Signals do to a recorded program what they do to it alone.

mod support;

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use support::{Scratch, class_sum, report_json, rungs};

/// `sh -c SCRIPT` in a process group of its own, under holdup or (`rung` is `None`) alone; running when this returns:
/// the script says its process id first.
fn start(scratch: &Scratch, rung: Option<&str>, script: &str) -> (Child, u32) {
    let mut command = match rung {
        None => Command::new("sh"),
        Some(rung) => {
            let mut command = support::holdup(scratch);
            command.args(["--quiet", "--rung", rung, "-o"]).arg(scratch.join("t.holdup"));
            command.args(["--", "sh"]);
            command
        }
    };
    let command = command.args(["-c", script]).process_group(0);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut first = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    while !first.ends_with('\n') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("the program's first line");
        first.push(char::from(byte[0]));
    }
    (child, first.trim().parse().expect("a process id"))
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: sends a signal to processes of this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "{}", std::io::Error::last_os_error());
}

fn end(child: Child) -> (ExitStatus, String) {
    let output = child.wait_with_output().expect("wait");
    (output.status, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn signals_to_the_recorder_or_its_group_are_the_programs() {
    let scratch = Scratch::new("signals");
    let handled =
        "trap 'echo int; exit 5' INT; trap 'echo term; exit 6' TERM; echo $$; while :; do sleep 0.02; done";
    let plain = "echo $$; while :; do sleep 0.02; done";
    for script in [handled, plain] {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            for group in [false, true] {
                let run = |rung| {
                    let (child, _) = start(&scratch, rung, script);
                    let pid = child.id() as i32;
                    kill(if group { -pid } else { pid }, signal);
                    end(child)
                };
                let alone = run(None);
                for rung in rungs(&scratch) {
                    let (status, text) = run(Some(rung));
                    let what = format!("{rung}, signal {signal}, to the group: {group}");
                    assert_eq!(status, alone.0, "{what}");
                    // One to the group may reach the program twice, directly and from the recorder, which cannot
                    // tell it from one that was meant for the recorder alone.
                    let handled = if group { text.lines().next().unwrap_or("") } else { text.trim_end() };
                    assert_eq!(handled, alone.1.trim_end(), "{what}");
                }
            }
        }
    }
}

/// The state letter of a process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

#[test]
fn a_stopped_program_goes_on_and_its_stop_is_told() {
    const STOP: Duration = Duration::from_millis(400);
    let scratch = Scratch::new("stopped");
    for rung in rungs(&scratch) {
        let (mut child, pid) = start(&scratch, Some(rung), "echo $$; read line; echo got $line; exit 9");
        kill(pid as i32, libc::SIGSTOP);
        while state(pid) != Some('T') {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stopped = Instant::now();
        std::thread::sleep(STOP);
        let at_least = stopped.elapsed();
        kill(pid as i32, libc::SIGCONT);
        std::io::Write::write_all(child.stdin.as_mut().expect("a pipe"), b"it\n").expect("write");
        let (status, text) = end(child);
        assert_eq!((status.code(), text.as_str()), (Some(9), "got it\n"), "{rung}");
        let report = report_json(&scratch, &scratch.join("t.holdup"));
        let total = report["ledger"]["total_ns"].as_u64().expect("total");
        assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{rung}");
        assert!(
            u128::from(total) >= at_least.as_nanos(),
            "{rung}: the stop is missing from the thread's life"
        );
        let class = |name: &str| u128::from(report["ledger"]["classes"][name].as_u64().unwrap_or(0));
        // Where switches tell why; elsewhere it depends on when somebody looked. Half: state T is shown a moment early.
        if rung == "bpf" {
            assert!(
                class("stopped") >= at_least.as_nanos() / 2,
                "stopped for {at_least:?}: {}",
                report["ledger"]
            );
        }
    }
}

#[test]
fn a_program_that_dumps_core_does_so() {
    let scratch = Scratch::new("core");
    for (name, number) in [("ABRT", libc::SIGABRT), ("SEGV", libc::SIGSEGV)] {
        let script = format!("ulimit -c unlimited; kill -{name} $$");
        let run = |rung: Option<&str>| {
            let folder = scratch.join(rung.unwrap_or("alone"));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("mkdir");
            let mut command = match rung {
                None => Command::new("sh"),
                Some(rung) => {
                    let mut command = support::holdup(&scratch);
                    command.args(["--quiet", "--rung", rung, "--", "sh"]);
                    command
                }
            };
            let command = command.args(["-c", &script]).current_dir(&folder).stdout(Stdio::null());
            let status = command.status().expect("starts");
            // With a pattern of this machine the cores may be elsewhere: then both folders are empty.
            let cores = std::fs::read_dir(&folder).expect("the folder").count();
            (status.signal(), cores)
        };
        let alone = run(None);
        assert_eq!(alone.0, Some(number));
        for rung in rungs(&scratch) {
            assert_eq!(run(Some(rung)), alone, "{rung} {name}");
        }
        // What a shell makes of it.
        let words = format!("'{}' --quiet -- sh -c 'kill -{name} $$'; exit $?", env!("CARGO_BIN_EXE_holdup"));
        let shell = Command::new("sh")
            .args(["-c", &words])
            .env("XDG_STATE_HOME", scratch.join("state"))
            .output()
            .expect("sh");
        assert_eq!(shell.status.code(), Some(128 + number), "{name}");
    }
}
