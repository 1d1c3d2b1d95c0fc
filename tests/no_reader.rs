//! If holdup's output has no reader, or the disk is full, the program's status stays the same, and the
//! recording is kept.

mod support;

use std::fs::File;
use std::process::{Command, Stdio};

use support::{Scratch, backends, bpf_or_skip, holdup};

/// Standard error without room.
fn full() -> Stdio {
    File::create("/dev/full").expect("/dev/full").into()
}

/// A pipe whose reader is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn status(mut command: Command) -> Option<i32> {
    command.status().expect("holdup starts").code()
}

#[test]
fn a_program_keeps_its_status() {
    let scratch = Scratch::new("no-reader");
    for backend in backends(&scratch) {
        for stderr in [full, closed] {
            let mut command = holdup(&scratch);
            command.args(["--backend", backend, "--", "sh", "-c", "exit 7"]).stderr(stderr());
            assert_eq!(status(command), Some(7), "{backend}");
        }
    }
    for stderr in [full, closed] {
        let mut command = holdup(&scratch);
        command.args(["--syscalls", "--backend", "proc", "--", "sh", "-c", "exit 5"]).stderr(stderr());
        assert_eq!(status(command), Some(5), "what is said before it begins is lost, and no more");
    }
}

#[test]
fn own_failures_are_failures() {
    let scratch = Scratch::new("no-reader-own");
    for stderr in [full, closed] {
        let mut command = holdup(&scratch);
        command.args(["report", "/nowhere.holdup"]).stderr(stderr());
        assert_eq!(status(command), Some(2));
    }
    // If requested output cannot be printed, the command fails, unless its reader has closed the pipe.
    for words in [&[][..], &["--help"], &["explain"], &["man"]] {
        let mut command = holdup(&scratch);
        command.args(words).stdout(full()).stderr(Stdio::null());
        assert_eq!(status(command), Some(2), "{words:?}");
        let mut command = holdup(&scratch);
        command.args(words).stdout(closed()).stderr(Stdio::null());
        assert_eq!(status(command), Some(0), "{words:?}");
    }
}

#[test]
fn what_a_trigger_saves_is_kept() {
    let scratch = Scratch::new("no-reader-watch");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let named = scratch.join("w.holdup");
    let mut command = holdup(&scratch);
    command.args(["watch", "--after", "0s", "-t", "output:now", "-o"]).arg(&named);
    command.args(["--", "sh", "-c", "echo now; sleep 0.3; exit 6"]).stdout(Stdio::null()).stderr(closed());
    assert_eq!(status(command), Some(6));
    assert!(scratch.join("w-1.holdup").join("manifest.json").exists());
}
