//! A program that stalls on request, under `holdup watch`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;

use super::{Scratch, class_sum, have, holdup, report_json};

/// For each line that it reads, one worker holds a lock until another has waited for it for 60 ms and more.
const STALLS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#define WORKERS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t go[WORKERS], held, done;
static int holds[WORKERS];

/* Holds the lock until it was waited for. */
__attribute__((noinline)) void stall(void)
{
	sem_post(&held);
	while (*(volatile int *)&lock.__data.__lock != 2)
		usleep(1000);
	usleep(60000);
}

/* Says whose turn it is. */
__attribute__((noinline)) int turn(long number, int negative)
{
	usleep(1);
	return number == -negative;
}

static void *work(void *number)
{
	long i = (long)number;

	for (;;) {
		sem_wait(&go[i]);
		pthread_mutex_lock(&lock);
		if (holds[i] && turn(i, -i))
			stall();
		pthread_mutex_unlock(&lock);
		sem_post(&done);
	}
}

int main(void)
{
	pthread_t threads[WORKERS];
	char name[16], line[80];

	sem_init(&held, 0, 0);
	sem_init(&done, 0, 0);
	for (long i = 0; i < WORKERS; i++) {
		sem_init(&go[i], 0, 0);
		pthread_create(&threads[i], 0, work, (void *)i);
		snprintf(name, sizeof name, "worker-%ld", i);
		pthread_setname_np(threads[i], name);
	}
	for (int round = 0; fgets(line, sizeof line, stdin); round++) {
		int holder = round % WORKERS, waiter = (round + 1) % WORKERS;

		holds[holder] = 1;
		holds[waiter] = 0;
		sem_post(&go[holder]);
		sem_wait(&held);
		sem_post(&go[waiter]);
		sem_wait(&done);
		sem_wait(&done);
		printf("stall %d is over\n", round);
		fflush(stdout);
	}
	_exit(7);
}
"#;

/// The program, if there is a compiler.
pub fn compile(scratch: &Scratch) -> Option<PathBuf> {
    if !have("cc") {
        return None;
    }
    let (source, program) = (scratch.join("stalls.c"), scratch.join("stalls"));
    std::fs::write(&source, STALLS).unwrap();
    let done = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(done.expect("cc runs").success());
    Some(program)
}

/// `holdup watch` of the program, which stalls on request.
pub struct Watched {
    pub holdup: Child,
    said: BufReader<ChildStderr>,
    lines: Vec<String>,
}

impl Watched {
    pub fn start(scratch: &Scratch, options: &[&str], program: &Path) -> Watched {
        let mut command = holdup(scratch);
        command
            .args(["watch", "--quiet", "-o"])
            .arg(scratch.join("w.holdup"))
            .args(options)
            .arg("--")
            .arg(program);
        let mut holdup = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("holdup starts");
        let said = BufReader::new(holdup.stderr.take().unwrap());
        Watched { holdup, said, lines: Vec::new() }
    }

    /// Makes it do so.
    pub fn stall(&mut self) {
        self.holdup.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Stalls twice per second, until the returned sender is dropped.
    pub fn stall_again_and_again(&mut self) -> Sender<()> {
        let (until, told) = channel();
        let mut stdin = self.holdup.stdin.take().unwrap();
        std::thread::spawn(move || {
            while told.recv_timeout(Duration::from_millis(500)) == Err(RecvTimeoutError::Timeout) {
                stdin.write_all(b"\n").unwrap();
            }
        });
        until
    }

    /// Reads holdup's output up to this text.
    pub fn until(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            let count = self.said.read_line(&mut line).unwrap();
            assert!(count > 0, "'{what}' was not said: {:#?}", self.lines);
            self.lines.push(line.clone());
            if line.contains(what) {
                return line;
            }
        }
    }

    /// Ends the program. Returns its output, and holdup's output.
    pub fn end(mut self) -> (String, String) {
        drop(self.holdup.stdin.take());
        let (mut output, mut rest) = (String::new(), self.lines.concat());
        self.said.read_to_string(&mut rest).unwrap();
        self.holdup.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert_eq!(self.holdup.wait().unwrap().code(), Some(7), "the program's own status: {rest}");
        (output, rest)
    }
}

/// The report of the saved recording.
pub fn saved(scratch: &Scratch, number: u32) -> Value {
    report_json(scratch, &scratch.join(&format!("w-{number}.holdup")))
}

/// The invariants of every recording.
pub fn assert_sound(report: &Value) {
    let lives: u64 =
        report["threads"].as_array().unwrap().iter().map(|thread| class_sum(&thread["classes"])).sum();
    assert_eq!(class_sum(&report["ledger"]["classes"]), lives, "the ledger adds up");
    assert_eq!(report["ledger"]["total_ns"].as_u64(), Some(lives));
    assert_eq!(report["mode"], "watch");
    let unknown = report["ledger"]["classes"]["unknown"].as_u64().unwrap();
    assert!(unknown * 100 <= lives, "{unknown} of {lives} ns are unknown");
}
