//! `holdup attach` to runtimes that run already: stops of the world and safepoints from when the probes are there, and names of
//! compiled code. What a machine lacks is skipped.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Scratch, bpf_or_skip, holdup, made, report_json, safepoints, stderr};

/// Collects now and then in parallel to a thread that computes. After reading a line, collects fifty times
/// more and ends.
const JAVA: &str = "public class Attached {
    static volatile int sum;
    static volatile boolean ends, over;
    static int whirl(int x) { for (int i = 0; i < 1000; i++) x = x * 31 + i; return x; }
    public static void main(String[] words) throws Exception {
        Thread other = new Thread(() -> { while (!over) sum = whirl(sum); });
        Thread reader = new Thread(() -> { try { System.in.read(); } catch (Exception e) { } ends = true; });
        other.start();
        reader.start();
        System.out.println(\"ready\");
        for (int left = 50; left > 0; left -= ends ? 1 : 0) { System.gc(); Thread.sleep(ends ? 5 : 100); }
        over = true;
        other.join();
    }
}
";

/// The same. Prints the number of collections when it is ready, and at the end.
const GO: &str = "package main
import (\"fmt\"; \"os\"; \"runtime\"; \"sync/atomic\"; \"time\")
//go:noinline
func whirl(x int) int { for i := 0; i < 1000; i++ { x = x*31 + i }; return x }
func collections() uint32 { var stats runtime.MemStats; runtime.ReadMemStats(&stats); return stats.NumGC }
func main() {
	var ends atomic.Bool
	done := make(chan int)
	go func() { sum := 0; for !ends.Load() { sum = whirl(sum) }; done <- sum }()
	go func() { os.Stdin.Read(make([]byte, 1)); ends.Store(true) }()
	fmt.Println(collections())
	for left := 50; left > 0; {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
		if ends.Load() { left-- }
	}
	<-done
	fmt.Println(collections())
}
";

/// Collects only explicitly, after a line: thirty minor and twenty major collections.
const HASKELL: &str = "import Control.Monad (replicateM_)
import System.IO
import System.Mem
main :: IO ()
main = do
  putStrLn \"ready\" >> hFlush stdout
  _ <- getLine
  replicateM_ 30 performMinorGC
  replicateM_ 20 performMajorGC
";

/// Maximum waiting time for a probe.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that prints a line when it is ready, and ends after reading one.
struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
    ready: String,
}

impl Program {
    fn start(scratch: &Scratch, command: &[&str]) -> Program {
        let mut start = Command::new(command[0]);
        start.args(&command[1..]).current_dir(scratch.join("."));
        let mut child = start.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        lines.read_line(&mut ready).expect("a line");
        Program { child, lines, ready }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The code in memory of the mapped file with this name. Breakpoints of probes change it.
    fn code(&self, file: &str) -> Vec<u8> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("maps");
        let ours = maps.lines().filter(|line| line.contains(" r-xp ") && line.ends_with(file));
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).expect("memory");
        let mut code = Vec::new();
        for range in ours.filter_map(|line| line.split(' ').next()?.split_once('-')) {
            let [start, end] =
                [range.0, range.1].map(|text| u64::from_str_radix(text, 16).expect("an address"));
            let at = code.len();
            code.resize(at + (end - start) as usize, 0);
            std::os::unix::fs::FileExt::read_exact_at(&memory, &mut code[at..], start).expect("its code");
        }
        code
    }

    /// Requests the end. Returns the last line of output.
    fn end(mut self) -> String {
        self.child.stdin.take().expect("a pipe").write_all(b"\n").expect("it listens");
        let mut said = String::new();
        while self.lines.read_line(&mut said).expect("text") > 0 {}
        assert!(self.child.wait().expect("it ends").success());
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Attaches. Returns when the code of `file` has breakpoints and no more are added.
fn attach(scratch: &Scratch, program: &Program, file: &str) -> Child {
    let before = program.code(file);
    assert!(!before.is_empty(), "code of {file}");
    let mut attach = holdup(scratch);
    attach.current_dir(scratch.join(".")).args(["attach", "--quiet", "-o", "t.holdup"]);
    let recorder =
        attach.arg(program.pid().to_string()).stderr(Stdio::piped()).spawn().expect("holdup starts");
    let (began, mut last) = (Instant::now(), before.clone());
    while began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(500));
        let now = program.code(file);
        if now != before && now == last {
            break;
        }
        last = now;
    }
    recorder
}

fn report(scratch: &Scratch, recorder: Child) -> Value {
    let output = recorder.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", stderr(&output));
    report_json(scratch, &scratch.join("t.holdup"))
}

/// Whether the source is active. If this kernel or file cannot be probed, prints the reason and returns
/// `false`.
fn is_active(report: &Value) -> bool {
    let sources = report["sources"].as_array().expect("sources");
    let Some(source) = sources.iter().find(|source| source["name"] == "runtime-probes") else {
        println!("skipped: the runtime has neither symbols nor probes here");
        return false;
    };
    let missing = source["missing"].as_str().unwrap_or_default();
    if support::lacks_function_probes(missing) {
        println!("skipped: {missing}");
        return false;
    }
    assert_eq!(source["active"], true, "{source}");
    true
}

fn folded(scratch: &Scratch) -> String {
    let mut export = holdup(scratch);
    let output = export
        .current_dir(scratch.join("."))
        .args(["export", "--to", "folded", "-o", "t.folded", "t.holdup"]);
    let output = output.output().expect("holdup runs");
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::read_to_string(scratch.join("t.folded")).expect("stacks")
}

#[test]
fn stops_of_a_go_program_are_recorded_after_attach() {
    let scratch = Scratch::new("attached-go");
    let build = ["go", "build", "-ldflags", "-s -w", "-o", "attached-go", "attached.go"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("attached.go", GO), &build) {
        return;
    }
    let program = Program::start(&scratch, &["./attached-go"]);
    let first: u64 = program.ready.trim().parse().expect("a number");
    let recorder = attach(&scratch, &program, "/attached-go");
    let last: u64 = program.end().trim().parse().expect("a number");
    let report = report(&scratch, recorder);
    if !is_active(&report) {
        return;
    }
    // The fifty at the end came after the probes.
    let told = report["gc"]["major"].as_u64().expect("collections");
    assert!((50..=last - first).contains(&told), "{told} collections of {first} to {last}");
    assert_eq!(report["gc"]["matched"], report["gc"]["events"]);
    let stops = report["gc"]["stops"]["recorded"].as_u64().expect("stops");
    assert!(stops >= told, "{stops} stops for {told} collections");
    assert!(folded(&scratch).contains("main.whirl"), "a stripped program's names");
}

#[test]
fn safepoints_of_a_java_program_are_recorded_after_attach() {
    let scratch = Scratch::new("attached-java");
    if !bpf_or_skip(&scratch) || !made(&scratch, ("Attached.java", JAVA), &["javac", "Attached.java"]) {
        return;
    }
    // Compiled into its caller, it would have no name of its own.
    let apart = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Attached::whirl"];
    let command = ["java", "-Xlog:safepoint:file=safe.log:tn", "-Xmx64m", apart[0], apart[1], "Attached"];
    let program = Program::start(&scratch, &command);
    let recorder = attach(&scratch, &program, "/libjvm.so");
    program.end();
    let report = report(&scratch, recorder);
    if !is_active(&report) {
        return;
    }
    let log = std::fs::read_to_string(scratch.join("safe.log")).expect("the log");
    let before = safepoints::assert_recorded(&report, &log);
    assert!(before > 0, "it ran before");
    // Names were read without the virtual machine's cooperation.
    assert!(folded(&scratch).contains("Attached.whirl"), "compiled code has its names");
}

#[test]
fn collections_of_a_haskell_program_are_recorded_after_attach() {
    let scratch = Scratch::new("attached-ghc");
    let build = ["ghc", "-threaded", "-rtsopts", "attached.hs", "-o", "attached-hs"];
    if !bpf_or_skip(&scratch) || !made(&scratch, ("attached.hs", HASKELL), &build) {
        return;
    }
    // It does not collect because it is idle, and counts itself.
    let program = Program::start(&scratch, &["./attached-hs", "+RTS", "-N2", "-I0", "-sstatistics"]);
    let recorder = attach(&scratch, &program, "/attached-hs");
    program.end();
    let report = report(&scratch, recorder);
    if !is_active(&report) {
        return;
    }
    let statistics = std::fs::read_to_string(scratch.join("statistics")).expect("statistics");
    let collections = |generation: u32| -> u64 {
        let line = statistics.lines().find(|line| line.contains(&format!("Gen  {generation}")));
        let number = line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
        number.unwrap_or_else(|| panic!("{statistics}"))
    };
    let gc = &report["gc"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let (minor, major) = (number(&gc["minor"]), number(&gc["major"]));
    assert_eq!((minor, major), (collections(0), collections(1)), "{gc}");
    // The runtime collects all when it ends.
    assert!(minor + major > 50, "{minor} and {major}");
    assert_eq!((number(&gc["stops"]["recorded"]), &gc["matched"]), (minor + major, &gc["events"]), "{gc}");
}
