//! A recorder that is stopped while a program begins: without unwind tables, stacks are copied completely and
//! fill a ring quickly. Thread starts must be recorded nevertheless.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use support::{Scratch, bpf_or_skip, holdup, made, report_json};

/// Prints that it is ready, waits for a line, executes itself again and floods: threads pass bytes to each
/// other this many times. Then eight named threads start.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAIRS 4
#define TURNS 4000

static int pipes[PAIRS][4];

static void *hand_over(void *pair)
{
	char byte = 1;
	int *of = pair;

	for (int i = 0; i < TURNS; i++)
		if (write(of[1], &byte, 1) != 1 || read(of[2], &byte, 1) != 1)
			return "refused";
	return NULL;
}

static void *hand_back(void *pair)
{
	char byte;
	int *of = pair;

	for (int i = 0; i < TURNS; i++)
		if (read(of[0], &byte, 1) != 1 || write(of[3], &byte, 1) != 1)
			return "refused";
	return NULL;
}

static void *late(void *nothing)
{
	prctl(PR_SET_NAME, "late");
	usleep(1000);
	return nothing;
}

static int flood(void)
{
	pthread_t threads[2 * PAIRS], born[8];
	int failed = 0;
	void *refused;

	for (int i = 0; i < PAIRS; i++) {
		if (pipe(pipes[i]) || pipe(pipes[i] + 2))
			return 2;
		pthread_create(&threads[2 * i], NULL, hand_over, pipes[i]);
		pthread_create(&threads[2 * i + 1], NULL, hand_back, pipes[i]);
	}
	for (int i = 0; i < 2 * PAIRS; i++) {
		pthread_join(threads[i], &refused);
		failed |= refused != NULL;
	}
	for (int i = 0; i < 8; i++)
		pthread_create(&born[i], NULL, late, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(born[i], NULL);
	puts("flooded");
	fflush(stdout);
	return failed || getchar() == EOF;
}

int main(int count, char **words)
{
	if (count > 1)
		return flood();
	puts("there");
	fflush(stdout);
	if (getchar() == EOF)
		return 3;
	execl(words[0], words[0], "flood", NULL);
	return 4;
}
"#;

#[test]
fn a_recorder_that_stands_still_while_a_program_begins_knows_its_threads() {
    let scratch = Scratch::new("standing-recorder");
    let command = ["cc", "-O1", "-pthread", "-o", "flood", "flood.c"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("flood.c", PROGRAM), &command) {
        return;
    }
    let recording = scratch.join("t.holdup");
    let mut run = holdup(&scratch);
    run.args(["--stacks", "all", "-o"]).arg(&recording).arg("--").arg(scratch.join("flood"));
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("holdup starts");
    let mut words = child.stdin.take().expect("stdin");
    let mut said = BufReader::new(child.stdout.take().expect("stdout")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    let mut say = || words.write_all(b"x").and_then(|()| words.flush()).expect("it reads");
    let pid = child.id() as i32;

    assert_eq!(next(), "there");
    // SAFETY: stops and continues our own child.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    say();
    let flooded = next();
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    assert_eq!(flooded, "flooded");
    say();
    assert!(child.wait().expect("it ends").success());

    let report = report_json(&scratch, &recording);
    let sources = report["sources"].as_array().expect("sources");
    let definitions = sources.iter().find(|source| source["name"] == "definitions").expect("their source");
    assert_eq!(definitions["lost"], 0, "{definitions}");
    let threads = report["threads"].as_array().expect("threads");
    let late = threads.iter().filter(|thread| thread["name"] == "late").count();
    assert_eq!(late, 8, "{threads:?}");
    // It was tried: more stacks were to be copied than there was room for.
    let ends = &report["stacks"]["completeness"]["blocked"]["ends"];
    assert!(ends["no-tables"].as_u64().is_some_and(|stacks| stacks > 0), "{ends}");
}
