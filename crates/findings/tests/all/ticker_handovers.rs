//! Resources that a runtime's own thread takes from threads in a call, and hands to others.

use holdup_events::tables::Mapping;
use holdup_findings::analyse;
use holdup_findings::derive::class::Class;
use holdup_findings::derive::critical_path::{self, Step};
use holdup_testkit::check::trace_of_lanes;

const TICK_NS: u64 = 1_000_000;

/// A is in a call. S, after a sleep, hands A's resource to B.
fn taken_over(ticker: &str) -> Vec<String> {
    let idle = "runtime.mcall;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.futexsleep";
    let (_, trace) = trace_of_lanes(&format!(
        "@cpus 3\n@d disk 75\n@s sleep\n@p park\n\
         @stack d runtime.goexit;main.put\n@stack p {idle}\n@stack s runtime.mstart;{ticker};runtime.usleep\n\
         A  00dddddddd\n\
         B  pppp111111\n\
         S  sss2ssssss  holds p 3..4\n"
    ));
    let derived = &analyse(&trace).derived;
    let path = critical_path::within((&trace, &derived.roles), &derived.holders, trace.start(), trace.end());
    let step = |step: &Step| {
        let thread = &trace.threads[step.thread.index()].name;
        format!("{thread} {} {}", step.class.name(), step.to.since(step.from).0 / TICK_NS)
    };
    path.steps.iter().map(step).collect()
}

#[test]
fn the_critical_path_continues_in_the_thread_in_the_call() {
    let steps = taken_over("runtime.sysmon");
    assert_eq!(steps, ["A useful 2", "A io-wait 2", "B useful 6"]);
}

#[test]
fn a_thread_of_the_program_that_wakes_another_behind_a_sleep_is_waited_for_itself() {
    let steps = taken_over("main.tick");
    assert_eq!(steps, ["S sleep 3", "S useful 1", "B useful 6"]);
}

/// A runtime's clock continues by itself. A thread that waited for it (for its exit, at the end of the
/// program) worked before.
#[test]
fn a_runtimes_clock_is_on_the_path_since_it_is_waited_for() {
    let steps = |ticker: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@s sleep\n@p park\n@stack s runtime.mstart;{ticker};runtime.usleep\n@stack p runtime.goexit;main.end\n\
             A  0000pppp00\n\
             S  sssssss1ss  holds p 7..8\n"
        ));
        let derived = &analyse(&trace).derived;
        let path =
            critical_path::within((&trace, &derived.roles), &derived.holders, trace.start(), trace.end());
        let step = |step: &Step| {
            let thread = &trace.threads[step.thread.index()].name;
            format!("{thread} {} {}", step.class.name(), step.to.since(step.from).0 / TICK_NS)
        };
        path.steps.iter().map(step).collect::<Vec<_>>()
    };
    assert_eq!(steps("runtime.sysmon"), ["A useful 4", "S sleep 3", "S useful 1", "A useful 2"]);
    assert_eq!(steps("main.tick"), ["S sleep 7", "S useful 1", "A useful 2"]);
}

/// Users cannot change the periodic check of a runtime's thread. For a thread of the program it is reported.
#[test]
fn a_runtimes_looking_is_no_finding() {
    let looking = |ticker: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@tick 100000\n@s sleep\n@c park\n@repeat 60\n@stack s runtime.mstart;{ticker};runtime.usleep\n\
             @stack c runtime.goexit;main.wait\n\
             A  0ccccccccccccccccccc  holds s 0..1\n\
             B  ss1ssssssss1sssssss1  holds c 19..20\n"
        ));
        analyse(&trace).findings.iter().any(|finding| finding.rule == "poll-loop")
    };
    assert!(looking("main.tick") && !looking("runtime.sysmon"));
}

/// No thread waits for such a thread's sleeps, however many there are. The program waits for other events.
#[test]
fn a_runtimes_sleeping_is_no_finding() {
    let sleeping = |ticker: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@tick 100000\n@s sleep\n@d disk 75\n@repeat 60\n\
             @stack s runtime.mstart;{ticker};runtime.usleep\n@stack d runtime.goexit;main.put\n\
             A  0ddddddddd\n\
             B  sss11ss111\n"
        ));
        analyse(&trace).findings.iter().any(|finding| finding.rule == "oversleep")
    };
    assert!(sleeping("main.tick") && !sleeping("runtime.sysmon"));
}

/// An idle worker of a runtime sleeps briefly before it searches for work again. This is no sleep that the
/// program requested. The stacks of some of its sleeps decide for the others.
#[test]
fn a_worker_that_sleeps_before_it_looks_again_is_no_finding() {
    let sleeping = |place: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@tick 100000\n@s sleep\n@n sleep\n@d disk 75\n@repeat 60\n\
             @stack s runtime.mstart;{place};runtime.usleep\n@stack d runtime.goexit;main.put\n\
             A  0ddddddddd\n\
             B  sss11nn111\n"
        ));
        let analysis = analyse(&trace);
        let slept = analysis.derived.ledger.class_ns(Class::Sleep);
        (slept > 0, analysis.findings.iter().any(|finding| finding.rule == "oversleep"))
    };
    assert_eq!(sleeping("main.tick"), (true, true));
    assert_eq!(sleeping("runtime.findRunnable;runtime.stealWork"), (false, false));
}

/// A thread that only maintains the runtime, and waits with a timeout, has no clock that the program
/// requested. A pool's worker may have one.
#[test]
fn an_idle_runtime_thread_delays_no_thread() {
    let sleeping = |name: &str, idle: &str| {
        let (_, mut trace) = trace_of_lanes(&format!(
            "@cpus 2\n@tick 100000\n@v park\n@timeout v 3\n@d disk 75\n@repeat 60\n\
             @stack v thread_native_entry;{idle}\n@stack d JavaMain;Log.put\n\
             A  0ddddddddd\n\
             B  vvv11vv111\n"
        ));
        let process = trace.threads[0].process;
        let library = Mapping {
            process,
            path: "/jvm/libjvm.so".into(),
            start: 0x1000,
            end: 0x2000,
            ..Mapping::default()
        };
        trace.mappings.push(library);
        trace.threads[1].name = name.to_owned();
        analyse(&trace).findings.iter().any(|finding| finding.rule == "oversleep")
    };
    assert!(!sleeping("VM Thread", "VMThread::run;VMThread::loop;Monitor::wait_without_safepoint_check"));
    assert!(sleeping(
        "pool-1-thread-1",
        "java.util.concurrent.ThreadPoolExecutor.getTask;Unsafe_Park;Parker::park"
    ));
}
