//! Functions of Python programs have name, file and line, at the interpreter's frames, without the
//! interpreter's cooperation. Waits in functions of its library are classified.

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use holdup_events::tables::{FrameVia, PYTHON_MODULE, StackRow};
use holdup_events::{StackId, Trace, recording};
use support::{Scratch, bpf_or_skip, holdup, stderr};

/// One thread computes, through a call from C. One waits for work. One waits for a lock that the main thread
/// holds while it waits for the first thread.
const PROGRAM: &str = r#"import queue, threading, time

def spin(number):
    total = 0
    for step in range(number):
        total += step * step
    return -total

class Worker:
    def run(self):
        while time.process_time() < 1.5:
            sorted([3, 1, 2], key=lambda number: spin(number * 2000))

def takes(jobs):
    while jobs.get():
        pass

def locks(lock):
    with lock:
        pass

# A busy machine tells the recorder late that this is Python, and who blocks once for all blocks without a name before.
time.sleep(0.5)
jobs, lock = queue.Queue(), threading.Lock()
threads = [threading.Thread(target=Worker().run), threading.Thread(target=takes, args=(jobs,))]
threads.append(threading.Thread(target=locks, args=(lock,)))
with lock:
    for thread in threads:
        thread.start()
    threads[0].join()
jobs.put(0)
"#;

/// Interpreters of this machine, by their real files, each with its minor version: those of distributions and of pyenv.
fn interpreters() -> Vec<(PathBuf, u8)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let kept = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let of_home = kept.map(|version| version.path().join("bin/python3"));
    let script = "import sys; print(sys.version_info[1])";
    let tell = |path: PathBuf| {
        let path = path.canonicalize().ok()?;
        let output = Command::new(&path).args(["-c", script]).output().ok()?;
        let minor: u8 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
        (8..=13).contains(&minor).then_some((path, minor))
    };
    let found: BTreeSet<_> =
        [PathBuf::from("/usr/bin/python3")].into_iter().chain(of_home).filter_map(tell).collect();
    if found.is_empty() {
        println!("skipped: there is no Python 3.8 to 3.13 on this machine");
    }
    found.into_iter().collect()
}

/// The Python functions of a stack, leaf first, without their modules. Other frames between them are `-`.
fn python(trace: &Trace, stack: StackId) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for frame in trace.stack_frames(stack).map(|frame| &trace.frames[frame.index()]) {
        match frame.function.strip_prefix("work.").filter(|_| frame.module == PYTHON_MODULE) {
            Some(name) => names.push(name.to_owned()),
            None if names.last().is_some_and(|last| last != "-") => names.push("-".to_owned()),
            None => {}
        }
    }
    names
}

fn assert_named(trace: &Trace, minor: u8) {
    let (qualified, lambda) = match minor {
        11.. => ("Worker.run", "Worker.run.<lambda>"),
        _ => ("run", "<lambda>"),
    };
    let is_spin = |id: &StackId| python(trace, *id).first().is_some_and(|first| first == "spin");
    let spins: Vec<StackId> = trace.samples.iter().map(|sample| sample.stack).filter(is_spin).collect();
    assert!(spins.len() >= 20, "3.{minor}: {} samples in spin", spins.len());
    // C code runs between the method and its argument to `sorted`.
    let whole = |id: &&StackId| {
        let names = python(trace, **id);
        let named: Vec<&str> = names.iter().map(String::as_str).collect();
        let from = usize::from(named.get(1) == Some(&"-"));
        named.get(1 + from) == Some(&lambda) && named[2 + from..].starts_with(&["-", qualified])
    };
    let in_order = spins.iter().filter(whole).count();
    assert!(
        in_order * 10 >= spins.len() * 9,
        "3.{minor}: {in_order} of {}: {:?}",
        spins.len(),
        python(trace, spins[0])
    );
    let lines: BTreeSet<u32> = spins
        .iter()
        .filter_map(|id| {
            trace
                .stack_frames(*id)
                .map(|frame| &trace.frames[frame.index()])
                .find(|frame| frame.function == "work.spin")
        })
        .map(|frame| frame.line)
        .collect();
    assert!(
        lines.iter().all(|line| (3..=7).contains(line)) && lines.iter().any(|line| *line == 6),
        "{lines:?}"
    );
    assert!(trace.stacks.rows().iter().any(|row: &StackRow| row.via == FrameVia::Interpreted));
}

#[test]
fn functions_of_python_are_named_where_the_interpreter_runs_them() {
    let scratch = Scratch::new("python-names");
    if !bpf_or_skip(&scratch) {
        return;
    }
    std::fs::write(scratch.join("work.py"), PROGRAM).expect("the program is written");
    for (python, minor) in interpreters() {
        println!("{}", python.display());
        let path = scratch.join("t.holdup");
        let _ = std::fs::remove_dir_all(&path);
        let ran = holdup(&scratch)
            .args(["run", "-q", "--stacks", "all", "-o"])
            .args([&path, &PathBuf::from("--"), &python, &scratch.join("work.py")])
            .output()
            .expect("holdup starts");
        assert!(ran.status.success(), "{}", stderr(&ran));
        let trace = recording::open(&path).expect("a recording");
        assert_named(&trace, minor);
        if minor >= 11 {
            assert_waits(&scratch, &path);
        }
    }
}

/// Threads and the reasons of their waits, by functions of Python's library.
fn assert_waits(scratch: &Scratch, path: &std::path::Path) {
    let told = holdup(scratch).args(["report", "--json"]).arg(path).output().expect("holdup starts");
    let report: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let class = |name: &str| report["ledger"]["classes"][name].as_u64().unwrap_or(0);
    let wall = report["wall_ns"].as_u64().expect("a number");
    for name in ["join-wait", "work-wait", "lock-wait"] {
        assert!(class(name) * 3 > wall, "{name}: {} of {wall}: {}", class(name), report["ledger"]["classes"]);
    }
    let locks = report["locks"].as_array().expect("locks");
    let is_ours = |lock: &&serde_json::Value| {
        lock["waiting_at"].as_array().is_some_and(|at| at.iter().any(|one| one["function"] == "work.locks"))
    };
    let lock = locks.iter().find(is_ours).unwrap_or_else(|| panic!("{}", report["locks"]));
    assert!(lock["name"].as_str().is_some_and(|name| name.starts_with("threading lock")), "{lock}");
}
