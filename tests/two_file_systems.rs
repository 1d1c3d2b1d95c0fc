//! Files of two file systems may have the same inode number: they are two files.

mod support;

use std::process::{Command, Stdio};

use support::{Scratch, bpf_or_skip, have, is_root, made, report_json, stderr};

/// Two processes each take turns at the lock of a file.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void takes_turns(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0644);

	for (int times = 0; times < 5; times++) {
		flock(file, LOCK_EX);
		usleep(20000);
		flock(file, LOCK_UN);
	}
	_exit(0);
}

int main(int count, char **paths)
{
	struct stat about[3] = {};

	for (int nth = 1; nth < count; nth++) {
		close(open(paths[nth], O_RDWR | O_CREAT, 0644));
		stat(paths[nth], &about[nth]);
		for (int both = 0; both < 2; both++)
			if (!fork())
				takes_turns(paths[nth]);
	}
	while (wait(0) > 0)
		;
	return about[1].st_ino == about[2].st_ino ? 0 : 77;
}
"#;

#[test]
fn files_with_the_same_inode_number_are_two() {
    let scratch = Scratch::new("two-file-systems");
    if !bpf_or_skip(&scratch) {
        return;
    }
    if !is_root()
        || !have("unshare")
        || !made(&scratch, ("locks.c", PROGRAM), &["gcc", "-o", "locks", "locks.c"])
    {
        return println!("skipped: it takes root to mount, unshare and gcc");
    }
    // Mounted where only these commands see it.
    let script = r#"set -e
        mkdir one two; mount -t tmpfs none one; mount -t tmpfs none two
        exec "$HOLDUP" run --quiet -o t.holdup -- ./locks one/file two/file"#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .current_dir(&scratch.0)
        .env("HOLDUP", env!("CARGO_BIN_EXE_holdup"))
        .env("XDG_STATE_HOME", scratch.join("state"))
        .stdin(Stdio::null())
        .output()
        .expect("unshare starts");
    if output.status.code() == Some(77) {
        return println!("skipped: new file systems do not begin with the same inode here");
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report_json(&scratch, &scratch.join("t.holdup"));
    let locks = report["locks"].as_array().expect("locks");
    let names: Vec<&str> = locks.iter().filter_map(|lock| lock["name"].as_str()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("file lock of /file")).count(), 2, "{names:?}");
}
