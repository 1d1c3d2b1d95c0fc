//! Interpreted methods of Java programs have name, file and line, at the interpreter's frames. Long-running
//! methods are often only interpreted in their callers. Compiled methods have their callers.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use holdup_events::tables::{FrameVia, GENERATED_MODULE, StackRow};
use holdup_events::{StackId, Trace, recording};
use support::{Scratch, bpf_or_skip, holdup, made, stderr};

/// One thread computes, and others wait for work and for one another.
const PROGRAM: &str = r#"import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.ReentrantLock;

class Work {
    static final LinkedBlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
    static final ReentrantLock lock = new ReentrantLock();

    static int spin(int number) {
        int total = 0;
        for (int step = 0; step < number; step++)
            total += step * step;
        return total;
    }

    static void computes() {
        long end = System.nanoTime() + 1_500_000_000L;
        while (System.nanoTime() < end)
            spin(2000);
    }

    static void takes() {
        try {
            while (jobs.take() != 0) { }
        } catch (InterruptedException error) { }
    }

    static void locks() {
        lock.lock();
        lock.unlock();
    }

    public static void main(String[] arguments) throws Exception {
        // The recorder may detect Java late. Stacks before that have no names.
        Thread.sleep(500);
        Thread[] threads = {new Thread(Work::computes), new Thread(Work::takes), new Thread(Work::locks)};
        lock.lock();
        for (Thread thread : threads)
            thread.start();
        threads[0].join();
        lock.unlock();
        jobs.put(0);
    }
}
"#;

/// Virtual machines of this machine, by their real files.
fn machines() -> BTreeSet<PathBuf> {
    let kept = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let found = kept.map(|version| version.path().join("bin/java")).chain([PathBuf::from("/usr/bin/java")]);
    let found: BTreeSet<PathBuf> = found.filter_map(|path| path.canonicalize().ok()).collect();
    if found.is_empty() {
        println!("skipped: there is no Java on this machine");
    }
    found
}

/// The methods of a stack, leaf first, with their lines.
fn methods(trace: &Trace, stack: StackId) -> Vec<(&str, u32)> {
    let frames = trace.stack_frames(stack).map(|frame| &trace.frames[frame.index()]);
    let generated = frames.filter(|frame| frame.module == GENERATED_MODULE);
    generated.map(|frame| (frame.function.as_str(), frame.line)).collect()
}

/// Stacks with a method of the program.
fn stacks_of<'a>(trace: &'a Trace, function: &str) -> Vec<Vec<(&'a str, u32)>> {
    let all = (0..trace.stacks.rows().len() as u32).map(|row| methods(trace, StackId(row)));
    all.filter(|methods| methods.iter().any(|(name, _)| *name == function)).collect()
}

/// Each of these functions stands in a stack, at this line, and calls the one before it.
fn assert_calls(trace: &Trace, calls: &[(&str, u32)]) {
    let (last, _) = calls[calls.len() - 1];
    let stacks = stacks_of(trace, last);
    let is_told = |stack: &Vec<(&str, u32)>| {
        let begin = calls.first().and_then(|first| stack.iter().position(|call| call == first));
        begin.is_some_and(|begin| stack[begin..].starts_with(calls))
    };
    assert!(stacks.iter().any(is_told), "{calls:?} in {stacks:?}");
}

/// Nine in ten stacks with the computing method must contain its caller next to it, and no guessed frames.
fn assert_walked(trace: &Trace) {
    let rows = trace.stacks.rows();
    let is_generated = |row: &&StackRow| trace.frames[row.frame.index()].module == GENERATED_MODULE;
    let is_guessed = |stack: StackId| {
        let up = std::iter::successors(Some(stack), |id| Some(rows[id.index()].parent));
        let mut generated =
            up.take_while(|id| *id != StackId::NONE).map(|id| &rows[id.index()]).filter(is_generated);
        generated.any(|row| matches!(row.via, FrameVia::Scan | FrameVia::FramePointer))
    };
    let samples = trace.samples.iter().map(|sample| (sample.stack, methods(trace, sample.stack)));
    let spins: Vec<_> =
        samples.filter(|(_, stack)| stack.iter().any(|(name, _)| *name == "Work.spin")).collect();
    let whole = spins.iter().filter(|(id, stack)| {
        let names: Vec<&str> = stack.iter().map(|(name, _)| *name).collect();
        names.windows(2).any(|pair| pair == ["Work.spin", "Work.computes"]) && !is_guessed(*id)
    });
    let whole = whole.count();
    assert!(spins.len() > 20 && whole * 10 >= spins.len() * 9, "{whole} of {}: {spins:?}", spins.len());
}

fn recorded(scratch: &Scratch, (java, options): (&Path, &[&str])) -> Trace {
    let path = scratch.join("t.holdup");
    let _ = std::fs::remove_dir_all(&path);
    let ran = holdup(scratch)
        .args(["run", "-q", "--stacks", "all", "-o"])
        .args([&path, &PathBuf::from("--"), java])
        .args(options)
        .args(["-cp".as_ref(), scratch.join(".").as_os_str(), "Work".as_ref()])
        .output()
        .expect("holdup starts");
    assert!(ran.status.success(), "{}", stderr(&ran));
    recording::open(&path).expect("a recording")
}

#[test]
fn methods_are_named_where_they_are_interpreted() {
    let scratch = Scratch::new("java-names");
    if !bpf_or_skip(&scratch) {
        return;
    }
    for java in machines() {
        println!("{}", java.display());
        let javac = java.with_file_name("javac");
        let Some(javac) = javac.to_str().filter(|_| javac.is_file()) else { continue };
        if !made(&scratch, ("Work.java", PROGRAM), &[javac, "Work.java"]) {
            continue;
        }
        let trace = recorded(&scratch, (&java, &["-Xint"]));
        // The line of the innermost method is unknown. The lines of its callers are known.
        assert_calls(&trace, &[("Work.spin", 0), ("Work.computes", 18)]);
        assert!(trace.stacks.rows().iter().any(|row: &StackRow| row.via == FrameVia::Interpreted));
        let spins = stacks_of(&trace, "Work.spin");
        let whole = spins.iter().filter(|stack| stack.contains(&("Work.computes", 18)));
        assert!(whole.count() * 10 >= spins.len() * 9, "{spins:?}");

        // Compiled code keeps no frame pointer, and has its callers all the same.
        let only = "-XX:CompileCommand=compileonly,Work.*";
        let trace = recorded(&scratch, (&java, &["-Xcomp", "-XX:CompileCommand=quiet", only, "-XX:-Inline"]));
        assert_walked(&trace);

        // A method that blocks for long is not compiled.
        let trace = recorded(&scratch, (&java, &[]));
        assert_calls(&trace, &[("Work.takes", 23)]);
        assert_calls(&trace, &[("Work.locks", 28)]);
        assert_calls(&trace, &[("Work.main", 39)]);
        let waits = [
            "java.util.concurrent.LinkedBlockingQueue.take",
            "java.util.concurrent.locks.ReentrantLock.lock",
        ];
        for name in waits.into_iter().chain(["java.lang.Thread.join"]) {
            assert!(!stacks_of(&trace, name).is_empty(), "{name}");
        }
    }
}
