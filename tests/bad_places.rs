//! Adverse conditions: a full disk, a directory without write permission, another user's process, a kernel
//! without BTF, buffers that are too small. The program is never affected, and missing data is reported.

mod support;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{
    Scratch, as_unprivileged_user, backend_here, backends, bpf_or_skip, class_sum, have, holdup, is_root,
    report_json, stderr, stdout, unprivileged_place,
};

/// A small file system of the test's own, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` if mounting is not allowed, with the reason printed.
    fn mount(at: PathBuf, kib: u32) -> Option<SmallDisk> {
        std::fs::create_dir_all(&at).expect("mkdir");
        let options = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(at)),
            _ => {
                println!("skipped: a small file system cannot be mounted here");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = CString::new(self.0.as_os_str().as_bytes()).expect("a path");
        // SAFETY: unmounts what `mount` mounted.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    }
}

/// A program with thousands of switches that prints its progress and ends with status 41.
const BUSY: &str = "i=0; while [ $i -lt 2000 ]; do echo x; i=$((i+1)); done | while read x; do :; done; \
                    j=0; while [ $j -lt 600 ]; do (:); j=$((j+1)); done; echo done $j; exit 41";

/// The ledger's sum is the threads' lives.
fn adds_up(report: &Value, what: &str) {
    let total = report["ledger"]["total_ns"].as_u64().expect("total");
    assert_eq!(class_sum(&report["ledger"]["classes"]), total, "{what}");
    let threads = report["threads"].as_array().expect("threads");
    let life = |thread: &Value| {
        thread["end_ns"].as_u64().expect("end") - thread["start_ns"].as_u64().expect("start")
    };
    assert_eq!(threads.iter().map(life).sum::<u64>(), total, "{what}");
}

fn at_most_low_confidence(report: &Value, what: &str) {
    for finding in report["findings"].as_array().expect("findings") {
        assert_eq!(finding["confidence"], "low", "{what}: {finding}");
    }
}

#[test]
fn a_full_disk_is_reported_without_harm_to_the_program() {
    let scratch = Scratch::new("full");
    for backend in backends(&scratch) {
        // Room for the journal's beginning, not for all of it.
        for kib in [8, 40] {
            let Some(disk) = SmallDisk::mount(scratch.join("disk"), kib) else { return };
            let recording = disk.0.join("t.holdup");
            let file = scratch.join("report.json");
            let output = holdup(&scratch)
                .args(["run", "--backend", backend, "--force", "--json", "--report"])
                .arg(&file)
                .arg("-o")
                .arg(&recording)
                .args(["--", "sh", "-c", BUSY])
                .output()
                .expect("holdup starts");
            let (what, text) = (format!("{backend}, {kib} KiB"), stderr(&output));
            assert_eq!(output.status.code(), Some(41), "{what}: {text}");
            assert_eq!(stdout(&output), "done 600\n", "{what}");
            assert!(!text.contains("panicked"), "{what}: {text}");
            if !text.contains("o space left") {
                println!("{what}: it was enough");
                continue;
            }
            let report: Value =
                serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
            adds_up(&report, &what);
            assert_eq!(report["exit_status"], 41, "{what}");
            let lost = report["loss"]["by_source"]["journal"].as_u64().unwrap_or(0);
            if kib == 8 && backend == "bpf" {
                assert!(lost > 0, "{what}: nothing is said to be missing: {}", report["loss"]);
            }
            if lost > 0 {
                at_most_low_confidence(&report, &what);
            }
            // The written part can be read later, too.
            adds_up(&report_json(&scratch, &recording), &what);
        }
    }
}

#[test]
fn a_limit_on_file_sizes_is_a_full_disk() {
    let scratch = Scratch::new("fsize");
    for backend in backends(&scratch) {
        let recording = scratch.join(&format!("{backend}.holdup"));
        // bash counts in KiB, dash in blocks of 512 bytes.
        let words = format!(
            "ulimit -f 16; exec '{}' --quiet --backend {backend} -o '{}' -- sh -c \"$0\"",
            env!("CARGO_BIN_EXE_holdup"),
            recording.display()
        );
        let output = Command::new("sh").args(["-c", &words, BUSY]).output().expect("sh");
        assert_eq!(output.status.code(), Some(41), "{backend}: {}", stderr(&output));
        assert_eq!(stdout(&output), "done 600\n", "{backend}");
        adds_up(&report_json(&scratch, &recording), backend);
    }
}

/// A process that must not outlive the test.
struct Other(std::process::Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_users_process_is_refused_with_the_reason() {
    let scratch = Scratch::new("another");
    let Some(program) = unprivileged_place(&scratch) else { return };
    let mut other = Other(Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().expect("sleep"));
    let pid = other.0.id().to_string();
    for backend in ["auto", "perf", "proc"] {
        let output = as_unprivileged_user(&program, &scratch)
            .args(["attach", &pid, "--for", "200ms", "--backend", backend])
            .output()
            .expect("setpriv starts");
        let text = stderr(&output);
        assert!(!text.contains("panicked"), "{backend}: {text}");
        assert!(other.0.try_wait().expect("our child").is_none(), "{backend}: it was harmed");
        assert_eq!(output.status.code(), Some(2), "{backend}: {text}");
        assert!(text.contains(&pid), "{backend}: {text}");
        assert!(text.to_lowercase().contains("permi"), "{backend} should say why: {text}");
        assert!(text.contains("sudo "), "{backend} should say what mends it: {text}");
    }
}

#[test]
fn directories_that_cannot_be_written_are_named() {
    let scratch = Scratch::new("read-only");
    let Some(program) = unprivileged_place(&scratch) else { return };
    let folder = scratch.join("roots");
    std::fs::create_dir(&folder).expect("mkdir");
    let output = as_unprivileged_user(&program, &scratch)
        .arg("-o")
        .arg(folder.join("t.holdup"))
        .args(["--", "true"])
        .output()
        .expect("setpriv starts");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("roots/t.holdup") && text.contains("ermission denied"), "{text}");
}

/// An ordinary user has few privileges: the permitted data is recorded, and the report names the missing
/// data.
#[test]
fn an_ordinary_user_gets_a_report() {
    let scratch = Scratch::new("nobody");
    let Some(program) = unprivileged_place(&scratch) else { return };
    let output = as_unprivileged_user(&program, &scratch)
        .args(["-o"])
        .arg(scratch.join("t.holdup"))
        .args(["--", "sh", "-c", "sleep 0.2; exit 3"])
        .output()
        .expect("setpriv starts");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let report = report_json(&scratch, &scratch.join("t.holdup"));
    assert_ne!(report["backend"], "bpf");
    assert_ne!(report["backend_reason"], "", "why not BPF");
    adds_up(&report, "nobody");
}

/// `command` in a mount namespace in which the kernel's description of itself is not there.
fn without_btf(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only system calls on strings that live in the program.
    unsafe {
        command.pre_exec(|| {
            let (none, root, hidden) =
                (std::ptr::null::<libc::c_char>(), c"/".as_ptr(), c"/sys/kernel/btf".as_ptr());
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let tmpfs = c"tmpfs".as_ptr();
            if libc::unshare(libc::CLONE_NEWNS) != 0
                || libc::mount(none, root, none, private, none.cast()) != 0
                || libc::mount(tmpfs, hidden, tmpfs, 0, none.cast()) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    }
}

#[test]
fn a_kernel_without_types_means_the_next_backend() {
    let scratch = Scratch::new("types");
    if !is_root() || backend_here(&scratch) != "bpf" {
        println!("skipped: only root where BPF works can hide the kernel's types");
        return;
    }
    let mut doctor = holdup(&scratch);
    let output = match without_btf(doctor.args(["doctor", "--json"])).output() {
        Ok(output) => output,
        Err(error) => return println!("skipped: no mount namespace: {error}"),
    };
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_ne!(doctor["backend"], "bpf");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "kernel-types").expect("the check");
    assert_eq!(check["status"], "missing", "{check}");
    assert!(check["what"].as_str().is_some_and(|what| what.contains("/sys/kernel/btf")), "{check}");
    assert!(doctor["reason"].as_str().is_some_and(|reason| reason.contains("/sys/kernel/btf")), "{doctor}");

    let recording = scratch.join("t.holdup");
    let mut run = holdup(&scratch);
    run.arg("-o").arg(&recording).args(["--", "sh", "-c", "sleep 0.1; exit 4"]);
    let output = without_btf(&mut run).output().expect("holdup starts");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let report = report_json(&scratch, &recording);
    assert_eq!(report["backend"], doctor["backend"]);
    assert!(
        report["backend_reason"].as_str().is_some_and(|reason| reason.contains("/sys/kernel/btf")),
        "{report}"
    );
    adds_up(&report, "without types");
}

/// A flood of switches into the smallest buffer, with a stopped recorder: events are lost, and all parts of
/// the report reflect that.
#[test]
fn lost_events_are_reported_and_lower_confidence() {
    let scratch = Scratch::new("flood");
    if !bpf_or_skip(&scratch) || !have("stress-ng") {
        return;
    }
    let recording = scratch.join("t.holdup");
    let mut run = holdup(&scratch);
    run.args(["--buffer", "1", "-o"]).arg(&recording);
    run.args(["--", "sh", "-c", "stress-ng --switch 2 --futex 2 -t 3 -q; exit 5"]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("holdup starts");
    // Waits for the flood to begin. The recorder is stopped during much of it.
    let begun = std::time::Instant::now();
    let files = || std::fs::read_dir(&recording).into_iter().flatten().flatten();
    let bytes = || files().filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>();
    while bytes() < 200_000 && begun.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id() as i32;
    // SAFETY: stops and continues our own child.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    std::thread::sleep(std::time::Duration::from_millis(700));
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    let output = child.wait_with_output().expect("wait");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");

    let report = report_json(&scratch, &recording);
    adds_up(&report, "flood");
    let lost = report["loss"]["events"].as_u64().expect("events");
    assert!(lost > 0, "nothing was lost: the recorder was not stopped long enough: {}", report["sources"]);
    // The sequence numbers' gaps, which the report adds up, against the kernel's own counts of what found no room.
    let by_kernel: u64 = report["sources"]
        .as_array()
        .expect("sources")
        .iter()
        .filter_map(|source| source["lost"].as_u64())
        .sum();
    // What came too late is no gap: it is kept.
    let late = report["loss"]["by_source"]["order"].as_u64().unwrap_or(0);
    assert_eq!(lost - late, by_kernel, "gaps and the kernel's counters: {}", report["loss"]);
    let head: String = text.lines().take_while(|line| !line.is_empty()).collect();
    assert!(head.contains("Lost ") && !head.contains("Lost 0 "), "the head must say it: {head}");
    at_most_low_confidence(&report, "flood");
}

#[test]
fn where_processes_have_other_numbers_kernel_programs_are_not_asked() {
    let scratch = Scratch::new("pid-namespace");
    if !is_root() || backend_here(&scratch) != "bpf" || !have("unshare") {
        println!("skipped: only root where BPF works can hide the machine's processes, with unshare");
        return;
    }
    let inside = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", env!("CARGO_BIN_EXE_holdup")]).args(words);
        command.env("XDG_STATE_HOME", scratch.join("state")).output().expect("unshare starts")
    };
    let output = inside(&["doctor", "--json"]);
    let doctor: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = doctor["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "pid-namespace").expect("the check");
    assert_eq!(check["status"], "missing", "{check}");
    assert_ne!(doctor["backend"], "bpf", "{doctor}");
    let recording = scratch.join("t.holdup");
    let path = recording.to_str().expect("a name");
    let output = inside(&["run", "-o", path, "--", "sh", "-c", "sleep 0.1; exit 4"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let report = report_json(&scratch, &recording);
    assert_eq!(report["backend"], doctor["backend"]);
    assert!(!report["threads"].as_array().expect("threads").is_empty(), "{report}");
    // With a backend selected by name, the reason is printed.
    let output = inside(&["run", "--backend", "bpf", "-o", path, "--", "true"]);
    assert!(stderr(&output).contains("PID namespace"), "{}", stderr(&output));
}

#[test]
fn hidden_processes_are_reported() {
    let scratch = Scratch::new("hidepid");
    let Some(program) = unprivileged_place(&scratch) else { return };
    if !have("unshare") {
        return println!("skipped: it takes unshare");
    }
    // Hidden where only these commands see it.
    let script = r#"mount -t proc -o hidepid=2 none /proc || exit 77
        for pid in "$OTHER" 4194303 0; do
            setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all -- "$HOLDUP" attach --for 1s "$pid"
            echo "status $?"
        done"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .env("OTHER", std::process::id().to_string())
        .env("HOLDUP", &program)
        .env("XDG_STATE_HOME", scratch.join("state"))
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    if output.status.code() == Some(77) {
        return println!("skipped: no /proc can be mounted here");
    }
    let said = stderr(&output);
    assert_eq!(stdout(&output), "status 2\nstatus 2\nstatus 2\n", "{said}");
    assert!(said.contains("hidepid") && said.contains("there is no process 4194303"), "{said}");
    assert!(!said.contains("does not show process 0"), "our own group is no process: {said}");
}
