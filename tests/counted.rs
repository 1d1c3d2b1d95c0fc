//! `--progress function:NAME` and `usdt:PROVIDER:NAME`: calls are counted exactly, in threads and in children, and the program is
//! none the wiser.

mod support;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::{Scratch, have, holdup, stderr};

/// `worked` is called 600 times by three threads and 50 times by a child process. The program fails if
/// `SEMAPHORE` is set and its probe's semaphore is not raised.
const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

volatile unsigned short sold_semaphore __attribute__((section(".probes"), used));
static volatile int raised;

__attribute__((noinline)) void worked(long item)
{
	if (sold_semaphore)
		raised = 1;
	__asm__ volatile(
		"990: nop\n"
		".pushsection .note.stapsdt,\"?\",\"note\"\n"
		".balign 4\n"
		".4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n"
		"992: .balign 4\n"
		"993: .8byte 990b, _.stapsdt.base, sold_semaphore\n"
		".asciz \"shop\"\n"
		".asciz \"sold\"\n"
		".asciz \"8@%0\"\n"
		"994: .balign 4\n"
		".popsection\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
		".weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n"
		"_.stapsdt.base: .space 1\n"
		".popsection\n" :: "r"(item));
}

static void *some(void *items)
{
	for (long i = 0; i < (long)items; i++)
		worked(i);
	return 0;
}

int main(void)
{
	pthread_t threads[3];
	int status;

	for (long i = 0; i < 3; i++)
		if (pthread_create(&threads[i], 0, some, (void *)(100 * (i + 1))))
			return 3;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], 0);
	if (!fork()) {
		some((void *)50L);
		_exit(getenv("SEMAPHORE") && !raised);
	}
	wait(&status);
	return WEXITSTATUS(status);
}
"#;

/// The program, if this machine can build it and count in it.
fn program(scratch: &Scratch) -> Option<PathBuf> {
    if !have("gcc") {
        return None;
    }
    if !PathBuf::from("/sys/bus/event_source/devices/uprobe").exists() || unsafe { libc::geteuid() } != 0 {
        println!("skipped: the kernel counts no calls for this user");
        return None;
    }
    let (source, program) = (scratch.join("shop.c"), scratch.join("shop"));
    std::fs::write(&source, SOURCE).unwrap();
    let built =
        Command::new("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    Some(program)
}

fn judged_by(scratch: &Scratch, progress: &str, variable: &str) -> Result<Vec<Value>, String> {
    let mut command = holdup(scratch);
    command.args(["sweep", "--set", variable, "-n", "2", "--warm-up", "0", "--record", "none", "--json"]);
    let output = command.args(["--progress", progress, "--"]).arg(scratch.join("shop")).output().unwrap();
    if !output.status.success() {
        return Err(stderr(&output));
    }
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Ok(value["runs"].as_array().unwrap().iter().map(|run| run["progress"].clone()).collect())
}

#[test]
fn calls_are_counted_in_threads_and_children() {
    let scratch = Scratch::new("counted");
    let Some(program) = program(&scratch) else { return };
    let named = format!("function:{}:worked", program.display());
    for progress in ["function:worked", &named] {
        assert_eq!(judged_by(&scratch, progress, "N=1,2").unwrap(), vec![650.0; 4], "{progress}");
    }
    assert_eq!(judged_by(&scratch, "usdt:shop:sold", "SEMAPHORE=1,2").unwrap(), vec![650.0; 4]);
    for (wrong, why) in [
        ("function:idled", "no function idled"),
        ("usdt:shop:bought", "its probes are shop:sold"),
        ("function:/nowhere/shop:worked", "/nowhere/shop"),
        ("usdt:shop", "usdt:PROVIDER:NAME"),
    ] {
        let said = judged_by(&scratch, wrong, "N=1,2").unwrap_err();
        assert!(said.contains(why), "{wrong}: {said}");
    }
}
