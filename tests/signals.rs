//! Signals have the same effect on a recorded program as without holdup.

mod support;

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use support::{Scratch, backends, class_sum, report_json};

/// Starts `sh -c SCRIPT` in a process group of its own, under holdup or alone (`backend` is `None`). Returns
/// when it runs: the script prints its PID first.
fn start(scratch: &Scratch, backend: Option<&str>, script: &str) -> (Child, u32) {
    let mut command = match backend {
        None => Command::new("sh"),
        Some(backend) => {
            let mut command = support::holdup(scratch);
            command.args(["--quiet", "--backend", backend, "-o"]).arg(scratch.join("t.holdup"));
            command.args(["--", "sh"]);
            command
        }
    };
    support::heed_interrupts(&mut command);
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

/// Prints each signal that it gets. SIGWINCH ends it. Signals are forwarded in their order of arrival, so by
/// then it has received all others.
const SAYS_ALL: &str = r#"exec perl -e '$| = 1; for my $name (qw(INT TERM USR1)) { $SIG{$name} = sub { print "$name\n" } }
    $SIG{WINCH} = sub { print "end\n"; exit 5 }; print "$$\n"; sleep 1 while 1'"#;

#[test]
fn signals_to_the_recorder_or_its_group_reach_the_program_once() {
    let scratch = Scratch::new("signals");
    if !support::have("perl") {
        return;
    }
    for backend in [None].into_iter().chain(backends(&scratch).into_iter().map(Some)) {
        for (name, signal) in [("INT", libc::SIGINT), ("TERM", libc::SIGTERM), ("USR1", libc::SIGUSR1)] {
            for group in [false, true] {
                let (mut child, _) = start(&scratch, backend, SAYS_ALL);
                let pid = child.id() as i32;
                kill(if group { -pid } else { pid }, signal);
                // Pending signals would merge, so the next one is sent only after this one is printed.
                let mut said = vec![0; name.len() + 1];
                child.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("what it said");
                kill(pid, libc::SIGWINCH);
                let (status, text) = end(child);
                let text = String::from_utf8_lossy(&said).into_owned() + &text;
                let what = format!("{backend:?}, to the group: {group}");
                assert_eq!((text, status.code()), (format!("{name}\nend\n"), Some(5)), "{what}");
            }
        }
    }
}

#[test]
fn unhandled_signals_end_it() {
    let scratch = Scratch::new("unhandled");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        for group in [false, true] {
            let run = |backend| {
                let (child, _) = start(&scratch, backend, "echo $$; while :; do sleep 0.02; done");
                let pid = child.id() as i32;
                kill(if group { -pid } else { pid }, signal);
                end(child)
            };
            let alone = run(None);
            for backend in backends(&scratch) {
                assert_eq!(run(Some(backend)), alone, "{backend}, signal {signal}, to the group: {group}");
            }
        }
    }
}

#[test]
fn a_signal_to_its_parent_is_not_the_programs() {
    let scratch = Scratch::new("to-parent");
    if !support::have("perl") {
        return;
    }
    let script = r#"exec perl -e '$| = 1; $SIG{USR1} = sub { print "USR1\n" };
        $SIG{WINCH} = sub { print "end\n"; exit 5 }; kill "USR1", getppid; print "$$\n"; sleep 1 while 1'"#;
    for backend in backends(&scratch) {
        let (child, _) = start(&scratch, Some(backend), script);
        kill(child.id() as i32, libc::SIGWINCH);
        let (status, text) = end(child);
        assert_eq!((text.as_str(), status.code()), ("end\n", Some(5)), "{backend}");
    }
}

/// Names and ids of the processes of a process group, zombies left out.
fn group_members(group: u32) -> Vec<(String, u32)> {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let member = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let here = fields.get(2)?.parse() == Ok(group) && !["Z", "X"].contains(fields.first()?);
        here.then(|| (head.split_once('(').unwrap_or_default().1.to_owned(), pid))
    };
    pids.filter_map(member).collect()
}

#[test]
fn the_canary_holds_no_descriptors_and_exits_with_the_recorder() {
    let scratch = Scratch::new("canary");
    for backend in backends(&scratch) {
        for killed in [false, true] {
            let (mut child, program) = start(&scratch, Some(backend), "echo $$; read line; exit 3");
            let group = child.id();
            let members = group_members(group);
            let canary = members.iter().find(|(name, _)| name == "canary").expect("a canary").1;
            let open = std::fs::read_dir(format!("/proc/{canary}/fd")).expect("its descriptors").count();
            assert_eq!(open, 1, "{backend}: the pipe to the recorder and nothing else");
            let line = std::fs::read(format!("/proc/{canary}/cmdline")).expect("its command line");
            assert!(line.starts_with(b"canary\0sh\0-c\0echo $$; read line; exit 3\0"), "{backend}: {line:?}");
            let mut stdin = child.stdin.take().expect("a pipe"); // its end would end the program
            if killed {
                child.kill().expect("kill");
            } else {
                std::io::Write::write_all(&mut stdin, b"\n").expect("write");
            }
            let status = child.wait().expect("wait");
            assert_eq!(status.code(), if killed { None } else { Some(3) }, "{backend}");
            let left: &[u32] = if killed { &[program] } else { &[] };
            // The kernel ends it while it ends the recorder, maybe on another CPU: soon, but not before the wait.
            let end = Instant::now() + Duration::from_secs(10);
            while killed && group_members(group).len() > left.len() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            let members: Vec<u32> = group_members(group).into_iter().map(|(_, pid)| pid).collect();
            assert_eq!(members, left, "{backend}, killed: {killed}");
        }
    }
}

/// The state letter of a process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

#[test]
fn a_stopped_program_continues_and_its_stop_is_recorded() {
    const STOP: Duration = Duration::from_millis(400);
    let scratch = Scratch::new("stopped");
    for backend in backends(&scratch) {
        let (mut child, pid) = start(&scratch, Some(backend), "echo $$; read line; echo got $line; exit 9");
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
        assert_eq!((status.code(), text.as_str()), (Some(9), "got it\n"), "{backend}");
        let report = report_json(&scratch, &scratch.join("t.holdup"));
        let total = report["ledger"]["total_ns"].as_u64().expect("total");
        assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{backend}");
        assert!(
            u128::from(total) >= at_least.as_nanos(),
            "{backend}: the stop is missing from the thread's life"
        );
        let class = |name: &str| u128::from(report["ledger"]["classes"][name].as_u64().unwrap_or(0));
        // Backends with switches know the reason. Otherwise it depends on the time of the poll. Only half is
        // required, because state T is shown slightly early.
        if backend == "bpf" {
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
        let run = |backend: Option<&str>| {
            let folder = scratch.join(backend.unwrap_or("alone"));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("mkdir");
            let mut command = match backend {
                None => Command::new("sh"),
                Some(backend) => {
                    let mut command = support::holdup(&scratch);
                    command.args(["--quiet", "--backend", backend, "--", "sh"]);
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
        for backend in backends(&scratch) {
            assert_eq!(run(Some(backend)), alone, "{backend} {name}");
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

/// The program inherits holdup's original signal settings: systemd ignores SIGPIPE for services. The end of a
/// child is detected even if SIGCHLD was ignored.
#[test]
fn the_program_inherits_ignored_signals() {
    let scratch = Scratch::new("ignored");
    for backend in backends(&scratch) {
        for (signal, ignored) in
            [libc::SIGPIPE, libc::SIGCHLD].into_iter().flat_map(|one| [(one, true), (one, false)])
        {
            let mut command = support::holdup(&scratch);
            command
                .args(["--quiet", "--backend", backend, "-o"])
                .arg(scratch.join(&format!("{backend}-{signal}-{ignored}")));
            command.args(["--", "grep", "SigIgn:", "/proc/self/status"]);
            let as_wanted = move || {
                let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
                // SAFETY: async-signal-safe. Changes only the new process.
                unsafe { libc::signal(signal, action) };
                Ok(())
            };
            // SAFETY: see there.
            let output = unsafe { command.pre_exec(as_wanted) }.output().expect("holdup starts");
            let said = support::stdout(&output);
            let mask = said.split_whitespace().nth(1).and_then(|mask| u64::from_str_radix(mask, 16).ok());
            let mask = mask.expect("a mask");
            assert_eq!(mask >> (signal - 1) & 1 == 1, ignored, "{backend}: signal {signal}");
            assert_eq!(output.status.code(), Some(0), "{backend}: signal {signal}, ignored: {ignored}");
        }
    }
}
