//! `diff`, `scale`, `sweep`, `try`: runs are made, kept, resumed and reported, and failures are reported. The
//! conclusions of comparisons are tested in their own crate, so nothing here depends on run times.

mod support;

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::pty::Terminal;
use support::{Scratch, as_unprivileged_user, bpf_or_skip, have, holdup, stderr, stdout, unprivileged_place};

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    holdup(scratch).args(words).output().expect("holdup starts")
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Without recordings: quick, and the same for every user.
const QUICK: [&str; 6] = ["--warm-up", "0", "--record", "none", "--seed", "7"];

#[test]
fn two_commands_are_run_in_turn_kept_and_resumed() {
    let scratch = Scratch::new("diff");
    let set = scratch.join("x.holdup-set");
    let set = set.to_str().unwrap();
    let csv = scratch.join("runs.csv");
    let mut words =
        vec!["diff", "--a", "sleep 0.01", "--b", "sh -c 'sleep 0.01'", "-n", "3", "-o", set, "--json"];
    words.extend(QUICK);
    let value = json(&run(&scratch, &words));
    assert_eq!(value["runs"].as_array().unwrap().len(), 6);
    assert_eq!(value["diff"]["change"]["runs"], 3);
    let page = scratch.join("answer.html");
    let files = ["--table", csv.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let more = [&["diff", "--resume", set, "-n", "5", "--json"], &files[..]].concat();
    let more = json(&run(&scratch, &more));
    assert_eq!(more["runs"].as_array().unwrap().len(), 10);
    assert_eq!(more["runs"][0], value["runs"][0]);
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 11);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("sleep 0.01") && !page.contains("src="),
        "{page}"
    );
    // The reopened set has the same result.
    let report = json(&run(&scratch, &["report", set, "--json"]));
    assert_eq!(report["diff"]["change"], more["diff"]["change"]);
    assert!(stdout(&run(&scratch, &["diff", set, "--markdown"])).contains("**"));
    let rows = scratch.join("again.csv");
    let reopened = ["report", set, "--markdown", "--table", rows.to_str().unwrap()];
    assert!(stdout(&run(&scratch, &reopened)).contains("**"));
    assert_eq!(std::fs::read_to_string(rows).unwrap().lines().count(), 11);
    let none = run(&scratch, &["report", "/no/recording.holdup", "--markdown"]);
    assert!(!none.status.success() && stderr(&none).contains("sets of runs"), "{}", stderr(&none));
    // Nothing is overwritten.
    let again = run(&scratch, &words);
    assert!(!again.status.success() && stderr(&again).contains("--resume"), "{}", stderr(&again));
}

#[test]
fn each_round_has_every_setting_in_an_order_of_its_own() {
    let scratch = Scratch::new("rounds");
    let mut words = vec!["sweep", "--set", "FOO=a,b,c,d", "-n", "4", "--json"];
    words.extend(QUICK);
    words.extend(["--", "sh", "-c", "test -n \"$FOO\""]);
    let value = json(&run(&scratch, &words));
    let runs = value["runs"].as_array().unwrap();
    let orders: Vec<Vec<u64>> = runs
        .chunks(4)
        .map(|round| round.iter().map(|run| run["setting"].as_u64().unwrap()).collect())
        .collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
    }
    assert!(orders.iter().any(|order| *order != orders[0]), "{orders:?}");
    assert!(runs.iter().all(|run| run["failure"] == ""));
}

#[test]
fn progress_is_read_from_the_output() {
    let scratch = Scratch::new("progress");
    let of = |progress: &str| {
        let mut words = vec!["sweep", "--set", "N=100,200", "-n", "2", "--json", "--progress", progress];
        words.extend(["--progress-is", "rate"]);
        words.extend(QUICK);
        words.extend(["--", "sh", "-c", "echo done $N"]);
        run(&scratch, &words)
    };
    let value = json(&of("done ([0-9]+)"));
    assert_eq!(value["goal"], "rate");
    assert_eq!(value["settings"][1]["mean"], 200.0);
    let none = of("finished ([0-9]+)");
    assert!(!none.status.success() && stderr(&none).contains("nothing that matches"), "{}", stderr(&none));
    for (wrong, why) in [("done", "one group"), ("(", "--progress"), ("function:", "function:NAME")] {
        let output = of(wrong);
        assert!(stderr(&output).contains(why), "{wrong}: {}", stderr(&output));
    }
}

#[test]
fn failed_runs_are_reported_and_successful_ones_count() {
    let scratch = Scratch::new("failures");
    let mut words = vec!["sweep", "--set", "CODE=0,3", "-n", "5"];
    words.extend(QUICK);
    words.extend(["--", "sh", "-c", "echo because >&2; exit $CODE"]);
    let output = run(&scratch, &words);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output).replace("\n  ", " ");
    // After three it is left out.
    assert!(text.contains("3 runs of 'CODE=3' failed") && text.contains("because"), "{text}");
    let mut words = vec!["diff", "--a", "false", "--b", "false", "-n", "2"];
    words.extend(QUICK);
    let output = run(&scratch, &words);
    assert!(!output.status.success() && stderr(&output).contains("no run succeeded"), "{}", stderr(&output));
    words[2] = "/no/such/program";
    assert!(stderr(&run(&scratch, &words)).contains("no run succeeded"));
}

#[test]
fn invalid_arguments_are_reported_before_any_run() {
    let scratch = Scratch::new("meant");
    let cases: &[(&[&str], &str)] = &[
        (&["sweep", "--set", "no-such-knob=1,2", "--", "true"], "is not a knob"),
        (&["sweep", "--set", "cpus=0;9999", "--", "true"], "CPUs are wanted"),
        (&["sweep", "--set", "A=1", "--", "true"], "two values"),
        (&["sweep", "--set", "A=1,1", "--", "true"], "named twice"),
        (&["sweep", "--", "true"], "choose the variable"),
        (&["sweep", "--size", "n=1,2,3", "--", "true"], "no {n}"),
        (&["sweep", "--size", "n=1,2,3", "--", "true", "{n}"], "four sizes"),
        (&["scale", "--", "true"], "no {}"),
        (&["diff"], "name two recordings"),
        (&["diff", "--a", "true", "--b", "true", "--fail-if", "slow"], "--fail-if"),
        (&["diff", "--resume", "/no/such.holdup-set"], "no set"),
        (&["try", "/no/such.holdup"], "/no/such.holdup"),
    ];
    for (words, why) in cases {
        let output = run(&scratch, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
    assert!(!scratch.join("state").exists(), "a set was left behind");
}

#[test]
fn scaling_gives_each_number_of_workers() {
    let scratch = Scratch::new("scale");
    let [picture, dots] = ["speedup.svg", "speedup.png"].map(|name| scratch.join(name));
    let mut words =
        vec!["scale", "--workers", "2,1", "-n", "2", "--json", "--svg", picture.to_str().unwrap()];
    words.extend(["--png", dots.to_str().unwrap()]);
    words.extend(QUICK);
    words.extend(["--", "sh", "-c", "test {} -ge 1"]);
    let value = json(&run(&scratch, &words));
    let workers: Vec<u64> = value["scale"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["workers"].as_u64().unwrap())
        .collect();
    assert_eq!(workers, [1, 2]);
    assert_eq!(value["scale"]["points"][0]["speedup"], 1.0);
    assert!(std::fs::read_to_string(picture).unwrap().ends_with("</svg>\n"));
    assert!(std::fs::read(dots).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn a_privileged_knob_is_reported_and_the_other_runs_are_kept() {
    let scratch = Scratch::new("unprivileged");
    let Some(program) = unprivileged_place(&scratch) else { return };
    let set = scratch.join("x.holdup-set");
    let mut words = vec!["sweep", "--set", "nice=19,-5", "-n", "4", "-o", set.to_str().unwrap()];
    words.extend(QUICK);
    words.extend(["--", "true"]);
    let output = as_unprivileged_user(&program, &scratch).args(&words).output().expect("setpriv starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output).replace("\n  ", " ");
    assert!(text.contains("'nice=-5' failed") && text.contains("CAP_SYS_NICE"), "{text}");
    let value = json(&run(&scratch, &["report", set.to_str().unwrap(), "--json"]));
    assert_eq!((&value["settings"][0]["runs"], &value["settings"][1]["runs"]), (&4.into(), &0.into()));
    assert_eq!(value["sweep"]["best"], Value::Null);
}

#[test]
fn zero_repeats_are_refused_and_one_is_undecided() {
    let scratch = Scratch::new("repeats");
    for (command, rest) in [
        ("diff", &["--a", "true", "--b", "true"][..]),
        ("sweep", &["--set", "A=1,2", "--", "true"]),
        ("sweep", &["--layout", "--", "true"]),
        ("sweep", &["--size", "n=1,2,3,4", "--", "true", "{n}"]),
        ("scale", &["--workers", "1,2", "--", "true", "{}"]),
    ] {
        let with = |repeats: &str| run(&scratch, &[&[command, "-n", repeats], &QUICK[..], rest].concat());
        let none = with("0");
        assert_eq!(none.status.code(), Some(2), "{command}: {}", stdout(&none));
        assert!(stderr(&none).contains("1..=10000"), "{command}: {}", stderr(&none));
        let one = with("1");
        assert!(one.status.success(), "{command}: {}", stderr(&one));
        let text = stdout(&one);
        assert!(!text.contains("NaN") && !text.contains("inf "), "{command}: {text}");
    }
    let words = [&["diff", "-n", "1", "--json", "--a", "true", "--b", "true"], &QUICK[..]].concat();
    let change = &json(&run(&scratch, &words))["diff"]["change"];
    assert_eq!((&change["verdict"], &change["low"]), (&"cannot-tell".into(), &Value::Null));
    // A claim of one run is no claim: it neither holds nor is refuted.
    let words =
        [&["diff", "-n", "1", "--fail-if", "different", "--a", "true", "--b", "sleep 0.1"], &QUICK[..]];
    assert_eq!(run(&scratch, &words.concat()).status.code(), Some(2));
}

#[test]
fn a_set_that_is_damaged_or_of_another_command_is_refused() {
    let scratch = Scratch::new("damaged");
    let set = scratch.join("x.holdup-set");
    let path = set.to_str().unwrap();
    let words = [&["diff", "-n", "2", "-o", path, "--a", "true", "--b", "true"], &QUICK[..]].concat();
    assert!(run(&scratch, &words).status.success());
    let file = set.join("set.json");
    let whole = std::fs::read(&file).unwrap();
    let other = run(&scratch, &["scale", "--resume", path]);
    assert!(!other.status.success() && stderr(&other).contains("another command"), "{}", stderr(&other));
    let text = String::from_utf8(whole.clone()).unwrap();
    for damaged in [
        whole[..whole.len() / 2].to_vec(),
        Vec::new(),
        b"{}".to_vec(),
        text.replace("\"format\":2", "\"format\":99").into_bytes(),
        text.replace("\"setting\":1", "\"setting\":7").into_bytes(),
    ] {
        std::fs::write(&file, &damaged).unwrap();
        for words in [&["report", path][..], &["diff", path], &["diff", "--resume", path, "-n", "3"]] {
            let output = run(&scratch, words);
            let said = stderr(&output);
            assert!(!output.status.success() && said.contains("x.holdup-set"), "{words:?}: {said}");
            assert!(!said.contains("panicked"), "{words:?}: {said}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "it was written to");
    }
    std::fs::write(&file, whole).unwrap();
    assert!(run(&scratch, &["report", path]).status.success());
}

#[test]
fn conditions_are_the_programs() {
    let scratch = Scratch::new("conditions");
    let mut words = vec!["sweep", "--set", "cpus=0", "--set", "K=1,2", "--set", "env-size=100", "-n", "1"];
    words.extend(QUICK);
    let script = "test \"$(nproc)\" = 1 && test ${#HOLDUP_ENV_SIZE} = 100";
    words.extend(["--json", "--", "sh", "-c", script]);
    let value = json(&run(&scratch, &words));
    assert!(value["runs"].as_array().unwrap().iter().all(|run| run["failure"] == ""), "{}", value["runs"]);
}

#[test]
fn padding_moves_large_allocations() {
    let scratch = Scratch::new("padding");
    let mut words = vec!["sweep", "--set", "malloc-pad=0,272", "-n", "1", "--json"];
    words.extend(["--progress", "place ([0-9]+)", "--progress-is", "rate"]);
    words.extend(QUICK);
    // The address of a large array within its page, plus one. Several arrays are made, freed and grown first.
    let script = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n\
                  libc.realloc.restype = ctypes.c_void_p\n\
                  kept = [libc.malloc(ctypes.c_size_t(1 << 20)) for _ in range(5)]\n\
                  grown = [libc.realloc(ctypes.c_void_p(p), ctypes.c_size_t(1 << 21)) for p in kept]\n\
                  print('place', len({p % 4096 for p in kept}))\n\
                  [libc.free(ctypes.c_void_p(p)) for p in grown]";
    words.extend(["--", "python3", "-c", script]);
    let output = run(&scratch, &words);
    if !stdout(&run(&scratch, &["--version"])).is_empty()
        && std::process::Command::new("python3").arg("-V").output().is_err()
    {
        println!("skipped: no python3");
        return;
    }
    let value = json(&output);
    assert_eq!(value["settings"][0]["mean"], 1.0, "{value}");
    assert_eq!(value["settings"][1]["mean"], 5.0, "{value}");
}

#[test]
fn an_interrupted_set_keeps_its_runs() {
    let scratch = Scratch::new("interrupted");
    let set = scratch.join("x.holdup-set");
    let mut words =
        vec!["diff", "--a", "sleep 0.05", "--b", "sleep 0.05", "-n", "1000", "-o", set.to_str().unwrap()];
    words.extend(QUICK);
    let child =
        holdup(&scratch).args(&words).stdout(std::process::Stdio::piped()).spawn().expect("holdup starts");
    let runs = || {
        let text = std::fs::read(set.join("set.json")).unwrap_or_default();
        let value: Value = serde_json::from_slice(&text).unwrap_or_default();
        value["experiment"]["runs"].as_array().map_or(0, Vec::len)
    };
    while runs() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("against") || stdout(&output).contains("B "), "{}", stdout(&output));
    let kept = runs();
    assert!((3..1000).contains(&kept), "{kept}");
    let value = json(&run(&scratch, &["diff", "--resume", set.to_str().unwrap(), "-n", "2", "--json"]));
    assert!(value["runs"].as_array().unwrap().len() >= kept);
}

#[test]
fn a_run_ends_with_a_set_that_is_killed() {
    let scratch = Scratch::new("killed");
    let (said, set) = (scratch.join("pid"), scratch.join("x.holdup-set"));
    let program = format!("sh -c 'echo $$ > {}; exec sleep 3600'", said.display());
    for record in ["none", "full"] {
        let _ = (std::fs::remove_file(&said), std::fs::remove_dir_all(&set));
        let words = ["diff", "--a", &program, "--b", "true", "--record", record, "-o", set.to_str().unwrap()];
        let mut child = holdup(&scratch).args(words).stdout(Stdio::null()).spawn().expect("holdup starts");
        let pid = || std::fs::read_to_string(&said).ok()?.trim().parse::<u32>().ok();
        while pid().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let program = format!("/proc/{}", pid().unwrap());
        let waited = Instant::now();
        while std::path::Path::new(&program).exists() && waited.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_there = std::path::Path::new(&program).exists();
        if is_there {
            // SAFETY: a signal to what the test started.
            unsafe { libc::kill(pid().unwrap() as i32, libc::SIGKILL) };
        }
        assert!(!is_there, "--record {record}: it goes on");
    }
}

/// Starts processes in each way in which they could be lost, and prints their PIDs. They are an orphan, a
/// process in its own session, both ends of a pipe, and a process that ignores signals. The program prints
/// how often it was asked to end, and does not end.
const SCATTERS: &str = r#"
says() { echo $$ >>"$FOLDER/pids"; }
if [ -n "$1" ]; then [ "$1" != deaf ] || trap "" INT TERM; says; while :; do sleep 1; done; fi
trap 'echo asked >>"$FOLDER/asked"' TERM
(sh "$0" orphan &)
setsid sh "$0" session &
sh "$0" source | sh "$0" deaf &
says
while :; do sleep 0.02; done
"#;
/// Number of these processes.
const SCATTERED: usize = 5;

/// Processes that have printed their PID.
fn scattered(scratch: &Scratch) -> Vec<u32> {
    let pids = std::fs::read_to_string(scratch.join("pids")).unwrap_or_default();
    pids.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Whether none of the processes is left. Remaining ones are killed.
fn have_exited(scratch: &Scratch) -> bool {
    let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    let left: Vec<u32> = scattered(scratch).into_iter().filter(is_there).collect();
    for pid in &left {
        // SAFETY: a signal to what the test started.
        unsafe { libc::kill(*pid as i32, libc::SIGKILL) };
    }
    left.is_empty()
}

#[test]
fn a_run_that_is_ended_is_ended_with_all_that_it_started() {
    let scratch = Scratch::new("ended");
    if !have("setsid") {
        return;
    }
    let script = scratch.join("scatters");
    std::fs::write(&script, SCATTERS).unwrap();
    let program = format!("sh {}", script.display());
    let start = |options: &[&str]| {
        for name in ["pids", "asked"] {
            let _ = std::fs::remove_file(scratch.join(name));
        }
        let mut command = holdup(&scratch);
        command.env("FOLDER", scratch.join("")).args(["diff", "--a", &program, "--b", "true", "-n", "1"]);
        command.args(QUICK).arg("--json").args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("holdup starts")
    };
    let child = start(&[]);
    while scattered(&scratch).len() < SCATTERED {
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: signals only our own child.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    assert!(have_exited(&scratch), "stopped: something goes on; {}", stderr(&output));
    assert!(stderr(&output).contains("stopped"), "{}", stderr(&output));
    let asked = std::fs::read_to_string(scratch.join("asked")).unwrap_or_default();
    assert_eq!(asked, "asked\n", "once, whoever passes it on");
    // The same with a timeout. On a slow machine the run may not even have begun by then.
    for seconds in (0..8).map(|power| 1 << power) {
        let output = start(&["--timeout", &format!("{seconds}s")]).wait_with_output().expect("it ends");
        let have_begun = scattered(&scratch).len() == SCATTERED;
        assert!(have_exited(&scratch), "too long: something goes on; {}", stderr(&output));
        if have_begun {
            // There is nothing to compare, which JSON shows, too.
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let runs = value["runs"].clone();
            let failed = runs.as_array().unwrap().iter().find(|run| run["setting"] == 0).expect("a run of A");
            assert_eq!(failed["failure"], "it took longer than --timeout");
            return;
        }
    }
    panic!("it never began");
}

#[test]
fn what_a_run_leaves_on_purpose_stays_when_another_is_ended() {
    let scratch = Scratch::new("left");
    let [program, server, second] = ["program", "server", "second"].map(|name| scratch.join(name));
    // The first run leaves a server and ends, the second one does not end.
    let script = r#"if [ -e "$1" ]; then echo >"$2"; exec sleep 3600; fi
        sh -c 'echo $$ >"$0"; exec sleep 3600' "$1" &
        while ! [ -s "$1" ]; do sleep 0.02; done"#;
    std::fs::write(&program, script).unwrap();
    let mut command = holdup(&scratch);
    command.args(["sweep", "--set", "A=1,2", "-n", "1"]).args(QUICK).args(["--", "sh"]);
    command.args([&program, &server, &second]).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("holdup starts");
    while !second.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().expect("it ends");
    let pid: i32 = std::fs::read_to_string(&server).unwrap().trim().parse().unwrap();
    // SAFETY: a signal to what the test started.
    let was_there = unsafe { libc::kill(pid, libc::SIGKILL) } == 0;
    assert!(was_there && output.status.success(), "{}", stderr(&output));
}

#[test]
fn a_run_may_ask_at_the_terminal_and_ends_by_control_c() {
    let scratch = Scratch::new("asks");
    // A program that asks for a password opens the terminal itself, and has no standard input.
    let program =
        "sh -c 'echo who >/dev/tty; read name </dev/tty; echo it is $name >/dev/tty; exec sleep 3600'";
    let mut command = holdup(&scratch);
    command.args(["diff", "--a", program, "--b", "true", "-n", "1"]).args(QUICK);
    let mut terminal = Terminal::start(command);
    terminal.wait_for("who", 1);
    terminal.type_in("me\n");
    terminal.wait_for("it is me", 1);
    terminal.type_in("\x03");
    let (_, screen) = terminal.end();
    assert!(screen.contains("stopped"), "{screen}");
}

#[test]
fn a_round_is_made_however_long_warming_up_took() {
    let scratch = Scratch::new("late");
    let set = scratch.join("x.holdup-set");
    let program = ["--", "sleep", "0.05"];
    let words =
        ["sweep", "--set", "A=1,2,3", "--warm-up", "1", "--record", "none", "--time", "1ms", "--json"];
    let value = json(&run(&scratch, &[&words[..], &["-o", set.to_str().unwrap()], &program].concat()));
    // One round, for by then it is late.
    assert_eq!(value["runs"].as_array().unwrap().len(), 3, "{}", value["runs"]);
    let more = ["sweep", "--resume", set.to_str().unwrap(), "--record", "none", "--time", "1ms", "--json"];
    assert_eq!(json(&run(&scratch, &more))["runs"].as_array().unwrap().len(), 6);
}

#[test]
fn recordings_are_compared_and_advice_is_tried() {
    let scratch = Scratch::new("recordings");
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05";
    let record = |name: &str| {
        let path = scratch.join(name);
        let output =
            run(&scratch, &["run", "--quiet", "-o", path.to_str().unwrap(), "--", "sh", "-c", script]);
        assert!(output.status.success(), "{}", stderr(&output));
        path.to_str().unwrap().to_owned()
    };
    let (a, b) = (record("a.holdup"), record("b.holdup"));
    let value = json(&run(&scratch, &["diff", &a, &b, "--json"]));
    assert_eq!(value["diff"]["change"]["verdict"], "cannot-tell");
    assert!(!value["diff"]["within"].as_array().unwrap().is_empty());
    let text = stdout(&run(&scratch, &["diff", &a, &b])).replace("\n  ", " ");
    assert!(text.contains("One run of each") && text.contains("within each run"), "{text}");
    // A recorded run has a ledger, and its set is opened like a recording.
    let set = scratch.join("x.holdup-set");
    let words =
        ["diff", "--a", "sleep 0.02", "--b", "sleep 0.02", "-n", "2", "--warm-up", "0", "--json", "-o"];
    let mut words = words.to_vec();
    words.push(set.to_str().unwrap());
    let value = json(&run(&scratch, &words));
    let rows = value["diff"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["table"] == "ledger" && row["name"] == "sleep"), "{rows:?}");
    // The command that it names for stacks works as it is.
    for said in [run(&scratch, &["diff", &a, &b]), run(&scratch, &["report", set.to_str().unwrap()])] {
        let said = stdout(&said);
        let line = said.lines().find_map(|line| line.strip_prefix("Stacks: holdup ")).expect("a command");
        let picture = scratch.join("diff.svg");
        let line = line.replace("diff.svg", picture.to_str().unwrap());
        let output = run(&scratch, &line.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        assert!(std::fs::read_to_string(&picture).unwrap().contains("<svg"), "{line}");
        std::fs::remove_file(picture).unwrap();
    }
    // A set of format 1, which contains only times, has the same result for them.
    let file = set.join("set.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let old = text.replace("\"format\":2", "\"format\":1").replace("\"amount\":", "\"ns\":");
    let old = old.replace(",\"longest_ns\":null", "");
    assert!(old.len() < text.len(), "{text}");
    std::fs::write(&file, old).unwrap();
    let again = json(&run(&scratch, &["report", set.to_str().unwrap(), "--json"]));
    assert_eq!(again["diff"]["rows"], value["diff"]["rows"]);
}

#[test]
fn allocations_are_compared_where_they_are_drawn() {
    let scratch = Scratch::new("diff-allocs");
    if !bpf_or_skip(&scratch) || !have("python3") {
        return;
    }
    // With one sample per 64 KiB, a block of 1 MiB is always sampled: 40 and 10 of them.
    let of = |count: u32| {
        format!(
            "python3 -c 'import ctypes; libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p\n\
             for _ in range({count}): libc.malloc(ctypes.c_size_t(1 << 20))'"
        )
    };
    let (a, b) = (of(40), of(10));
    let words = ["diff", "--a", &a, "--b", &b, "-n", "2", "--warm-up", "0", "--json", "--allocs=64k"];
    let value = json(&run(&scratch, &words));
    let rows = value["diff"]["rows"].as_array().unwrap();
    let all = rows.iter().find(|row| row["table"] == "allocation" && row["name"] == "(all)").expect("a sum");
    assert_eq!((&all["figures"][0]["measure"], &all["a_ns"]), (&"bytes".into(), &Value::Null));
    let saved = all["figures"][0]["a"].as_f64().unwrap() - all["figures"][0]["b"].as_f64().unwrap();
    // The interpreter's own allocations are sampled, too, and add variation.
    assert!((25.0..35.0).contains(&(saved / f64::from(1 << 20))), "{all}");
    let refused =
        run(&scratch, &["diff", "--a", "true", "--b", "true", "--allocs", "--record", "none", "-n", "1"]);
    assert!(!refused.status.success() && stderr(&refused).contains("--record none"), "{}", stderr(&refused));
    // Without, there is nothing to compare, and the other tables are there.
    let words = ["diff", "--a", "true", "--b", "true", "-n", "1", "--warm-up", "0", "--json"];
    let value = json(&run(&scratch, &words));
    let rows = value["diff"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["table"] != "allocation"), "{rows:?}");
}
