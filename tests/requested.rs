//! Programs that request collections explicitly: the requesting threads and functions. Skipped if a tool is
//! missing.

mod support;

use serde_json::Value;
use support::{Scratch, bpf_or_skip, have, made, record_json};

/// Many objects live, and buffers outside of the heap at their limit.
const JAVA: &str = "import java.nio.ByteBuffer;
class Packs {
    static final Object[] live = new Object[1_000_000];
    static volatile long sum;
    static void pack() {
        ByteBuffer buffer = ByteBuffer.allocateDirect(4 << 20);
        for (int at = 0; at < buffer.capacity(); at++) sum += buffer.get(at);
    }
    public static void main(String[] words) throws Exception {
        for (int at = 0; at < live.length; at++) live[at] = new long[2];
        Thread[] packers = new Thread[2];
        for (int number = 0; number < 2; number++)
            packers[number] = new Thread(() -> { for (int left = 40; left > 0; left--) pack(); });
        for (Thread packer : packers) packer.start();
        for (Thread packer : packers) packer.join();
    }
}
";

/// How much memory is in use, asked for each piece of work. Each time all stop: on the thread's own stack, not the goroutine's.
const GO: &str = "package main
import (\"runtime\"; \"sync\")
var sink [4]uint64
//go:noinline
func room() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse
}
func piece(worker int) {
	for at := 0; at < 10000; at++ { sink[worker] += room() / uint64(at+1) }
}
func main() {
	runtime.GOMAXPROCS(2)
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func(worker int) { defer all.Done(); piece(worker) }(worker)
	}
	all.Wait()
}
";

/// The same, a collection for each piece of work.
const PYTHON: &str = "import gc
live = [[] for _ in range(300000)]
def piece():
    sum(range(20000))
    gc.collect()
for _ in range(60):
    piece()
";

/// The finding about the collector, and its first advice.
fn gc_finding(report: &Value) -> (String, String) {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["rule"] == "gc-heavy");
    let found = found.unwrap_or_else(|| panic!("{findings:#?}"));
    let lines: Vec<&str> = found["summary"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    (lines.join(" "), found["advice"][0].as_str().unwrap_or_default().to_owned())
}

#[test]
fn javas_buffers_at_their_limit_ask_for_collections() {
    let scratch = Scratch::new("requested-java");
    if !bpf_or_skip(&scratch) || !made(&scratch, ("Packs.java", JAVA), &["javac", "Packs.java"]) {
        return;
    }
    let folder = scratch.join("");
    let classes = folder.to_str().unwrap();
    let report =
        record_json(&scratch, &[], &["java", "-XX:MaxDirectMemorySize=16m", "-cp", classes, "Packs"]);
    let (said, advice) = gc_finding(&report);
    assert!(said.contains("with java.nio.Bits.reserveMemory for Packs.pack"), "{said}");
    assert!(advice.contains("MaxDirectMemorySize"), "{advice}");
}

/// Names of a binary without symbols are in its line table. Its frames are found by frame pointers.
#[test]
fn a_go_program_asks_for_stops() {
    let scratch = Scratch::new("requested-go");
    let build = |flags: &str| {
        let command = ["go", "build", "-ldflags", flags, "-o", "rooms", "rooms.go"];
        made(&scratch, ("rooms.go", GO), &command)
    };
    for flags in ["", "-s -w"] {
        if !bpf_or_skip(&scratch) || !build(flags) {
            return;
        }
        let report = record_json(&scratch, &[], &[scratch.join("rooms").to_str().unwrap()]);
        let (said, advice) = gc_finding(&report);
        assert!(said.contains("with runtime.ReadMemStats for main.room"), "{flags:?}: {said}");
        assert!(advice.contains("runtime/metrics"), "{flags:?}: {advice}");
    }
}

#[test]
fn a_python_program_asks_for_collections() {
    let scratch = Scratch::new("requested-python");
    if !bpf_or_skip(&scratch) || !have("python3") {
        return;
    }
    let program = scratch.join("pieces.py");
    std::fs::write(&program, PYTHON).unwrap();
    let report = record_json(&scratch, &[], &["python3", program.to_str().unwrap()]);
    let (said, advice) = gc_finding(&report);
    assert!(said.contains("The program itself requests collections") && said.contains("piece"), "{said}");
    assert!(advice.contains("gc.collect()"), "{advice}");
}
