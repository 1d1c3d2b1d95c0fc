//! Programs of several runtimes under holdup: each is recognized by its code, and its roles are reported.
//! Skipped if a tool is missing. No checked figure depends on the machine's load.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, holdup, report_json, stderr};

const GO: &str = "package main
import \"sync\"
type node struct{ l, r *node }
func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}
func main() {
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 60; j++ {
				tree(14)
			}
		}()
	}
	group.Wait()
}
";

const PYTHON: &str = "import threading
def work():
    x = 0
    for i in range(4000000):
        x += i
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
";

const OPENMP: &str = "#include <stdio.h>
int main(void) {
    double sum = 0;
    for (int round = 0; round < 40; round++) {
        #pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(3)
        for (int i = 0; i < 2000; i++)
            for (int j = 0; j < i * 4; j++)
                sum += 1.0 / (j + 1.0);
    }
    printf(\"%f\\n\", sum);
}
";

const NODE: &str = "const { Worker, isMainThread } = require('worker_threads');
const tree = (d) => (d ? { l: tree(d - 1), r: tree(d - 1) } : {});
if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);
const keep = [];
for (let i = 0; i < 60; i++) { keep.push(tree(14)); if (keep.length > 8) keep.shift(); }
";

/// Runs a command that makes the program. If it fails, prints the reason and returns `false`.
fn made(scratch: &Scratch, source: (&str, &str), command: &[&str]) -> bool {
    std::fs::write(scratch.join(source.0), source.1).expect("the source is written");
    let Some((program, arguments)) = command.split_first() else { return true };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(scratch.join("."));
    command.env("GOCACHE", scratch.join("cache")).env("GO111MODULE", "off").env("HOME", scratch.join("."));
    let ran = command.output();
    let is_made = ran.as_ref().is_ok_and(|output| output.status.success());
    if !is_made {
        println!("skipped: {program} {arguments:?}: {ran:?}");
    }
    is_made
}

/// Whether a program is there.
fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("skipped: there is no {program}");
    }
    there
}

/// Records a command. Returns the data of one runtime, and the whole report.
fn recorded(scratch: &Scratch, command: &[&str], runtime: &str) -> (Value, Value) {
    let recording = scratch.join("t.holdup");
    let output = holdup(scratch)
        .args(["run", "--quiet", "--stacks", "all", "-o"])
        .arg(&recording)
        .arg("--")
        .args(command)
        .output()
        .expect("holdup runs");
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    let report = report_json(scratch, Path::new(&recording));
    let ledger = &report["ledger"];
    let classes = ledger["classes"].as_object().expect("classes");
    let sum: u64 = classes.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(sum), ledger["total_ns"].as_u64());
    let found = report["runtimes"].as_array().expect("runtimes").iter().find(|one| one["name"] == runtime);
    (found.unwrap_or_else(|| panic!("no {runtime} in {}", report["runtimes"])).clone(), report)
}

fn has_role(runtime: &Value, wanted: &[&str]) -> bool {
    let roles = runtime["roles"].as_array().expect("roles");
    roles.iter().any(|used| wanted.iter().any(|role| used["role"] == *role))
}

#[test]
fn go_threads_without_a_goroutine_have_no_work() {
    let scratch = Scratch::new("runtimes-go");
    if !bpf_or_skip(&scratch) || !made(&scratch, ("gc.go", GO), &["go", "build", "-o", "gc", "gc.go"]) {
        return;
    }
    let program = scratch.join("gc");
    let (go, report) = recorded(&scratch, &[program.to_str().expect("a path")], "go");
    assert!(has_role(&go, &["work-wait", "gc-wait"]), "{go}");
    assert!(has_role(&go, &["gc-work", "allocator"]), "{go}");
    let waits = &report["ledger"]["classes"];
    assert!(waits["work-wait"].as_u64() > Some(0) || waits["gc-wait"].as_u64() > Some(0), "{waits}");
}

#[test]
fn the_interpreter_lock_is_one_lock_with_a_name() {
    let scratch = Scratch::new("runtimes-python");
    if !bpf_or_skip(&scratch) || !is_there("python3") || !made(&scratch, ("gil.py", PYTHON), &[]) {
        return;
    }
    let script = scratch.join("gil.py");
    let (python, report) = recorded(&scratch, &["python3", script.to_str().expect("a path")], "cpython");
    assert!(has_role(&python, &["lock"]), "{python}");
    let locks = report["locks"].as_array().expect("locks").iter();
    let named: Vec<&Value> = locks
        .filter(|lock| lock["name"].as_str().is_some_and(|name| name.starts_with("interpreter lock")))
        .collect();
    assert_eq!(named.len(), 1, "{}", report["locks"]);
    assert!(named[0]["waiters"].as_u64() >= Some(2), "{}", named[0]);
}

#[test]
fn openmp_threads_wait_for_each_other() {
    let scratch = Scratch::new("runtimes-openmp");
    let compile = ["gcc", "-O1", "-fopenmp", "-o", "loop", "loop.c"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("loop.c", OPENMP), &compile) {
        return;
    }
    let program = scratch.join("loop");
    let (openmp, _) = recorded(&scratch, &[program.to_str().expect("a path")], "libgomp");
    assert!(has_role(&openmp, &["spin", "join-wait"]), "{openmp}");
}

#[test]
fn node_collects_garbage_in_parallel() {
    let scratch = Scratch::new("runtimes-node");
    if !bpf_or_skip(&scratch) || !is_there("node") || !made(&scratch, ("gc.js", NODE), &[]) {
        return;
    }
    let script = scratch.join("gc.js");
    let command = ["node", "--max-semi-space-size=2", script.to_str().expect("a path")];
    let (v8, _) = recorded(&scratch, &command, "v8");
    assert!(has_role(&v8, &["work-wait", "io-poll"]), "{v8}");
}

#[test]
fn jvm_threads_stop_for_the_collector() {
    let scratch = Scratch::new("runtimes-java");
    let source = ("Stops.java", include_str!("../bench/programs/stops/Stops.java"));
    if !bpf_or_skip(&scratch) || !made(&scratch, source, &["javac", "Stops.java"]) {
        return;
    }
    let classes = scratch.join(".");
    let command =
        ["java", "-XX:+UseParallelGC", "-Xmx64m", "-cp", classes.to_str().expect("a path"), "Stops"];
    let (hotspot, report) = recorded(&scratch, &command, "hotspot");
    assert!(has_role(&hotspot, &["gc-wait"]) && has_role(&hotspot, &["work-wait"]), "{hotspot}");
    assert!(report["ledger"]["classes"]["gc-wait"].as_u64() > Some(0), "{}", report["ledger"]);
}

#[test]
fn haskells_capabilities_collect() {
    let scratch = Scratch::new("runtimes-ghc");
    let source = ("Stops.hs", include_str!("../bench/programs/stops/Stops.hs"));
    let compile =
        ["ghc", "-O1", "-threaded", "-rtsopts", "-package", "containers", "Stops.hs", "-o", "stops"];
    if !bpf_or_skip(&scratch) || !made(&scratch, source, &compile) {
        return;
    }
    let program = scratch.join("stops");
    let command = [program.to_str().expect("a path"), "+RTS", "-N2"];
    let (ghc, _) = recorded(&scratch, &command, "ghc");
    assert!(has_role(&ghc, &["gc-work"]) && has_role(&ghc, &["work-wait", "gc-wait"]), "{ghc}");
}

#[test]
fn erlangs_idle_schedulers_have_no_work() {
    let scratch = Scratch::new("runtimes-erlang");
    let source = ("stops.erl", include_str!("../bench/programs/stops/stops.erl"));
    if !bpf_or_skip(&scratch) || !made(&scratch, source, &["erlc", "stops.erl"]) {
        return;
    }
    let classes = scratch.join(".");
    let command = ["erl", "-noshell", "-pa", classes.to_str().expect("a path"), "-s", "stops", "main"];
    let (beam, _) = recorded(&scratch, &command, "beam");
    assert!(has_role(&beam, &["work-wait"]), "{beam}");
}

#[test]
fn a_users_own_descriptor_is_asked_first() {
    let scratch = Scratch::new("runtimes-own");
    let compile = ["gcc", "-O1", "-fopenmp", "-o", "loop", "loop.c"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("loop.c", OPENMP), &compile) {
        return;
    }
    let own = "[runtime]\nname = \"mine\"\ntitle = \"Mine\"\nmodule = [\"loop\"]\n\
               [[rule]]\nrole = \"gc-work\"\non = \"cpu\"\nmodule = [\"loop\"]\n";
    let file = scratch.join("mine.toml");
    std::fs::write(&file, own).expect("the descriptor is written");
    let recording = scratch.join("t.holdup");
    let run = |arguments: &[&str]| {
        let output = holdup(&scratch).args(arguments).output().expect("holdup runs");
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        output.stdout
    };
    let (program, recording) = (scratch.join("loop"), recording.to_str().expect("a path"));
    run(&["run", "--quiet", "-o", recording, "--", program.to_str().expect("a path")]);
    let json = run(&["report", recording, "--json", "--descriptor", file.to_str().expect("a path")]);
    let report: Value = serde_json::from_slice(&json).expect("JSON");
    assert!(report["ledger"]["classes"]["gc-work"].as_u64() > Some(0), "{}", report["ledger"]);
    assert_eq!(report["runtimes"][0]["name"], "mine");
    std::fs::write(&file, "[runtime]\n").expect("the descriptor is written");
    let refused = holdup(&scratch)
        .args(["run", "--descriptor"])
        .arg(&file)
        .args(["--", "true"])
        .output()
        .expect("holdup runs");
    assert!(!refused.status.success() && stderr(&refused).contains("no descriptor"), "{}", stderr(&refused));
}
