//! `holdup attach`: the processes included in a recording of a running process.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use holdup_events::recording;
use support::{Scratch, backends, bpf_or_skip, holdup, made, report_json, stderr};

/// A shell that waits for two children, one asleep and one working. They end with the test.
struct Family {
    shell: Child,
    sleeper: u32,
    worker: u32,
}

impl Family {
    fn start() -> Family {
        let script = "sleep 1000 & echo $!; sh -c 'while :; do :; done' & echo $!; wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines().take(2);
        let pids: Vec<u32> = lines.map(|line| line.unwrap().trim().parse().unwrap()).collect();
        Family { shell, sleeper: pids[0], worker: pids[1] }
    }

    fn all(&self) -> BTreeSet<u64> {
        [self.shell.id(), self.sleeper, self.worker].map(u64::from).into()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let pids = [self.sleeper, self.worker].map(|pid| pid.to_string());
        let _ = Command::new("kill").arg("-9").args(pids).status();
        let _ = self.shell.wait();
    }
}

fn attach(scratch: &Scratch, pid: u32, options: &[&str]) -> serde_json::Value {
    let recording = scratch.join("t.holdup");
    let _ = std::fs::remove_dir_all(&recording);
    let mut command = holdup(scratch);
    command.args(["attach", &pid.to_string(), "--for", "500ms", "--quiet", "-o"]).arg(&recording);
    let output = command.args(options).output().expect("holdup starts");
    assert!(output.status.success(), "{}", stderr(&output));
    report_json(scratch, &recording)
}

fn pids(report: &serde_json::Value) -> BTreeSet<u64> {
    let threads = report["threads"].as_array().expect("threads");
    threads.iter().filter_map(|thread| thread["pid"].as_u64()).collect()
}

#[test]
fn what_a_process_has_started_already_belongs_to_it() {
    let scratch = Scratch::new("attach");
    let family = Family::start();
    for backend in backends(&scratch) {
        let report = attach(&scratch, family.shell.id(), &["--backend", backend]);
        assert_eq!(pids(&report), family.all(), "{backend}");
        let alone = attach(&scratch, family.shell.id(), &["--backend", backend, "--only"]);
        assert_eq!(pids(&alone), BTreeSet::from([u64::from(family.shell.id())]), "{backend} --only");
    }
}

#[test]
fn a_child_asleep_at_attach_is_fully_described() {
    let scratch = Scratch::new("attach-blocked");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let family = Family::start();
    let report = attach(&scratch, family.shell.id(), &["--stacks", "all"]);
    let threads = report["threads"].as_array().unwrap();
    let sleeper = threads.iter().find(|thread| thread["pid"] == family.sleeper).expect("the sleeper");
    assert_eq!(sleeper["classes"]["sleep"], report["wall_ns"], "{sleeper}");
    let blocked = &report["stacks"]["completeness"]["blocked"];
    assert!(blocked["stacks"].as_u64() >= Some(2), "the shell's and the sleeper's: {blocked}");
    assert_eq!(blocked["complete"], blocked["stacks"], "{blocked}");
}

/// Events before the begin of the recording are neither part of it nor a loss.
#[test]
fn a_recording_of_one_that_sleeps_all_the_time_contradicts_itself_nowhere() {
    let scratch = Scratch::new("attach-sleeps");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let script = "import time\nwhile True: time.sleep(0.0002)";
    let mut program = Command::new("python3").args(["-c", script]).spawn().expect("python3 starts");
    let report = attach(&scratch, program.id(), &[]);
    let _ = program.kill();
    let _ = program.wait();
    let torn = report["loss"]["by_source"].as_object().unwrap();
    let tables =
        ["slices", "waits", "wakeups", "samples", "steals", "deadlines", "spans", "marks", "counters"];
    assert!(tables.iter().all(|table| !torn.contains_key(*table)), "{torn:?}");
}

/// The first thread ends, and the other one computes two calls below where it begins, without frame pointers.
const HEADLESS: &str = r#"
#include <pthread.h>
#include <stdio.h>

static volatile unsigned sum;

__attribute__((noinline)) static void computes(void)
{
	for (unsigned i = 0; i < 1000000; i++)
		sum += i;
}

__attribute__((noinline)) static void goes_round(void)
{
	for (;;) {
		computes();
		__asm__ volatile("");
	}
}

static void *begins(void *first)
{
	pthread_join(*(pthread_t *)first, 0);
	puts("alone");
	fflush(stdout);
	goes_round();
	return 0;
}

int main(void)
{
	static pthread_t first;
	pthread_t other;

	first = pthread_self();
	pthread_create(&other, 0, begins, &first);
	pthread_exit(0);
}
"#;

/// For such a process, `/proc/PID` is empty.
#[test]
fn stacks_are_whole_though_the_first_thread_has_ended() {
    let scratch = Scratch::new("attach-headless");
    let build = ["gcc", "-O2", "-fomit-frame-pointer", "-pthread", "-o", "headless", "headless.c"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("headless.c", HEADLESS), &build) {
        return;
    }
    let mut program = Command::new(scratch.join("headless")).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let report = attach(&scratch, program.id(), &[]);
    let _ = program.kill();
    let _ = program.wait();
    let trace = recording::open(&scratch.join("t.holdup")).expect("a recording");
    let whole = |sample: &&holdup_events::tables::SampleRow| {
        let names: Vec<&str> = trace
            .stack_frames(sample.stack)
            .map(|frame| trace.frames[frame.index()].function.as_str())
            .collect();
        ["computes", "goes_round", "begins", "start_thread"].iter().all(|wanted| names.contains(wanted))
    };
    let of_it = trace.samples.iter().filter(|sample| trace.threads[sample.thread.index()].target);
    let (all, told) = (of_it.clone().count(), of_it.filter(whole).count());
    assert!(all > 10 && told * 10 > all * 8, "{told} of {all}");
    assert!(report["command"].to_string().contains("headless"), "{}", report["command"]);
}
