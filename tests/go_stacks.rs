//! Stacks of Go programs that continue on another stack: C code runs on the thread's own stack, and its
//! callers must be found. Skipped if a tool is missing.

mod support;

use support::{Scratch, bpf_or_skip, holdup, made, stderr};

const GO: &str = "package main
/*
static volatile long sum;
static void burn(long rounds) { for (long at = 0; at < rounds; at++) sum += at; }
*/
import \"C\"
import \"sync\"
//go:noinline
func piece() { C.burn(2000000) }
func main() {
	var all sync.WaitGroup
	for worker := 0; worker < 3; worker++ {
		all.Add(1)
		go func() { defer all.Done(); for at := 0; at < 60; at++ { piece() } }()
	}
	all.Wait()
}
";

/// In a program with cgo, the linker's code precedes Go's own code. The line table does not contain where
/// Go's code begins.
#[test]
fn c_has_its_callers_in_every_kind_of_binary() {
    let scratch = Scratch::new("go-calls-c");
    for (mode, flags) in [("exe", ""), ("exe", "-s -w"), ("pie", "-s -w")] {
        let mode = format!("-buildmode={mode}");
        let build = ["go", "build", &mode, "-ldflags", flags, "-o", "calls", "calls.go"];
        if !bpf_or_skip(&scratch) || !made(&scratch, ("calls.go", GO), &build) {
            return;
        }
        let run = |words: &[&str]| {
            let output =
                holdup(&scratch).args(words).current_dir(scratch.join(".")).output().expect("holdup runs");
            assert!(output.status.success(), "{}", stderr(&output));
        };
        run(&["run", "-o", "c.holdup", "--", scratch.join("calls").to_str().expect("a path")]);
        run(&["export", "--to", "folded", "--force", "-o", "c.folded", "c.holdup"]);
        let stacks = std::fs::read_to_string(scratch.join("c.folded")).expect("stacks");
        let whole = stacks.lines().filter(|line| line.contains("main.piece;main._Cfunc_burn;")).count();
        let called = stacks.lines().filter(|line| line.contains("runtime.asmcgocall;")).count();
        assert!(called > 0 && 2 * whole > called, "{mode} {flags}: {whole} of {called}\n{stacks}");
        assert!(!stacks.contains("runtime.mstart;runtime.asmcgocall"), "{mode} {flags}: {stacks}");
        std::fs::remove_dir_all(scratch.join("c.holdup")).expect("it is a folder");
    }
}
