//! `holdup top`: lines, the screen in a terminal, and metrics.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use holdup_findings::derive::class::Class;
use serde_json::Value;
use support::pty::Terminal;
use support::python::python_with;
use support::{Scratch, as_unprivileged_user, bpf_or_skip, class_sum, holdup, stderr, unprivileged_place};

/// A program that works and sleeps in turn until it is stopped.
const WORKS: [&str; 3] =
    ["sh", "-c", "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.01; done"];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn lines_of_json_add_up() {
    let scratch = Scratch::new("top-json");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let mut program = Command::new(WORKS[0]).args(&WORKS[1..]).spawn().expect("sh");
    let pid = program.id().to_string();
    let output = holdup(&scratch).args(["top", "--json", "-n", "3", "-d", "300ms", &pid]).output().unwrap();
    program.kill().expect("kill");
    program.wait().expect("wait");
    assert!(output.status.success(), "{}", stderr(&output));
    let lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    let mut end = 0;
    for line in &lines {
        let length = number(&line["end_ns"]) - number(&line["start_ns"]);
        assert!(number(&line["start_ns"]) > end, "one behind the other");
        end = number(&line["end_ns"]);
        assert_eq!(class_sum(&line["ledger"]["classes"]), number(&line["ledger"]["total_ns"]));
        let threads = line["threads"].as_array().unwrap();
        let lives: u64 = threads.iter().map(|thread| number(&thread["life_ns"])).sum();
        assert_eq!(lives, number(&line["ledger"]["total_ns"]));
        for thread in threads {
            assert_eq!(class_sum(&thread["classes"]), number(&thread["life_ns"]));
        }
        for cpu in line["cpus"].as_array().unwrap() {
            let all = class_sum(&cpu["classes"]) + number(&cpu["others_ns"]) + number(&cpu["idle_ns"]);
            assert_eq!(all, length, "{cpu}");
        }
        assert!(threads.iter().any(|thread| number(&thread["pid"]).to_string() == pid), "{line}");
    }
}

#[test]
fn plain_lines_are_printed_with_the_programs_output() {
    let scratch = Scratch::new("top-batch");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let output = holdup(&scratch)
        .args(["top", "--batch", "-d", "100ms", "--", "sh", "-c", "echo mine; sleep 0.5; exit 3"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), b"mine\n".as_slice()));
    let said = stderr(&output);
    // Which intervals are skipped depends on the machine. The shell is in each of them.
    assert!(said.contains("holdup itself:") && said.contains("  sh  "), "{said}");
}

#[test]
fn without_a_terminal_the_alternative_is_named() {
    let scratch = Scratch::new("top-no-terminal");
    let output = holdup(&scratch).args(["top", "--", "true"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--batch prints lines"), "{}", stderr(&output));
    let output = holdup(&scratch).args(["top", "-d", "1ms"]).output().unwrap();
    assert!(stderr(&output).contains("from 100ms to 60s"), "{}", stderr(&output));
    let output = holdup(&scratch).args(["top", "--batch", "--metrics", "0.0.0.0:0"]).output().unwrap();
    assert!(stderr(&output).contains("--metrics-open"), "{}", stderr(&output));
}

const SCREEN_BEGINS: &str = "\x1b[?1049h";
const SCREEN_ENDS: &str = "\x1b[?1049l";

#[test]
fn the_terminal_is_given_back() {
    let scratch = Scratch::new("top-screen");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let start = || {
        let mut command = holdup(&scratch);
        command.env("NO_COLOR", "1").env("TERM", "xterm").args(["top", "-d", "100ms", "-o"]);
        command.arg(scratch.join("saved.holdup")).args(["--", "sh", "-c"]);
        command.arg("echo $((6*7)) is written; trap 'exit 5' INT TERM; while :; do sleep 0.02; done");
        let terminal = Terminal::start(command);
        terminal.resize(100, 30);
        // The screen update omits unchanged blanks.
        terminal.wait_for("itself:", 1);
        terminal
    };
    let shown = |screen: &str| {
        let (before, after) = screen.rsplit_once(SCREEN_ENDS).expect("it was left");
        assert!(before.contains(SCREEN_BEGINS));
        assert!(!before.contains("42 is written"), "held back");
        after.to_owned()
    };
    let mut terminal = start();
    terminal.type_in("w");
    while !scratch.join("saved-1.holdup/manifest.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    terminal.type_in("\x03");
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(5), "{screen}");
    let after = shown(&screen);
    assert!(after.contains("42 is written") && after.contains("saved 1 recording"), "{after}");
    assert!(scratch.join("saved-1.holdup/manifest.json").exists());

    let terminal = start();
    terminal.signal(libc::SIGTERM);
    let (status, screen) = terminal.end();
    assert_eq!(status.code(), Some(5), "{screen}");
    assert!(shown(&screen).contains("42 is written"));
}

#[test]
fn metrics_grow_and_are_whole() {
    let scratch = Scratch::new("top-metrics");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let mut child = holdup(&scratch)
        .args(["watch", "--quiet", "--metrics", "0", "-t", "signal:USR1", "--"])
        .args(WORKS)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address =
        line.trim().strip_prefix("holdup: metrics at http://").and_then(|rest| rest.split_once('/'));
    let address = address.unwrap_or_else(|| panic!("{line}")).0.to_owned();
    let ask = || {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
    };
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    };
    // However slow the machine: some time it has looked twice.
    let first = loop {
        let text = ask();
        if value(&text, "holdup_observed_seconds_total") > 0.0 {
            break text;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let second = loop {
        let text = ask();
        if value(&text, "holdup_observed_seconds_total") > value(&first, "holdup_observed_seconds_total") {
            break text;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    // The program gets it, too: a SIGKILL would leave that running.
    // SAFETY: a signal to a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) }, 0);
    child.wait().unwrap();
    let sum = |text: &str, family: &str| -> f64 {
        let rows = text.lines().filter(|line| line.starts_with(family));
        rows.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    };
    assert!(sum(&second, "holdup_thread_seconds_total{") > sum(&first, "holdup_thread_seconds_total{"));
    assert_eq!(value(&second, "holdup_triggers_fired_total{trigger=\"signal:USR1\"}"), 0.0);
    read_as_prometheus_does(&scratch, &second);
}

/// Prometheus' own client must parse each line, and so must its checker, if installed.
fn read_as_prometheus_does(scratch: &Scratch, text: &str) {
    let file = scratch.join("metrics.txt");
    std::fs::write(&file, text).unwrap();
    if let Some(python) = python_with("prometheus_client", &["python"]) {
        let script = "import sys\n\
                      from prometheus_client.parser import text_string_to_metric_families as read\n\
                      for one in read(sys.stdin.read()):\n    \
                      print(one.name, one.type, bool(one.documentation), len(one.samples))\n";
        let read = Command::new(python)
            .args(["-c", script])
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        assert!(read.status.success(), "{}", stderr(&read));
        let told = String::from_utf8(read.stdout).unwrap();
        // A counter's name is written with `_total`, which is not part of it.
        let classes = Class::ALL.len();
        for wanted in [
            format!("holdup_thread_seconds counter True {classes}"),
            "holdup_run_queue_seconds counter True 4".to_owned(),
            "holdup_triggers_fired counter True 1".to_owned(),
            "holdup_observed_seconds counter True 1".to_owned(),
            "holdup_own_memory_bytes gauge True 1".to_owned(),
            "holdup_threads gauge True 1".to_owned(),
        ] {
            assert!(told.lines().any(|line| line == wanted), "{wanted}: {told}");
        }
        let is_typed = |line: &str| line.contains(" counter True ") || line.contains(" gauge True ");
        assert!(told.lines().all(is_typed), "each has its type and a help: {told}");
    }
    if support::have("promtool") {
        let checked = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", stderr(&checked));
    }
}

/// By capabilities of its file, as the package has it, and as an ordinary user: the machine's processes are seen, of other users, too.
#[test]
fn an_unprivileged_user_sees_by_file_capabilities() {
    let scratch = Scratch::new("top-setcap");
    if !bpf_or_skip(&scratch) || !support::have("setcap") {
        return;
    }
    let Some(program) = unprivileged_place(&scratch) else { return };
    let rights = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_syslog,cap_sys_nice,\
                  cap_checkpoint_restore+ep";
    let lent = Command::new("setcap").arg(rights).arg(&program).output().expect("setcap runs");
    if !lent.status.success() {
        return println!("skipped: setcap was refused: {}", stderr(&lent));
    }
    let mut works = Command::new(WORKS[0]).args(&WORKS[1..]).spawn().expect("sh");
    let pid = works.id().to_string();
    let looked = as_unprivileged_user(&program, &scratch)
        .args(["top", "--json", "-n", "2", "-d", "300ms", "--keep", "1s", &pid])
        .output()
        .unwrap();
    works.kill().expect("kill");
    works.wait().expect("wait");
    let said = stderr(&looked);
    if said.contains("setpriv: ") {
        return println!("skipped: the file's rights are not to be had here: {said}");
    }
    assert!(looked.status.success(), "{said}");
    let lines: Vec<Value> =
        looked.stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for line in lines {
        assert_eq!(class_sum(&line["ledger"]["classes"]), number(&line["ledger"]["total_ns"]));
        let threads = line["threads"].as_array().unwrap();
        assert!(threads.iter().any(|thread| number(&thread["pid"]).to_string() == pid), "{line}");
    }
}
