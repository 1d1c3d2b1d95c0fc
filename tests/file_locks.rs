//! Processes that take turns at a lock on a file.

mod support;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, record_json};

/// Each process sleeps while it has the lock of a private file, whose name begins as that of an anonymous file of the kernel's does.
const TURNS: &str = r#"
import fcntl, os, sys, time
path, how = sys.argv[1:]
os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
take = fcntl.flock if how == "flock" else fcntl.lockf
pids = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        file = open(path, "r+")
        for _ in range(20):
            take(file, fcntl.LOCK_EX)
            time.sleep(0.005)
            take(file, fcntl.LOCK_UN)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
"#;

/// The reported lock on the file.
fn reported_lock(how: &str) -> Option<(Value, Value)> {
    let scratch = Scratch::new(&format!("file-locks-{how}"));
    if !bpf_or_skip(&scratch) || !have("python3") {
        return None;
    }
    let program = scratch.join("turns.py");
    std::fs::write(&program, TURNS).expect("a file");
    let path = scratch.join("sess_1234");
    let words = ["python3", program.to_str().expect("a name"), path.to_str().expect("a name"), how];
    let report = record_json(&scratch, &[], &words);
    let locks = report["locks"].as_array().expect("locks").iter();
    let of_file: Vec<&Value> = locks.filter(|lock| lock["reason"] == "file-lock").collect();
    assert_eq!(of_file.len(), 1, "one file, one lock: {of_file:#?}");
    Some((of_file[0].clone(), report.clone()))
}

fn check(how: &str) {
    let Some((lock, report)) = reported_lock(how) else { return };
    let name = lock["name"].as_str().expect("a name");
    assert!(name.contains("/sess_1234 in python3"), "{lock:#}");
    assert!(lock["waiters"].as_u64() >= Some(2), "{lock:#}");
    // A wait for a lock whose holder sleeps: on any machine, most of the holder's time is sleep.
    let findings = report["findings"].as_array().expect("findings").iter();
    let mut of_lock =
        findings.filter(|finding| finding["subject"].as_str().is_some_and(|it| it.contains("sess_1234")));
    assert!(of_lock.any(|finding| finding["rule"] == "blocked-lock-holder"), "{:#}", report["findings"]);
}

#[test]
fn flock_of_several_processes_is_one_lock_that_a_sleeper_holds() {
    check("flock");
}

#[test]
fn so_is_a_record_lock() {
    check("lockf");
}
