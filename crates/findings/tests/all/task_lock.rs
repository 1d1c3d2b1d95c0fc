//! Locks of tasks, shown by the threads that release them, because no thread waits for them.

use holdup_events::Trace;
use holdup_events::tables::Wakeups;
use holdup_findings::{Analysis, Confidence, analyse};
use holdup_testkit::check::{check_lanes, trace_of_lanes};

/// A is idle until B wakes it with stack `waker`. If `sample` is not empty, B has samples with it.
fn analysed(waker: &str, sample: &str) -> Analysis {
    let (_, mut trace) = trace_of_lanes(&format!(
        "@cpus 2\n@c park\n@repeat 60\n@samples B 0..1 user {waker}\n@samples B 1..2 user {sample}\n\
         A  cccc00\n\
         B  111111  holds c 0..4\n"
    ));
    let stack = trace.samples[0].stack;
    let mut wakeups: Vec<_> =
        trace.target_threads().flat_map(|thread| trace.wakeups.of_thread(thread).to_vec()).collect();
    wakeups.iter_mut().for_each(|wakeup| wakeup.stack = stack);
    trace.wakeups = Wakeups::freeze(wakeups, trace.threads.len());
    remove_first(&mut trace, stack);
    analyse(&trace)
}

/// The first samples only bring the wakers' stack into the recording.
fn remove_first(trace: &mut Trace, stack: holdup_events::StackId) {
    trace.samples.retain(|sample| sample.stack != stack);
}

const SEMAPHORE: &str =
    "runtime.mstart;runtime.readyWithTime.goready.func1;runtime.ready;runtime.futexwakeup";
const CHANNEL: &str = "runtime.mstart;runtime.goready.func1;runtime.ready;runtime.futexwakeup";
const LOCKING: &str = "runtime.goexit;main.count;internal/sync.(*Mutex).lockSlow;runtime.nanotime";

#[test]
fn fires_where_threads_idle_until_a_lock_of_tasks_is_let_go() {
    let analysis = analysed(SEMAPHORE, LOCKING);
    let finding = analysis.findings.iter().find(|one| one.rule == "task-lock").expect("a finding");
    assert_eq!(finding.subject, "locks taken in main.count");
    assert_eq!(finding.confidence, Confidence::Medium);
    // What the CPU does in functions of contended locks goes as well.
    assert!(finding.gain.high > 0.4 && finding.gain.low == 0.0, "{:?}", finding.gain);
}

/// Whatever of the language's own library lies between.
#[test]
fn names_the_programs_function_that_takes_it() {
    let letting_go = "runtime.goexit;main.put;sync.(*Mutex).Unlock;internal/sync.(*Mutex).unlockSlow;internal/sync.runtime_Semrelease;runtime.semrelease1";
    let analysis = analysed(SEMAPHORE, letting_go);
    let finding = analysis.findings.iter().find(|one| one.rule == "task-lock").expect("a finding");
    assert_eq!(finding.subject, "locks taken in main.put");
}

#[test]
fn is_a_hint_where_no_contended_lock_was_sampled() {
    let analysis = analysed(SEMAPHORE, "runtime.goexit;main.count");
    let finding = analysis.findings.iter().find(|one| one.rule == "task-lock").expect("a finding");
    assert_eq!(finding.confidence, Confidence::Low);
    assert!((finding.gain.high - 1.0 / 3.0).abs() < 0.02 && finding.gain.low == 0.0, "{:?}", finding.gain);
}

#[test]
fn is_silent_where_tasks_hand_each_other_work() {
    let analysis = analysed(CHANNEL, "runtime.goexit;main.count");
    assert!(analysis.findings.iter().all(|one| one.rule != "task-lock"), "{:#?}", analysis.findings);
}

/// The upper bound of the cost of syncs, in a program that a concurrent sleeper makes last as long. A replay
/// keeps the sleeps.
fn syncs_cost(stack: &str) -> f64 {
    let analysis = check_lanes(&format!(
        "@cpus 2\n@d disk 75\n@s sleep\n@repeat 30\n@stack d {stack}\n\
         A  0dddd0dddd\nB  1ssss1ssss\n"
    ));
    let finding = analysis.findings.iter().find(|finding| finding.rule == "sync-per-item");
    finding.map_or(0.0, |finding| finding.gain.high)
}

#[test]
fn what_a_task_waits_for_the_disk_the_next_waits_in_whichever_thread() {
    let (tasks, threads) = (syncs_cost("runtime.goexit;main.put"), syncs_cost("main;put"));
    assert!(tasks > 0.3 && threads < 0.1, "{tasks} {threads}");
}
