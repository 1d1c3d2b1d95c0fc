//! Spans by probes for runtimes that record none themselves: each hit is recorded once, and the program does
//! not notice. A place that is hit too often is no longer probed. Skipped if a tool is missing.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, holdup, made, report_json, safepoints, stderr, stdout};

/// Calls `work` the number of times given as its argument. First it waits until the code of `work` has changed
/// at the entry and the return, because the probes are set then. Gives up after a minute.
const CALLS: &str = "#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) long work(long x) { __asm__ volatile(\"\" : : : \"memory\"); return x * 3 + 1; }
__attribute__((noinline)) long behind(long x) { __asm__ volatile(\"\" : : : \"memory\"); return x; }
static int changed(const unsigned char *before, long length) {
    int places = 0;
    const volatile unsigned char *now = (const void *)work;
    for (long i = 0; i < length; i++)
        places += now[i] != before[i] && now[i] == 0xcc;
    return places;
}
int main(int count, char **words) {
    unsigned char before[64];
    long length = (char *)behind - (char *)work, sum = behind(0);
    int wanted = atoi(words[1]);
    if (length <= 0 || length > 64)
        length = 64;
    memcpy(before, (void *)work, length);
    for (int i = 0; i < 60000 && changed(before, length) < 2; i++)
        usleep(1000);
    printf(\"%d probes\\n\", changed(before, length));
    fflush(stdout);
    for (int i = 0; i < wanted; i++)
        sum = work(sum);
    printf(\"%d %ld\\n\", changed(before, length), sum);
}
";

const DESCRIPTOR: &str = "[runtime]
name = \"calls\"
title = \"Calls\"
function = [\"work\"]

[[span]]
name = \"working\"
kind = \"user\"
entry = [\"work\"]
per_second_max = PER_SECOND
";

const GO: &str = "package main
import (\"fmt\"; \"runtime\"; \"time\")
func deep(n int, pad [16]int) int {
	if n == 0 { return pad[3] }
	pad[n%16] += n
	return deep(n-1, pad) + 1
}
func main() {
	until := time.Now().Add(1500 * time.Millisecond)
	sum := make(chan int)
	for i := 0; i < 3; i++ {
		go func() {
			total := 0
			for time.Now().Before(until) { total = deep(20000, [16]int{}) }
			sum <- total
		}()
	}
	for time.Now().Before(until) { runtime.GC() }
	total := <-sum + <-sum + <-sum
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	fmt.Println(total, stats.NumGC)
}
";

const JAVA: &str = "public class Safe {
    static volatile int sum;
    public static void main(String[] words) throws Exception {
        long until = System.nanoTime() + 2_500_000_000L;
        Thread other = new Thread(() -> { while (System.nanoTime() < until) sum++; });
        other.start();
        while (System.nanoTime() < until) { System.gc(); Thread.sleep(5); }
        other.join();
        System.out.println(\"done\");
    }
}
";

/// Runs a command under holdup. Returns its output and the report.
fn recorded(scratch: &Scratch, options: &[&str], command: &[&str]) -> (String, Value) {
    let recording = scratch.join("t.holdup");
    let mut run = holdup(scratch);
    run.current_dir(scratch.join(".")).args(["run", "--quiet", "--stacks", "none", "-o"]).arg(&recording);
    let output = run.args(options).arg("--").args(command).output().expect("holdup runs");
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    (stdout(&output), report_json(scratch, Path::new(&recording)))
}

/// Whether the source is active. If this kernel cannot do it, prints the reason and returns `false`.
fn is_active(report: &Value) -> bool {
    let sources = report["sources"].as_array().expect("sources");
    let source = sources.iter().find(|source| source["name"] == "runtime-probes");
    let missing = source.map_or("", |source| source["missing"].as_str().unwrap_or_default());
    if support::lacks_function_probes(missing) {
        println!("skipped: {missing}");
        return false;
    }
    assert!(source.is_some_and(|source| source["active"] == true), "{source:?}");
    assert!(
        missing.starts_with("spans before the probes were attached are not recorded: at most "),
        "{missing}"
    );
    true
}

fn calls(scratch: &Scratch, per_second: &str, times: &str) -> Option<(String, Value)> {
    if !bpf_or_skip(scratch) || !made(scratch, ("calls.c", CALLS), &["gcc", "-O0", "-o", "calls", "calls.c"])
    {
        return None;
    }
    std::fs::write(scratch.join("d.toml"), DESCRIPTOR.replace("PER_SECOND", per_second)).expect("written");
    Some(recorded(scratch, &["--descriptor", "d.toml"], &["./calls", times]))
}

#[test]
fn each_call_is_one_span() {
    let scratch = Scratch::new("stops-calls");
    let Some((said, report)) = calls(&scratch, "1000000", "3000") else { return };
    if !is_active(&report) {
        return;
    }
    assert!(
        said.starts_with("2 probes\n2 "),
        "an entry and a return are probed: {said} {}",
        report["sources"]
    );
    let events = &report["runtime_events"][0];
    assert_eq!(
        (&events["runtime"], &events["spans"]),
        (&Value::from("calls"), &Value::from(3000)),
        "{events}"
    );
    assert_eq!((&events["own_spans"], &events["events"]), (&Value::from(3000), &Value::from(6000)));
    assert_eq!(report["loss"]["events"], 0, "{}", report["loss"]);
}

#[test]
fn probes_that_fire_too_often_are_removed_and_reported() {
    let scratch = Scratch::new("stops-guard");
    let Some((said, report)) = calls(&scratch, "100", "20000000") else { return };
    if !is_active(&report) {
        return;
    }
    // Its code is as it was: twenty million calls last longer than it takes to hear of it.
    assert!(said.starts_with("2 probes\n0 "), "{said}");
    assert_eq!(report["loss"]["by_source"]["runtime-probes"], 1, "{}", report["loss"]);
    assert!(
        report["runtime_events"][0]["spans"].as_u64().is_some_and(|spans| spans <= 100),
        "{}",
        report["runtime_events"]
    );
}

#[test]
fn collections_and_stops_of_a_stripped_go_program_are_recorded() {
    let scratch = Scratch::new("stops-go");
    let build = ["go", "build", "-ldflags", "-s -w", "-o", "gc", "gc.go"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("gc.go", GO), &build) {
        return;
    }
    let (said, report) = recorded(&scratch, &[], &["./gc"]);
    if !is_active(&report) {
        return;
    }
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.first(), Some(&37_541_250), "stacks that grow and move are whole: {said}");
    // Collections before the code was found are missing.
    let told = report["gc"]["major"].as_u64().unwrap_or(0);
    assert!(told > 0 && told <= numbers[1], "{told} of {}", numbers[1]);
    assert_eq!(report["gc"]["matched"], report["gc"]["events"]);
    let pauses = report["gc"]["pauses"]["count"].as_u64().unwrap_or(0);
    assert!(pauses >= told, "{pauses} pauses of {told} collections");
}

#[test]
fn a_killed_recorder_leaves_no_probe() {
    let scratch = Scratch::new("stops-killed");
    if !bpf_or_skip(&scratch)
        || !made(&scratch, ("calls.c", CALLS), &["gcc", "-O0", "-o", "calls", "calls.c"])
    {
        return;
    }
    std::fs::write(scratch.join("d.toml"), DESCRIPTOR.replace("PER_SECOND", "1000000")).expect("written");
    let mut program = Command::new(scratch.join("calls"))
        .arg("1000000000")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut recorder = holdup(&scratch)
        .current_dir(scratch.join("."))
        .args(["attach", "--quiet", "--descriptor", "d.toml", &program.id().to_string()])
        .spawn()
        .expect("holdup starts");
    let mut lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
    let armed = lines.next().expect("a line").expect("text");
    recorder.kill().expect("killed");
    recorder.wait().expect("gone");
    if armed != "2 probes" {
        program.kill().expect("killed");
        program.wait().expect("gone");
        return println!("skipped: no probe in a minute: {armed}");
    }
    // With a probe at each call it would take hours.
    let said = lines.next().expect("a line").expect("text");
    assert!(said.starts_with("0 "), "{said}");
    assert!(program.wait().expect("it ends").success());
}

#[test]
fn safepoints_of_a_java_program_are_recorded() {
    let scratch = Scratch::new("stops-java");
    if !bpf_or_skip(&scratch) || !made(&scratch, ("Safe.java", JAVA), &["javac", "Safe.java"]) {
        return;
    }
    let command = ["java", "-Xlog:safepoint:file=safe.log:tn", "-Xmx64m", "Safe"];
    let (said, report) = recorded(&scratch, &[], &command);
    assert_eq!(said, "done\n");
    let named = report["sources"].to_string();
    if !named.contains("runtime-probes") {
        return println!("skipped: libjvm.so has neither symbols nor probes here");
    }
    if !is_active(&report) {
        return;
    }
    let log = std::fs::read_to_string(scratch.join("safe.log")).expect("the log");
    safepoints::assert_recorded(&report, &log);
    // For each safepoint: the pause of the requesting thread, and the pause of each stopped thread.
    let [pauses, stops] = ["pauses", "stops"].map(|part| report["gc"][part]["count"].as_u64().unwrap_or(0));
    assert!(pauses >= stops, "{pauses} pauses, {stops} stops");
}
