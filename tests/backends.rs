//! A program that was asked for is run, whatever the kernel refuses: the next backend records, or none does. Refusals are made
//! by a seccomp filter that answers single system calls with an error, and by limits of descriptors.

mod support;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use support::{Scratch, backends, bpf_or_skip, holdup, report_json, stderr, stdout};

/// One system call that is refused.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    call: libc::c_long,
    /// The low word of the first argument. `None` for any.
    first: Option<u32>,
    error: i32,
}

const MAP_CREATE: u32 = 0;
const PROG_LOAD: u32 = 5;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const BTF_LOAD: u32 = 18;
const LINK_CREATE: u32 = 28;
const ITER_CREATE: u32 = 33;

fn bpf(command: u32, error: i32) -> Refusal {
    Refusal { call: libc::SYS_bpf, first: Some(command), error }
}

fn call(call: libc::c_long, error: i32) -> Refusal {
    Refusal { call, first: None, error }
}

/// The filter's instructions, for `struct seccomp_data`: the call's number is at byte 0, its first argument at 16.
fn filter(refusals: &[Refusal]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = Vec::new();
    for refusal in refusals {
        steps.push(step(LOAD, 0, 0, 0));
        steps.push(step(IF_EQUAL, 0, if refusal.first.is_some() { 3 } else { 1 }, refusal.call as u32));
        if let Some(first) = refusal.first {
            steps.push(step(LOAD, 0, 0, 16));
            steps.push(step(IF_EQUAL, 0, 1, first));
        }
        steps.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | refusal.error as u32));
    }
    steps.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    steps
}

/// `command` under a kernel that refuses these calls.
fn refusing<'a>(command: &'a mut Command, refusals: &[Refusal]) -> &'a mut Command {
    let mut steps = filter(refusals);
    let install = move || {
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the kernel copies the filter, which lives in the closure.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if installed { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec only system calls.
    unsafe { command.pre_exec(install) }
}

const PROGRAM: [&str; 3] = ["sh", "-c", "echo ran; exit 7"];

fn ran(output: &Output, what: &str) {
    assert_eq!(stdout(output), "ran\n", "{what}: {}", stderr(output));
    assert_eq!(output.status.code(), Some(7), "{what}: {}", stderr(output));
}

/// Records with these refusals. Returns the backend that recorded, and holdup's output.
fn record(scratch: &Scratch, what: &str, refusals: &[Refusal]) -> (String, String) {
    let recording = scratch.join("t.holdup");
    let mut command = holdup(scratch);
    command.args(["run", "--quiet", "-o"]).arg(&recording).arg("--").args(PROGRAM);
    let output = refusing(&mut command, refusals).output().expect("holdup starts");
    ran(&output, what);
    let report = report_json(scratch, &recording);
    assert_eq!(report["exit_status"], 7, "{what}");
    let backend = report["backend"].as_str().expect("a backend").to_owned();
    let reason = report["backend_reason"].as_str().expect("a reason");
    assert_eq!(reason.is_empty(), backend == "bpf", "{what}: {reason}");
    (backend, stderr(&output))
}

#[test]
fn a_refused_call_of_bpf_gives_way_to_the_next_backend() {
    let scratch = Scratch::new("backends");
    if !bpf_or_skip(&scratch) {
        return;
    }
    for command in [MAP_CREATE, PROG_LOAD, RAW_TRACEPOINT_OPEN, LINK_CREATE, ITER_CREATE, BTF_LOAD] {
        for error in [libc::EPERM, libc::EINVAL, libc::ENOMEM] {
            let what = format!("bpf({command}): error {error}");
            let (backend, printed) = record(&scratch, &what, &[bpf(command, error)]);
            println!("{what}: {backend}: {printed}");
            if backend == "bpf" {
                continue;
            }
            assert_eq!(backend, "perf", "{what}: {printed}");
            assert_eq!(printed.lines().count(), 1, "{what}: {printed}");
            assert!(
                printed.contains("BPF is not available") && printed.contains("perf events instead"),
                "{printed}"
            );
        }
    }
}

#[test]
fn without_perf_events_proc_is_polled() {
    let scratch = Scratch::new("backends-perf");
    for error in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        let what = format!("perf_event_open: error {error}");
        let refusals = [call(libc::SYS_perf_event_open, error), call(libc::SYS_bpf, libc::EPERM)];
        let (backend, printed) = record(&scratch, &what, &refusals);
        assert_eq!(backend, "proc", "{what}: {printed}");
        assert_eq!(printed.lines().count(), 1, "{what}: {printed}");
        assert!(printed.contains("polling /proc instead"), "{what}: {printed}");
    }
}

#[test]
fn without_threads_the_program_runs() {
    let scratch = Scratch::new("backends-threads");
    // The C library goes back to clone(2), whose flags a filter sees.
    let flags = (libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID) as u32;
    let no_threads = Refusal { call: libc::SYS_clone, first: Some(flags), error: libc::EAGAIN };
    let mut command = holdup(&scratch);
    command.args(["run", "--quiet", "--"]).args(PROGRAM);
    let refusals = [call(libc::SYS_clone3, libc::ENOSYS), no_threads];
    let output = refusing(&mut command, &refusals).output().expect("holdup starts");
    // Several threads write the tables afterwards, so only the program's own run is checked.
    assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
}

/// A limit of descriptors refuses whatever comes next, step by step.
#[test]
fn whatever_has_no_descriptor_the_program_runs() {
    let scratch = Scratch::new("backends-descriptors");
    // A shell, its pipes and the recording's own files take some 20.
    for limit in [24, 28, 32, 40, 48, 56, 64, 80, 100, 130] {
        let mut command = holdup(&scratch);
        command.args(["run", "--quiet", "--"]).args(PROGRAM);
        let bound = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: a system call.
        unsafe {
            command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const bound) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let output = command.output().expect("holdup starts");
        println!("{limit}: {}", stderr(&output));
        ran(&output, &format!("{limit} descriptors"));
    }
}

#[test]
fn insisting_on_bpf_gives_an_error_before_the_program_runs() {
    let scratch = Scratch::new("backends-only");
    if !bpf_or_skip(&scratch) {
        return;
    }
    for refusal in
        [bpf(PROG_LOAD, libc::EPERM), bpf(ITER_CREATE, libc::EPERM), bpf(LINK_CREATE, libc::EINVAL)]
    {
        let recording = scratch.join("only.holdup");
        let mut command = holdup(&scratch);
        command.args(["run", "--quiet", "--backend", "bpf", "-o"]).arg(&recording).arg("--").args(PROGRAM);
        let output = refusing(&mut command, &[refusal]).output().expect("holdup starts");
        assert_eq!(output.status.code(), Some(2), "{refusal:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{refusal:?}");
        assert!(!recording.exists(), "{refusal:?}: half of a recording is left");
    }
}

#[test]
fn a_watched_program_runs_without_bpf() {
    let scratch = Scratch::new("backends-watch");
    let mut command = holdup(&scratch);
    command.args(["watch", "--trigger", "signal:USR1", "--"]).args(PROGRAM);
    let output = refusing(&mut command, &[call(libc::SYS_bpf, libc::EPERM)]).output().expect("holdup starts");
    ran(&output, "watch");
    assert!(stderr(&output).contains("nothing is recorded"), "{}", stderr(&output));
}

#[test]
fn attach_goes_on_with_the_next_backend() {
    let scratch = Scratch::new("backends-attach");
    if backends(&scratch).len() < 2 {
        return println!("skipped: there is no backend between bpf and proc here");
    }
    let mut other = Command::new("sleep").arg("1000").spawn().expect("sleep");
    let recording = scratch.join("t.holdup");
    let mut command = holdup(&scratch);
    command.args(["attach", &other.id().to_string(), "--for", "100ms", "--quiet", "-o"]).arg(&recording);
    let output = refusing(&mut command, &[bpf(ITER_CREATE, libc::EPERM)]).output().expect("holdup starts");
    let _ = other.kill();
    let _ = other.wait();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report_json(&scratch, &recording);
    println!("{}: {}", report["backend"], stderr(&output));

    let mut command = holdup(&scratch);
    command.args(["attach", "--all", "--for", "100ms", "--quiet"]);
    let output = refusing(&mut command, &[call(libc::SYS_bpf, libc::EPERM)]).output().expect("holdup starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--all needs BPF"), "{}", stderr(&output));
}
