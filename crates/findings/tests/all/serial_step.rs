//! One child that all others wait for, and what only looks so.

use holdup_events::tables::Process;
use holdup_events::{ProcessId, Trace};
use holdup_findings::{Confidence, Finding, analyse};
use holdup_testkit::check::trace_of_lanes;

/// All but the first are children of the first process, except `shell`, a child of the second one.
fn family(lanes: &str) -> Trace {
    let (_, mut trace) = trace_of_lanes(lanes);
    let parent = trace.threads[0].process;
    let mut second = parent;
    for (row, thread) in trace.threads.iter_mut().enumerate().skip(1) {
        thread.process = ProcessId(trace.processes.len() as u32);
        let (pid, name) = (thread.tid, thread.name.clone());
        let its = if name == "generator" { second } else { parent };
        trace.processes.push(Process { pid, name, target: true, parent: Some(its) });
        if row == 1 {
            second = thread.process;
        }
    }
    trace
}

fn serial_step(trace: &Trace) -> Option<Finding> {
    analyse(trace).findings.into_iter().find(|finding| finding.rule == "serial-step")
}

/// Six children for 20 ticks each, `at_a_time` in parallel, from tick 41 on.
fn compilers(at_a_time: usize) -> String {
    let lane = |nth: usize| {
        let from = 41 + nth / at_a_time * 20;
        let (cpu, after) = (nth % at_a_time, 101 - from - 19);
        format!("c{nth}  {}{}{}\n", ".".repeat(from), cpu.to_string().repeat(19), ".".repeat(after))
    };
    (0..6).map(lane).collect()
}

/// A build that generates something first, on one CPU of two, in `first`.
fn build(first: &str) -> Trace {
    family(&format!(
        "@cpus 2\n@w child\nmake  0{}0{}\n{first}{}",
        "w".repeat(39),
        "w".repeat(60),
        compilers(2)
    ))
}

#[test]
fn a_step_that_all_threads_wait_for_is_reported() {
    let alone = "1".repeat(39);
    let trace = build(&format!("gen   .{alone}.  holds w 1..40\n"));
    let found = serial_step(&trace).expect("a finding");
    assert!(found.subject.starts_with("make waits for gen"), "{}", found.subject);
    // 39 of 101 ticks, on two CPUs.
    assert!(found.gain.low == 0.0 && (found.gain.high - 39.0 / 101.0 / 2.0).abs() < 0.01, "{:?}", found.gain);
    assert_eq!(found.confidence, Confidence::Medium);
    assert!(found.summary[0].contains("1.0 active threads on average"), "{:#?}", found.summary);
    assert!(found.summary[0].contains("up to 2 ran in parallel (57.0 ms in total)"), "{:#?}", found.summary);
    assert!(found.summary[1].contains("for 39.0 ms from 1.00 ms"), "{:#?}", found.summary);
}

#[test]
fn what_a_step_has_started_is_its_work() {
    let (waits, alone) = ("c".repeat(38), "1".repeat(38));
    let trace = build(&format!("shell  .0{waits}.  holds w 1..40\ngenerator  ..{alone}.  holds c 2..40\n"));
    let found = serial_step(&trace).expect("a finding");
    assert!(
        found.subject.contains("generator") && found.subject.ends_with("(of shell)"),
        "{}",
        found.subject
    );
}

#[test]
fn steps_that_use_both_cpus_or_none_are_none() {
    // A second thread of the first step.
    let alone = "1".repeat(39);
    let two = format!("gen   .{alone}.  holds w 1..40\ngenerator  .{}.\n", "0".repeat(39));
    assert_eq!(serial_step(&build(&two)), None);
    let asleep = format!("@s sleep\ngen   .1{}1.  holds w 39..40\n", "s".repeat(37));
    assert_eq!(serial_step(&build(&asleep)), None, "what it sleeps for is told by others");
}

#[test]
fn a_parent_that_works_with_its_only_child_is_not_delayed() {
    let works = format!(
        "@cpus 2\n@w child\nmake  {}{}\nhelper  .1{}.\n{}",
        "0".repeat(41),
        "w".repeat(60),
        "h".repeat(38),
        compilers(2)
    );
    assert_eq!(serial_step(&family(&works)), None);
}

#[test]
fn children_that_are_always_one_by_one_are_child_waits() {
    let lanes = format!("@cpus 2\n@w child\nmake  0{}\n{}", "w".repeat(160), {
        let lane = |nth: usize| {
            let from = 1 + nth * 26;
            format!(
                "c{nth}  {}{}{}  holds w {from}..{}\n",
                ".".repeat(from),
                "1".repeat(26),
                ".".repeat(161 - from - 26),
                from + 26
            )
        };
        (0..6).map(lane).collect::<String>()
    });
    assert_eq!(serial_step(&family(&lanes)), None);
}
