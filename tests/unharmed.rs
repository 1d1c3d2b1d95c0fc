//! The traced program behaves as without holdup: output, status, input, environment. The recorder may even
//! die. Each test runs on every available backend. Signals and terminals have files of their own.

mod support;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use holdup_events::recording::JournalReader;
use support::{Scratch, backends, holdup, report_json, stderr, stdout};

#[test]
fn output_and_status_pass_through() {
    let scratch = Scratch::new("status");
    for backend in backends(&scratch) {
        let output = holdup(&scratch)
            .args(["--backend", backend, "--", "sh", "-c", "echo out; echo err >&2; exit 37"])
            .output()
            .expect("holdup starts");
        assert_eq!(output.status.code(), Some(37), "{backend}: {}", stderr(&output));
        assert_eq!(stdout(&output), "out\n", "{backend}");
        assert!(stderr(&output).contains("err\n"), "{backend}");
    }
}

#[test]
fn standard_input_passes_through() {
    let scratch = Scratch::new("stdin");
    for backend in backends(&scratch) {
        let mut child = holdup(&scratch)
            .args(["--quiet", "--backend", backend, "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("holdup starts");
        child.stdin.take().expect("a pipe").write_all(b"one\ntwo\n").expect("write");
        let output = child.wait_with_output().expect("wait");
        assert_eq!(stdout(&output), "one\ntwo\n", "{backend}");
    }
}

#[test]
fn death_by_signal_is_passed_on() {
    let scratch = Scratch::new("signal");
    for backend in backends(&scratch) {
        for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
            let output = holdup(&scratch)
                .args(["--quiet", "--backend", backend, "--", "sh", "-c", &format!("kill -{name} $$")])
                .output()
                .expect("holdup starts");
            assert_eq!(output.status.signal(), Some(number), "{backend} {name}: {:?}", output.status);
        }
    }
}

#[test]
fn the_program_sees_no_difference_in_its_surroundings() {
    let scratch = Scratch::new("surroundings");
    let script = "umask; ulimit -n; grep -E 'SigBlk|SigIgn|SigCgt|CapEff|NoNewPrivs|Seccomp:' /proc/self/status; \
                  ls /proc/self/fd | sort -n | head -4; env | grep -v -E '^(_|XDG_STATE_HOME|NO_COLOR)=' | sort; pwd";
    let mut alone = std::process::Command::new("sh");
    support::heed_interrupts(&mut alone);
    let alone = alone.args(["-c", script]).stdin(Stdio::null()).output().expect("sh");
    for backend in backends(&scratch) {
        let recorded = holdup(&scratch)
            .args(["--quiet", "--backend", backend, "--", "sh", "-c", script])
            .output()
            .expect("holdup starts");
        let only_env = |text: String| text.replace("\nNO_COLOR=1", "");
        assert_eq!(only_env(stdout(&recorded)), only_env(stdout(&alone)), "{backend}");
    }
}

#[test]
fn killing_the_recorder_leaves_the_program_running() {
    let scratch = Scratch::new("killed");
    for backend in backends(&scratch) {
        let done = scratch.join(&format!("done-{backend}"));
        let go = scratch.join(&format!("go-{backend}"));
        let script = format!(
            "echo started; while [ ! -e {go} ]; do sleep 0.01; done; echo finished > {done}",
            go = go.display(),
            done = done.display()
        );
        let recording = scratch.join(&format!("k-{backend}.holdup"));
        let mut child = holdup(&scratch)
            .args(["--quiet", "--backend", backend, "-o"])
            .arg(&recording)
            .args(["--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("holdup starts");
        let mut first = [0u8; 8];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut first).expect("started");
        std::thread::sleep(std::time::Duration::from_millis(600));
        child.kill().expect("kill");
        child.wait().expect("wait");
        std::fs::write(&go, "").expect("go");
        for _ in 0..1000 {
            if done.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(done.exists(), "{backend}: the program did not survive the recorder");
        let output = holdup(&scratch).arg("report").arg(&recording).output().expect("holdup starts");
        assert!(output.status.success(), "{backend}: {}", stderr(&output));
        assert!(stdout(&output).contains("WHERE THE TIME WENT"), "{backend}: {}", stdout(&output));
        // It begins with the program, not with the journal: loading kernel programs takes its time.
        let mut journal = JournalReader::open(&recording).expect("a journal");
        let opened = journal.manifest().expect("a manifest").start_ns;
        assert!(journal.by_ref().count() > 0, "{backend}: nothing was recorded");
        let begun = journal.manifest().expect("a manifest").start_ns;
        // The state read before is between the two.
        assert!(opened < begun || backend != "bpf", "{backend}: {opened} and {begun}");
        assert_eq!(report_json(&scratch, &recording)["start_ns"], begun, "{backend}");
    }
}
