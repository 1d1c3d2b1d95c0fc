//! Pools of threads, and whether their tasks are worth handing out.

use holdup_events::tables::SampleRow;
use holdup_events::{ProcessId, Trace};
use holdup_findings::analyse;
use holdup_findings::finding::Confidence;
use holdup_testkit::check::{check_lanes, trace_of_lanes};

/// Two workers of a pool in `Pool`. `A` and `B` are in these stacks for the given part of each ten ticks,
/// then wait for work.
fn picture(stacks: &[(&str, u64)]) -> String {
    let mut picture = "@repeat 20\n@p park\n@stack p clone;Pool.work;Pool.sleep;__futex_wait\n".to_owned();
    let mut from = 0;
    for (stack, ticks) in stacks {
        for thread in ["A", "B"] {
            picture.push_str(&format!("@samples {thread} {from}..{} user {stack}\n", from + ticks));
        }
        from += ticks;
    }
    picture.push_str("A  0000000000p0\nB  11111111111p\n");
    picture
}

fn pool(stacks: &[(&str, u64)], expected: &str) -> holdup_findings::Analysis {
    check_lanes(&(picture(stacks) + expected))
}

const GIVING: &str = "clone;Pool.work;Pool.run;Fib.task;Pool.push;__pthread_mutex_lock";
const TAKING: &str = "clone;Pool.work;Pool.take";
const TASK: &str = "clone;Pool.work;Pool.run;Fib.task;Fib.add";

#[test]
fn handing_out_takes_longer_than_the_tasks() {
    let analysis = pool(&[(GIVING, 6), (TAKING, 3), (TASK, 1)], "");
    let finding = analysis.findings.iter().find(|finding| finding.rule == "fine-tasks").expect("a finding");
    assert_eq!(finding.confidence, Confidence::Medium);
    assert_eq!(finding.subject, "tasks through Pool.push");
    // Nine tenths of the work, of which at most a tenth is left. The rest goes too, if the pool waits for no
    // other thread.
    assert!((0.6..0.82).contains(&finding.gain.low), "{:?}", finding.gain);
    assert!((0.8..=1.0).contains(&finding.gain.high), "{:?}", finding.gain);
    let pool = &analysis.derived.tasks[0];
    assert_eq!((pool.unit.as_str(), pool.samples), ("Pool", 360));
    // Each thread runs for eleven of twelve ticks, ten of which are sampled.
    assert_eq!((pool.giving_ns, pool.task_ns), (264_000_000, 44_000_000));
    assert_eq!(pool.tasks[0].0, "Fib.task");
}

#[test]
fn a_virtual_machine_is_no_pool() {
    let is_told = |library: &str| {
        let (_, mut trace) = trace_of_lanes(&picture(&[(GIVING, 6), (TAKING, 3), (TASK, 1)]));
        for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("Pool.")) {
            frame.module = library.to_owned();
        }
        analyse(&trace).findings.iter().any(|finding| finding.rule == "fine-tasks")
    };
    assert!(is_told("/usr/lib/libpool.so.1"));
    assert!(!is_told("/usr/lib/jvm/lib/server/libjvm.so"));
}

/// Code without names consists of many functions, some of which wait and others work. Not all functions of
/// one source file wait.
#[test]
fn code_without_names_is_no_pool() {
    let is_told = || {
        let (_, mut trace) = trace_of_lanes(&picture(&[(GIVING, 6), (TAKING, 3), (TASK, 1)]));
        for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("Pool.")) {
            // Where threads wait no line is known.
            if frame.function != "Pool.sleep" && frame.function != "Pool.work" {
                frame.file = "Pool.hs".to_owned();
            }
            frame.function.clear();
        }
        analyse(&trace).findings.iter().any(|finding| finding.rule == "fine-tasks")
    };
    assert!(!is_told());
}

#[test]
fn a_class_and_what_is_made_of_its_lambdas_are_one() {
    let of_class =
        |stack: &str| stack.replace("Fib.task", "Pool$$Lambda.call").replace("Fib.add", "Pool.add");
    let (giving, task) = (of_class(GIVING), of_class(TASK));
    let is_told = |module: &str| {
        let (_, mut trace) = trace_of_lanes(&picture(&[(&giving, 6), (TAKING, 3), (&task, 1)]));
        for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("Pool")) {
            frame.module = module.to_owned();
        }
        analyse(&trace).findings.iter().any(|finding| finding.rule == "fine-tasks")
    };
    assert!(is_told(""));
    assert!(!is_told("[jit]"));
}

#[test]
fn tasks_that_work_are_worth_it() {
    pool(&[(GIVING, 2), (TAKING, 2), (TASK, 6)], "@silent fine-tasks\n");
}

/// A library computes in its own code, and once called something of the program: that is not its task.
#[test]
fn a_library_that_does_its_own_work_is_no_pool() {
    let give = "clone;Main.ask;Pool.push";
    let is_told = |tasks: usize| {
        let (_, mut trace) = trace_of_lanes(&picture(&[(give, 5), (TAKING, 4), (TASK, 1)]));
        let of_stack = |trace: &Trace, function: &str| {
            let innermost = |sample: &&SampleRow| {
                trace.stack_frames(sample.stack).next().is_some_and(|leaf| trace.frame_name(leaf) == function)
            };
            trace.samples.iter().find(innermost).expect("a sample").stack
        };
        let (task, taking) = (of_stack(&trace, "Fib.add"), of_stack(&trace, "Pool.take"));
        let others = trace.samples.iter_mut().filter(|sample| sample.stack == task).skip(tasks);
        others.for_each(|sample| sample.stack = taking);
        analyse(&trace).findings.iter().any(|finding| finding.rule == "fine-tasks")
    };
    assert!(is_told(40));
    assert!(!is_told(2));
}

#[test]
fn a_pool_that_looks_for_work_in_vain_has_no_tasks_too_many() {
    pool(&[(TAKING, 9), (TASK, 1)], "@silent fine-tasks\n");
}

#[test]
fn callees_of_a_channel_are_no_tasks() {
    // Both threads are loops of the program that call the channel. The channel's callees are not tasks.
    let (give, take) = ("clone;Main.produce;Pool.push", "clone;Main.consume;Pool.take");
    pool(&[(give, 5), (take, 4), ("clone;Main.consume", 1)], "@silent fine-tasks\n");
}

/// Next to a pool with large tasks there is another process, whose pool does less, with tasks that are too
/// small.
#[test]
fn a_large_pool_does_not_hide_a_fine_one() {
    let mut text = picture(&[(GIVING, 2), (TAKING, 2), (TASK, 6)]) + "@cpus 4\n";
    for (thread, cpu) in [("C", 2), ("D", 3)] {
        text += &format!("@samples {thread} 0..3 user {GIVING}\n@samples {thread} 3..4 user {TASK}\n");
        text += &format!("{thread}  {}pppppppp\n", cpu.to_string().repeat(4));
    }
    let (_, mut trace) = trace_of_lanes(&text);
    let other = ProcessId(trace.processes.len() as u32);
    trace.processes.push(trace.processes[0].clone());
    for thread in trace.threads.iter_mut().filter(|thread| ["C", "D"].contains(&thread.name.as_str())) {
        thread.process = other;
    }
    let analysis = analyse(&trace);
    assert_ne!(analysis.derived.tasks[0].process, other, "it does less");
    let finding = analysis.findings.iter().find(|finding| finding.rule == "fine-tasks").expect("a finding");
    assert_eq!(finding.cost_ns, 120_000_000, "{finding:#?}");
}
