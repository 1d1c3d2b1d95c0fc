//! `holdup watch`: triggers, and the recordings that they save.

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::stalls::{Watched, assert_sound, compile, saved};
use support::{Scratch, bpf_or_skip, holdup, stderr};

#[test]
fn each_stall_of_a_worker_is_saved_with_the_time_before_it() {
    let scratch = Scratch::new("watch-stalls");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let options = ["-t", "pause:lock>40ms", "--keep", "300ms", "--after", "10ms", "--cooldown", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    const STALLS: u32 = 6;
    for _ in 0..STALLS {
        watched.stall();
        watched.until("holdup: saved");
    }
    let (output, said) = watched.end();
    assert_eq!(output.lines().count(), STALLS as usize);
    assert!(said.contains("saved 6 recordings"), "{said}");
    let mut first_start = None;
    for number in 1..=STALLS {
        let report = saved(&scratch, number);
        assert_sound(&report);
        let fired = &report["fired"][0];
        assert_eq!(fired["trigger"], "pause:lock>40ms");
        assert_eq!(fired["thread"], format!("worker-{}", number % 4), "who waited: {fired}");
        assert!(fired["length_ns"].as_u64() >= Some(59_000_000), "{fired}");
        let (start, at) = (report["start_ns"].as_u64().unwrap(), fired["at_ns"].as_u64().unwrap());
        let first_start = *first_start.get_or_insert(start);
        assert!(at - start >= (at - first_start).min(300_000_000), "the history that was asked for");
        let rules: Vec<&str> =
            report["findings"].as_array().unwrap().iter().filter_map(|one| one["rule"].as_str()).collect();
        let verdict = &report["findings"][0];
        let cause = format!("worker-{} (", (number - 1) % 4);
        assert_eq!(verdict["rule"], "long-pause", "{rules:?}");
        assert!(verdict["subject"].as_str().unwrap().starts_with(&cause), "who slept: {verdict}");
        let why: Vec<&str> =
            fired["why"].as_array().unwrap().iter().filter_map(|link| link["text"].as_str()).collect();
        assert!(why[0].contains("for a lock (") && why[1].contains("held it, and slept for "), "{why:?}");
    }
    let text = holdup(&scratch).arg("report").arg(scratch.join("w-2.holdup")).output().unwrap();
    let text = support::stdout(&text);
    assert!(text.starts_with("Saved at ") && text.contains("pause:lock>40ms: thread "), "{text}");
}

/// Threads that were idle since long before the kept time have their state, with the stack of their wait.
#[test]
fn what_began_before_the_kept_time_is_known() {
    let scratch = Scratch::new("watch-before");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let options = ["-t", "signal:USR2", "--keep", "50ms", "--after", "0s", "--stacks", "all"];
    let mut watched = Watched::start(&scratch, &options, &program);
    watched.stall();
    let mut output = BufReader::new(watched.holdup.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    // Longer than the ring keeps, its slack included.
    std::thread::sleep(Duration::from_millis(2500));
    send("-USR2", watched.holdup.id());
    watched.until("holdup: saved");
    watched.holdup.stdout = Some(output.into_inner());
    watched.end();
    let report = saved(&scratch, 1);
    assert_sound(&report);
    assert_eq!(report["fired"][0]["what"], "SIGUSR2 came");
    let threads = report["threads"].as_array().unwrap();
    let names: BTreeSet<&str> = threads.iter().filter_map(|thread| thread["name"].as_str()).collect();
    for worker in ["worker-0", "worker-1", "worker-2", "worker-3"] {
        assert!(names.contains(worker), "{names:?}");
    }
    let blocked = &report["stacks"]["completeness"]["blocked"];
    assert!(blocked["stacks"].as_u64() >= Some(4), "{blocked}");
    assert_eq!(report["ledger"]["classes"]["useful"], 0, "nothing ran in what was kept");
}

/// Triggers are armed before the kernel programs are loaded, which takes seconds on a busy machine.
#[test]
fn a_signal_that_comes_before_the_recording_begins_fires_and_ends_nothing() {
    let scratch = Scratch::new("watch-early");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let fifo = scratch.join("armed");
    let line = format!("line:{}", fifo.display());
    let options = ["-t", "signal:USR2", "-t", &line, "--after", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    until_there(&fifo);
    send("-USR2", watched.holdup.id());
    watched.until("SIGUSR2 came");
    watched.until("holdup: saved");
    watched.end();
    assert_eq!(saved(&scratch, 1)["fired"][0]["what"], "SIGUSR2 came");
}

/// A signal that holdup handles itself is still ignored by the program, if it would be without holdup.
#[test]
fn a_signal_that_is_ignored_fires_and_stays_ignored_by_the_program() {
    let scratch = Scratch::new("watch-ignored");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let script = "trap '' USR2; exec \"$0\" watch --quiet -t signal:USR2 --after 0s -o \"$1\" -- \
        sh -c 'kill -USR2 $$; kill -USR2 $PPID; read line; exit 3'";
    let mut command = Command::new("sh");
    let command =
        command.args(["-c", script]).arg(holdup(&scratch).get_program()).arg(scratch.join("w.holdup"));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("holdup: saved")), "nothing fired");
    drop(child.stdin.take());
    said.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

/// A signal during the start leaves no files behind.
#[test]
fn a_recorder_that_is_stopped_at_once_takes_away_what_it_made() {
    let scratch = Scratch::new("watch-stopped");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let fifo = scratch.join("armed");
    let sleeper = Sleeper::start();
    let line = format!("line:{}", fifo.display());
    let mut command = holdup(&scratch);
    command.args(["watch", "-t", &line, &sleeper.0.id().to_string()]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until_there(&fifo);
    // Its next step is to install signal handlers. Before that, this signal would kill it.
    let taken = || std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    while !catches(&taken(), libc::SIGTERM) {
        std::thread::yield_now();
    }
    send("-TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!fifo.exists());
}

/// A recording that could not be saved is a failure, although the user ended it. A program's own status would
/// be kept.
#[test]
fn a_recorder_that_saved_nothing_exits_with_failure() {
    let scratch = Scratch::new("watch-unsaved");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let fifo = scratch.join("armed");
    let sleeper = Sleeper::start();
    let line = format!("line:{}", fifo.display());
    let mut command = holdup(&scratch);
    let folder = scratch.join("saved");
    std::fs::create_dir(&folder).unwrap();
    command.args(["watch", "--quiet", "-t", &line, "--after", "0s", "-o"]).arg(folder.join("w.holdup"));
    let mut child = command.arg(sleeper.0.id().to_string()).stderr(Stdio::piped()).spawn().unwrap();
    // The recorder checks the folder before it starts this thread.
    while !threads(child.id()).contains("saver") && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    std::fs::remove_dir(&folder).unwrap();
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"now\n").unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("holdup: not saved: ")), "nothing fired");
    send("-TERM", child.id());
    let rest: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:#?}");
    assert!(rest.iter().any(|line| line.contains("a recording could not be saved")), "{rest:#?}");
}

/// A process that sleeps, and is killed when the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names of a process's threads.
fn threads(pid: u32) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name = |place: std::path::PathBuf| std::fs::read_to_string(place.join("comm")).ok();
    entries.filter_map(|entry| Some(name(entry.path())?.trim().to_owned())).collect()
}

/// Whether the process of this status has a handler for it.
fn catches(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal - 1) != 0
}

fn until_there(path: &std::path::Path) {
    while !path.exists() {
        std::thread::yield_now();
    }
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn lines_and_output_fire_and_the_output_is_unchanged() {
    let scratch = Scratch::new("watch-lines");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let fifo = scratch.join("trigger");
    let line = format!("line:{}", fifo.display());
    let options = ["-t", &line, "-t", "output:stall [1-9] is", "--after", "0s", "--cooldown", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    watched.stall();
    watched.stall();
    watched.until("the program wrote: stall 1 is over");
    watched.until("holdup: saved");
    std::fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(b"request 17 was slow\n").unwrap();
    watched.until("line written: request 17 was slow");
    watched.until("holdup: saved");
    let (output, _) = watched.end();
    assert_eq!(output, "stall 0 is over\nstall 1 is over\n");
    assert_eq!(saved(&scratch, 2)["fired"][0]["what"], "line written: request 17 was slow");
    assert!(!fifo.exists(), "made by holdup, and taken away");
}

#[test]
fn only_threads_of_processes_that_were_named_fire() {
    let scratch = Scratch::new("watch-named");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let pause = ["-t", "pause:lock>40ms", "--after", "1s", "--trigger-process"];
    // The program writes this line when the pause is over.
    let other = [&pause[..], &["flock", "-t", "output:stall 0 is over"]].concat();
    let mut watched = Watched::start(&scratch, &other, &program);
    watched.stall();
    watched.until("holdup: saved");
    watched.end();
    let fired = &saved(&scratch, 1)["fired"];
    assert!(fired.as_array().unwrap().iter().all(|one| one["trigger"] != "pause:lock>40ms"), "{fired}");
    let mut watched = Watched::start(&scratch, &[&pause[..], &["stalls"]].concat(), &program);
    watched.stall();
    watched.until("holdup: saved");
    watched.end();
    assert_eq!(saved(&scratch, 2)["fired"][0]["trigger"], "pause:lock>40ms");
}

/// The last output of a program is often the relevant one: the program ends before the output has been read.
#[test]
fn last_words_fire() {
    let scratch = Scratch::new("watch-last-words");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let mut command = holdup(&scratch);
    command.args(["watch", "--quiet", "-t", "output:^fatal", "-o"]).arg(scratch.join("w.holdup"));
    let script =
        "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; echo 'fatal error: all are asleep' >&2; exit 7";
    let output = command.args(["--", "sh", "-c", script]).output().expect("holdup runs");
    assert_eq!(output.status.code(), Some(7));
    let report = saved(&scratch, 1);
    assert_sound(&report);
    assert_eq!(report["fired"][0]["what"], "the program wrote: fatal error: all are asleep");
}

/// The reader of the output may close it: the program then gets the same error as without holdup.
#[test]
fn a_program_without_a_reader_ends() {
    let scratch = Scratch::new("watch-unread");
    if !bpf_or_skip(&scratch) {
        return;
    }
    let script = "{ \"$0\" watch --quiet -t output:ERROR -- yes; echo $? >\"$1\"; } | head -n 1";
    let status = scratch.join("status");
    let mut command = Command::new("sh");
    let command = command.args(["-c", script]).arg(holdup(&scratch).get_program()).arg(&status);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "y\n", "{}", stderr(&output));
    let status = std::fs::read_to_string(status).unwrap();
    assert_eq!(status.trim(), (128 + libc::SIGPIPE).to_string(), "{}", stderr(&output));
}

/// All threads of the recorder drop the privileges that the recorder drops once its programs are loaded.
/// Threads write files and read files of others.
#[test]
fn every_thread_has_given_up_what_the_recorder_has() {
    let scratch = Scratch::new("watch-rights");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let mut watched = Watched::start(&scratch, &["-t", "output:stall 0", "--after", "0s"], &program);
    watched.stall();
    watched.until("holdup: saved");
    let pid = watched.holdup.id();
    let mut names = BTreeSet::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let place = thread.unwrap().path();
        let Ok(status) = std::fs::read_to_string(place.join("status")) else { continue };
        names.extend(status.lines().find_map(|line| line.strip_prefix("Name:\t").map(str::to_owned)));
        let main = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert_eq!(rights(&status), rights(&main), "{status}");
        assert!(rights(&status).contains(&"NoNewPrivs:\t1"), "{status}");
    }
    assert!(names.contains("saver") && names.contains("output"), "{names:?}");
    watched.end();
}

fn rights(status: &str) -> Vec<&str> {
    status.lines().filter(|line| line.starts_with("Cap") || line.starts_with("NoNewPrivs")).collect()
}

/// Only calls that pass the kernel's own filter fire.
#[test]
fn syscalls_fire_with_a_condition_on_their_arguments() {
    let scratch = Scratch::new("watch-syscalls");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    // It writes "stall 0 is over" and the end of the line.
    let (small, large) = ("hit:syscall:write(count == 16)", "hit:syscall:write(count > 4096)");
    let options = ["-t", small, "-t", large, "-t", "hit:syscall:no_such_call", "--after", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    let said = watched.until("no_such_call");
    if !said.contains("this kernel has no tracepoint syscalls:sys_enter_no_such_call") {
        return println!("skipped: {said}");
    }
    watched.stall();
    watched.until("holdup: saved");
    let (output, _) = watched.end();
    assert_eq!(output, "stall 0 is over\n");
    let report = saved(&scratch, 1);
    assert_sound(&report);
    let fired: BTreeSet<&str> =
        report["fired"].as_array().unwrap().iter().filter_map(|one| one["trigger"].as_str()).collect();
    assert_eq!(fired, BTreeSet::from([small]));
    assert_eq!(report["fired"][0]["thread"], "stalls");
}

/// A recorder that is killed leaves the program as it was: it goes on, and ends with its own status.
#[test]
fn the_program_outlives_its_recorder() {
    let scratch = Scratch::new("watch-killed");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let options = ["-t", "pause:lock>40ms", "-t", "function:stall>40ms", "--after", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    watched.stall();
    watched.until("holdup: saved");
    // To wait for a child closes its input, if that is still its own.
    let mut input = watched.holdup.stdin.take().unwrap();
    watched.holdup.kill().unwrap();
    watched.holdup.wait().unwrap();
    input.write_all(b"\n").unwrap();
    drop(input);
    let mut output = String::new();
    watched.holdup.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output, "stall 0 is over\nstall 1 is over\n");
    assert_sound(&saved(&scratch, 1));
}

/// Calls of any thread fire. A missing function is reported, and the other triggers work.
#[test]
fn functions_fire_in_any_thread() {
    let scratch = Scratch::new("watch-functions");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let options =
        ["-t", "function:stall>40ms", "-t", "function:stallion>40ms", "--after", "0s", "--cooldown", "0s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    let said = watched.until("stallion");
    if support::lacks_function_probes(&said) {
        return println!("skipped: {said}");
    }
    assert!(said.contains("no file that the program has mapped so far has stallion"), "{said}");
    for _ in 0..3 {
        watched.stall();
        watched.until("holdup: saved");
    }
    watched.end();
    for number in 1..=3u32 {
        let report = saved(&scratch, number);
        assert_sound(&report);
        let fired = &report["fired"][0];
        assert_eq!(fired["thread"], format!("worker-{}", number - 1), "who was in it: {fired}");
        assert!(fired["what"].as_str().unwrap().starts_with("was in stall for "), "{fired}");
    }
    let mut watched = Watched::start(&scratch, &["-t", "hit:function:stall", "--after", "0s"], &program);
    // A probe is set once the binary has been read, whose duration depends on the machine.
    let stalls = watched.stall_again_and_again();
    watched.until("holdup: saved");
    drop(stalls);
    watched.end();
    // Behind those of the first one.
    assert_eq!(saved(&scratch, 4)["fired"][0]["what"], "hit stall");
}

/// Only calls with such arguments fire, whichever thread makes them.
#[test]
fn functions_fire_with_a_condition_on_their_arguments() {
    let scratch = Scratch::new("watch-arguments");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let wanted = "hit:function:turn(arg0 > 2 && arg1:s32 < -2)";
    // Never so: an int has nothing above its 32 bits, and is compared with its sign.
    let never = "hit:function:turn(arg1:s32 > 0 || arg1:u32 == 2 || arg0 > 3 || !(arg0 >= 0))";
    // As long as four workers have their turns.
    let options = ["-t", never, "-t", wanted, "-t", "hit:function:absent(arg0 > 1)", "--after", "3s"];
    let mut watched = Watched::start(&scratch, &options, &program);
    let said = watched.until("absent");
    if support::lacks_function_probes(&said) {
        return println!("skipped: {said}");
    }
    let stalls = watched.stall_again_and_again();
    watched.until("holdup: saved");
    drop(stalls);
    watched.end();
    let report = saved(&scratch, 1);
    assert_sound(&report);
    for fired in report["fired"].as_array().unwrap() {
        assert_eq!(fired["trigger"], wanted, "{fired}");
        assert_eq!(fired["thread"], "worker-3", "{fired}");
        assert_eq!(fired["what"], "hit turn(arg0 > 2 && arg1:s32 < -2)");
    }
}

#[test]
fn limits_are_kept_and_the_program_goes_on() {
    let scratch = Scratch::new("watch-limits");
    let Some(program) = compile(&scratch).filter(|_| bpf_or_skip(&scratch)) else { return };
    let base = ["-t", "pause:lock>40ms", "--after", "0s", "--cooldown", "0s"];
    let mut watched = Watched::start(&scratch, &[&base[..], &["--max-saves", "1"]].concat(), &program);
    watched.stall();
    watched.until("saved 1 recording");
    watched.stall();
    assert_eq!(watched.end().0.lines().count(), 2, "it went on unrecorded");
    // It would count.
    std::fs::remove_dir_all(scratch.join("w-1.holdup")).unwrap();
    let mut watched = Watched::start(&scratch, &[&base[..], &["--quota", "1"]].concat(), &program);
    watched.stall();
    watched.until("not enough for the next recording");
    assert!(watched.end().1.contains("saved 0 recordings"));
}

#[test]
fn unavailable_triggers_are_reported_and_the_rest_stay_active() {
    let scratch = Scratch::new("watch-bad");
    let bad = |words: &[&str]| {
        let output = holdup(&scratch).arg("watch").args(words).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    assert!(bad(&["-t", "pause:nap>1s"]).contains("'nap' is no kind of pause"));
    assert!(bad(&["-t", "hit:function:f(count > 1)"]).contains("'count' is no argument"));
    assert!(bad(&["-t", "signal:KILL"]).contains("is not USR1 or USR2"));
    assert!(bad(&["-t", "output:["]).contains("--trigger output:["));
    assert!(bad(&["-t", "line:/no/such/folder/fifo"]).contains("no trigger is left"));
    if bpf_or_skip(&scratch) {
        let words =
            ["watch", "-t", "line:/no/such/folder/fifo", "-t", "signal:USR1", "--", "sh", "-c", "exit 3"];
        let output = holdup(&scratch).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("/no/such/folder/fifo"), "{}", stderr(&output));
    }
}
