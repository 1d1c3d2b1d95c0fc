//! Running the `holdup` binary as a user would.
#![allow(dead_code)]

pub mod busy;
pub mod ocaml;
pub mod pty;
pub mod python;
pub mod questions;
pub mod safepoints;
pub mod stalls;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory that is removed at the end of the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("holdup-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Scratch(path)
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary under test: the one that cargo built with the tests, unless `HOLDUP_TEST_BINARY` names another. In a guest
/// without hardware virtualization (`./dev vm`) an unoptimized one takes minutes to start.
fn binary() -> std::ffi::OsString {
    std::env::var_os("HOLDUP_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_holdup").into())
}

/// `holdup`, with its own place for recordings and no colour.
pub fn holdup(scratch: &Scratch) -> Command {
    let mut command = Command::new(binary());
    command.env("XDG_STATE_HOME", scratch.join("state")).env("NO_COLOR", "1").stdin(Stdio::null());
    heed_interrupts(&mut command);
    command
}

/// A background job ignores SIGINT, and so do all its descendants: the tests may run in one.
pub fn heed_interrupts(command: &mut Command) {
    let heed = || {
        // SAFETY: async-signal-safe. Changes only the new process.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Ok(())
    };
    // SAFETY: see there.
    unsafe { command.pre_exec(heed) };
}

pub fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

/// A directory that user `nobody` can reach, with holdup in it.
pub fn unprivileged_place(scratch: &Scratch) -> Option<PathBuf> {
    if !is_root() {
        println!("skipped: not root, so no other user can be had");
        return None;
    }
    if !have("setpriv") {
        return None;
    }
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&scratch.0, all).expect("chmod");
    let program = scratch.join("holdup");
    std::fs::copy(env!("CARGO_BIN_EXE_holdup"), &program).expect("copy");
    Some(program)
}

pub fn as_unprivileged_user(program: &Path, scratch: &Scratch) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--"]);
    command.arg(program).env("XDG_STATE_HOME", scratch.join("state")).env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Records `command` and gives back the report as JSON.
pub fn record_json(scratch: &Scratch, options: &[&str], command: &[&str]) -> serde_json::Value {
    try_record_json(scratch, options, command).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`record_json`], but returns the output if the command or holdup fails.
pub fn try_record_json(
    scratch: &Scratch,
    options: &[&str],
    command: &[&str],
) -> Result<serde_json::Value, String> {
    let recording = scratch.join("t.holdup");
    let _ = std::fs::remove_dir_all(&recording);
    let output = holdup(scratch)
        .arg("run")
        .args(["--quiet", "-o"])
        .arg(&recording)
        .args(options)
        .arg("--")
        .args(command)
        .stdout(Stdio::null())
        .output()
        .expect("holdup starts");
    if !output.status.success() {
        return Err(format!("{command:?}: {:?}\n{}", output.status, stderr(&output)));
    }
    Ok(report_json(scratch, &recording))
}

pub fn report_json(scratch: &Scratch, recording: &Path) -> serde_json::Value {
    let output = holdup(scratch).arg("report").arg(recording).arg("--json").output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(&output)))
}

/// The best backend that this machine allows to this user, by holdup's own doctor.
pub fn backend_here(scratch: &Scratch) -> String {
    let output = holdup(scratch).args(["doctor", "--json"]).output().expect("holdup starts");
    let doctor: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    doctor["backend"].as_str().unwrap_or("proc").to_owned()
}

/// Every backend that is available here.
pub fn backends(scratch: &Scratch) -> Vec<&'static str> {
    match backend_here(scratch).as_str() {
        "bpf" => vec!["bpf", "perf", "proc"],
        "perf" => vec!["perf", "proc"],
        _ => vec!["proc"],
    }
}

/// Whether a test that needs BPF can run. Prints why not. Where BPF is mandatory, a skip is a failure.
pub fn bpf_or_skip(scratch: &Scratch) -> bool {
    if backend_here(scratch) == "bpf" {
        return true;
    }
    assert!(
        std::env::var_os("HOLDUP_REQUIRE_LIVE").is_none(),
        "this machine allows BPF, but holdup's doctor says it does not"
    );
    println!("skipped: BPF is not allowed here");
    false
}

/// Whether this reason is that the kernel, or the rights here, allow no probes at functions of programs.
pub fn lacks_function_probes(missing: &str) -> bool {
    missing.contains("Linux 5.15") || missing.contains("need CAP_SYS_ADMIN")
}

/// Whether a program is installed. Prints a skip if not.
pub fn have(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Whether files of a test are on a disk. Files in memory cause no waits and are not reclaimed.
pub fn is_on_disk(scratch: &Scratch) -> bool {
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(scratch.join(".")).output().expect("stat");
    let kind = String::from_utf8_lossy(&output.stdout);
    let on_disk = !matches!(kind.trim(), "tmpfs" | "ramfs");
    if !on_disk {
        println!("skipped: the temporary folder is in memory");
    }
    on_disk
}

/// Builds a program from a source with a command. If that fails, prints the reason, and the test is to be
/// skipped.
pub fn made(scratch: &Scratch, (name, source): (&str, &str), command: &[&str]) -> bool {
    std::fs::write(scratch.join(name), source).expect("the source is written");
    let mut make = Command::new(command[0]);
    make.args(&command[1..]).current_dir(scratch.join("."));
    make.env("GOCACHE", scratch.join("cache")).env("GO111MODULE", "off").env("HOME", scratch.join("."));
    let ran = make.output();
    let is_made = ran.as_ref().is_ok_and(|output| output.status.success());
    if !is_made {
        println!("skipped: {command:?}: {ran:?}");
    }
    is_made
}

/// Sum of all ledger classes.
pub fn class_sum(classes: &serde_json::Value) -> u64 {
    classes.as_object().expect("classes").values().filter_map(serde_json::Value::as_u64).sum()
}
