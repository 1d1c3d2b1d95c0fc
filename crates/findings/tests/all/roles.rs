//! Runtimes' roles on recordings made by hand: the figures that they change, and those that they must not
//! change.

use holdup_events::event::WakeContext;
use holdup_events::recording::Host;
use holdup_events::tables::*;
use holdup_events::{
    CpuId, FrameId, ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger::{self, Ledger};
use holdup_findings::derive::locks;
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::stacks::{Selection, observe};
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::descriptors::Descriptors;
use holdup_findings::{analyse, analyse_with};
use holdup_testkit::check::trace_of_lanes;

const POOL: &str = r#"
[runtime]
name = "pool"
title = "Pool"
fewer_collections = "POOL_HEAP=2G"
fewer_threads = "POOL_THREADS=1"
function = ["pool_main"]

[[rule]]
role = "work-wait"
on = "off"
what = "worker without a job"
any = ["pool_idle"]

[[rule]]
role = "lock"
on = "off"
lock = "the big lock"
one_lock = true
any = ["pool_lock"]
futex = ["g_big*"]

[[rule]]
role = "gc-work"
on = "cpu"
leaf = ["pool_collect"]

[[rule]]
role = "gc-wait"
on = "off"
thread = ["collector *"]
"#;

fn pool() -> Descriptors {
    Descriptors::none().with(&[POOL.to_owned()]).unwrap()
}

/// Stack 1: idle, 2: lock, 3: collects, 4: works. All are in the program, whose code contains the runtime.
fn with_stacks(trace: &mut Trace) {
    let frame = |function: &str| Frame {
        kind: FrameKind::User,
        function: function.into(),
        module: "/bin/app".into(),
        ..Frame::default()
    };
    trace.frames = ["pool_main", "pool_idle", "pool_lock", "pool_collect", "work"].map(frame).into();
    let mut rows = vec![StackRow::default()];
    // Row n is the leaf of stack n. Its caller, row 5, is pool_main.
    for leaf in 1..5 {
        rows.push(StackRow { frame: FrameId(leaf), parent: StackId(5), ..StackRow::default() });
    }
    rows.push(StackRow { frame: FrameId(0), end: StackEnd::Root, ..StackRow::default() });
    trace.stacks = Stacks::from_rows(rows);
    let app = Mapping { path: "/bin/app".into(), start: 0x1000, end: 0x2000, ..Mapping::default() };
    trace.mappings = vec![app];
}

fn wait(reason: WaitReason, object: u64) -> Wait {
    Wait { reason, object, object_kind: ObjectKind::Futex, syscall: 202, ..Wait::default() }
}

fn blocked(start: u64, wait: u32, stack: u32) -> SliceRow {
    SliceRow {
        start: Timestamp(start),
        state: ThreadState::Blocked,
        cpu: CpuId::NONE,
        wait: WaitId(wait),
        stack: StackId(stack),
        stack_every: 4,
        ..SliceRow::default()
    }
}

/// One thread, which does all of `rows` until 1000.
fn trace(name: &str, rows: Vec<SliceRow>, waits: Vec<Wait>) -> Trace {
    let end = Timestamp(1000);
    let mut trace = Trace::default();
    trace.manifest.end_ns = end.0;
    trace.threads = vec![Thread { name: name.into(), target: true, end, ..Thread::default() }];
    trace.processes = vec![Process { name: "app".into(), target: true, ..Process::default() }];
    trace.slices = Slices::freeze(&[rows], vec![end]);
    trace.wakeups = Wakeups::freeze(Vec::new(), 1);
    trace.waits = [vec![Wait::default()], waits].concat();
    with_stacks(&mut trace);
    trace
}

fn ledger(trace: &Trace, descriptors: &Descriptors) -> Ledger {
    let ledger = ledger::derive_with(trace, &Timelines::derive(trace), &Roles::derive(trace, descriptors));
    assert_eq!(ledger.classes.iter().sum::<u64>(), ledger.total_ns);
    let selection = Selection { descriptors: descriptors.clone(), ..Selection::all() };
    assert_eq!(observe(trace, &selection).classes, ledger.classes, "stacks divide the same classes");
    ledger
}

#[test]
fn waits_on_one_word_speak_for_those_without_a_stack() {
    let idle = vec![blocked(0, 1, 1), blocked(300, 1, 0), blocked(600, 1, 1)];
    let waits = vec![wait(WaitReason::Lock, 0x10)];
    assert_eq!(ledger(&trace("w", idle, waits.clone()), &pool()).class_ns(Class::WorkWait), 1000);
    // The sources disagree. Only waits with evidence change.
    let both = vec![blocked(0, 1, 1), blocked(300, 1, 0), blocked(600, 1, 2)];
    let ledger = ledger(&trace("w", both, waits), &pool());
    assert_eq!((ledger.class_ns(Class::WorkWait), ledger.class_ns(Class::LockWait)), (300, 700));
}

#[test]
fn waits_that_timed_out_are_asked_apart() {
    // One instance of epoll by which a thread waits for the big lock, until another thread wakes it, and sleeps, until it times out.
    let rows = vec![
        blocked(0, 1, 2),
        blocked(500, 1, 0),
        blocked(800, 1, 4),
        blocked(820, 1, 0),
        blocked(880, 1, 2),
    ];
    let epoll = Wait { object_kind: ObjectKind::Epoll, syscall: 232, ..wait(WaitReason::Multiplex, 0x10) };
    let mut trace = trace("w", rows, vec![epoll]);
    let wakeup = |at, context| Wakeup { at: Timestamp(at), wakee: ThreadId(0), context, ..Wakeup::default() };
    let (by_thread, by_timer) = (WakeContext::Thread, WakeContext::Timer);
    let ends = [(500, by_thread), (800, by_thread), (820, by_timer), (880, by_timer), (1000, by_thread)];
    trace.wakeups = Wakeups::freeze(ends.map(|(at, context)| wakeup(at, context)).to_vec(), 1);
    let due =
        |start, due| Deadline { thread: ThreadId(0), slice_start: Timestamp(start), due: Timestamp(due) };
    trace.deadlines = vec![due(800, 818), due(820, 878)];
    let known = ledger(&trace, &pool());
    assert_eq!((known.class_ns(Class::LockWait), known.class_ns(Class::Sleep)), (920, 80));
    // A thread whose timeout had not expired was woken. There is no evidence of a sleep.
    trace.deadlines = vec![due(800, 818), due(820, 5000)];
    let woken = ledger(&trace, &pool());
    assert_eq!((woken.class_ns(Class::LockWait), woken.class_ns(Class::Sleep)), (980, 20));
}

#[test]
fn a_wait_on_a_private_word_is_a_lock_wait_only_by_its_stack() {
    let trace = trace("w", vec![blocked(0, 1, 1), blocked(600, 1, 2)], vec![wait(WaitReason::Lock, 0x10)]);
    let roles = Roles::derive(&trace, &pool());
    let index = locks::LockIndex::new(&trace, &roles);
    let waited: Vec<Option<u32>> =
        trace.slices.of_thread(ThreadId(0)).map(|slice| index.waited((&trace, &roles), &slice)).collect();
    assert_eq!(waited, [None, Some(0)]);
    // The word is the lock's all the same.
    assert_eq!(index.of_word(WaitId(1)), Some(0));
}

#[test]
fn another_word_is_another_matter() {
    let rows = vec![blocked(0, 1, 1), blocked(300, 2, 0)];
    let waits = vec![wait(WaitReason::Lock, 0x10), wait(WaitReason::Lock, 0x20)];
    let ledger = ledger(&trace("w", rows, waits), &pool());
    assert_eq!((ledger.class_ns(Class::WorkWait), ledger.class_ns(Class::LockWait)), (300, 700));
}

#[test]
fn a_runtime_that_is_not_in_the_process_changes_nothing() {
    let rows = vec![blocked(0, 1, 1)];
    let mut trace = trace("collector 1", rows, vec![wait(WaitReason::Lock, 0x10)]);
    assert_eq!(ledger(&trace, &pool()).class_ns(Class::WorkWait), 1000);
    // The same program without the function by which the runtime is known, or in another process's file.
    trace.mappings[0].path = "/bin/other".into();
    assert_eq!(ledger(&trace, &pool()).class_ns(Class::LockWait), 1000);
}

#[test]
fn a_rule_within_another_function_asks_for_both() {
    let rule = |within: &str| {
        format!(
            "[runtime]\nname = \"pool\"\ntitle = \"Pool\"\nfunction = [\"pool_main\"]\n[[rule]]\nrole = \"join-wait\"\n\
             on = \"off\"\nany = [\"pool_idle\"]\nwithin = [\"{within}\"]\n[[rule]]\nrole = \"work-wait\"\non = \"off\"\n\
             any = [\"pool_idle\"]\n"
        )
    };
    let judged = |within: &str| {
        let descriptors = Descriptors::none().with(&[rule(within)]).unwrap();
        ledger(&trace("w", vec![blocked(0, 1, 1)], vec![wait(WaitReason::Lock, 0x10)]), &descriptors)
    };
    assert_eq!(judged("pool_main").class_ns(Class::JoinWait), 1000);
    // It is not on the stack: the next rule decides.
    assert_eq!(judged("pool_collect").class_ns(Class::WorkWait), 1000);
}

#[test]
fn what_a_thread_began_with_speaks_for_its_other_waits() {
    let rows = || vec![blocked(0, 1, 1), blocked(300, 2, 0), blocked(600, 3, 2)];
    let waits = || [0x10, 0x20, 0x30].map(|word| wait(WaitReason::Lock, word)).to_vec();
    let begins = POOL.replacen("any = [\"pool_idle\"]", "start = true\nany = [\"pool_idle\"]", 1);
    let begins = Descriptors::none().with(&[begins]).unwrap();
    let judged = ledger(&trace("w", rows(), waits()), &begins);
    // A wait with its own stack is judged by that stack.
    assert_eq!((judged.class_ns(Class::WorkWait), judged.class_ns(Class::LockWait)), (600, 400));
    // Another function may be called from anywhere: it speaks for nothing but itself.
    let judged = ledger(&trace("w", rows(), waits()), &pool());
    assert_eq!((judged.class_ns(Class::WorkWait), judged.class_ns(Class::LockWait)), (300, 700));
}

#[test]
fn what_the_kernel_knows_for_sure_stays() {
    let rows = vec![blocked(0, 1, 1), blocked(500, 2, 2)];
    let waits = vec![wait(WaitReason::Fault, 0), wait(WaitReason::Disk, 7)];
    let ledger = ledger(&trace("w", rows, waits), &pool());
    assert_eq!((ledger.class_ns(Class::FaultWait), ledger.class_ns(Class::IoWait)), (500, 500));
}

#[test]
fn a_thread_name_is_enough() {
    let rows = vec![blocked(0, 1, 0)];
    let waits = vec![wait(WaitReason::Park, 0x10)];
    assert_eq!(
        ledger(&trace("collector 7", rows.clone(), waits.clone()), &pool()).class_ns(Class::GcWait),
        1000
    );
    assert_eq!(ledger(&trace("worker 7", rows, waits), &pool()).class_ns(Class::WorkWait), 1000);
}

#[test]
fn one_lock_on_many_words_is_one_lock() {
    let rows = vec![blocked(0, 1, 0), blocked(300, 2, 2), blocked(600, 3, 0)];
    let named = |object, symbol: &str| Wait { symbol: symbol.into(), ..wait(WaitReason::Park, object) };
    let waits = vec![named(0x10, "g_big_lock+0x8"), named(0x20, ""), named(0x30, "g_small")];
    let trace = trace("w", rows, waits);
    let roles = Roles::derive(&trace, &pool());
    let locks = locks::derive_with(&trace, &roles);
    assert_eq!(locks.len(), 1);
    assert_eq!((locks[0].name.as_str(), locks[0].waits, locks[0].wait_ns), ("the big lock of app", 2, 600));
    let rule = locks[0].rule.and_then(|id| roles.descriptors.rule(id));
    assert_eq!(rule.map(|(runtime, _)| runtime.name.as_str()), Some("pool"));
    assert_eq!(ledger(&trace, &pool()).class_ns(Class::WorkWait), 400);
}

#[test]
fn of_a_runtimes_locks_each_is_named_by_its_variable() {
    let rows = vec![blocked(0, 1, 2), blocked(300, 2, 2)];
    let of_variable = Wait { symbol: "g_big_jobs".into(), ..wait(WaitReason::Park, 0x10) };
    let trace = trace("w", rows, vec![of_variable, wait(WaitReason::Park, 0x20)]);
    let each = Descriptors::none().with(&[POOL.replace("one_lock = true\n", "")]).unwrap();
    let mut names: Vec<String> =
        locks::derive_with(&trace, &Roles::derive(&trace, &each)).into_iter().map(|lock| lock.name).collect();
    names.sort();
    assert_eq!(names, ["the big lock (g_big_jobs) in app", "the big lock 0x20 in app"]);
}

#[test]
fn samples_of_the_collector_divide_the_running_time() {
    let running = SliceRow { state: ThreadState::Running, cpu: CpuId(0), ..SliceRow::default() };
    let mut trace = trace("w", vec![running], Vec::new());
    let stack = |at: u64| if at < 30 { 3 } else { 4 };
    let sample = |at| SampleRow {
        at: Timestamp(at * 10),
        stack: StackId(stack(at)),
        in_kernel: at < 10,
        syscall: -1,
        ..SampleRow::default()
    };
    trace.samples = (0..100).map(sample).collect();
    let ledger = ledger(&trace, &pool());
    let of = |class| ledger.class_ns(class);
    assert_eq!((of(Class::Kernel), of(Class::GcWork), of(Class::Useful)), (100, 200, 700));
    assert!(ledger.error_ns(Class::GcWork) > 0 && ledger.error_ns(Class::Spin) == 0);
}

/// One thread of which `share` of a hundred samples collect.
fn collecting(share: u64) -> Trace {
    let running = SliceRow { state: ThreadState::Running, cpu: CpuId(0), ..SliceRow::default() };
    let mut trace = trace("w", vec![running], Vec::new());
    let stack = |at: u64| StackId(if at < share { 3 } else { 4 });
    let sample =
        |at| SampleRow { at: Timestamp(at * 10), stack: stack(at), syscall: -1, ..SampleRow::default() };
    trace.samples = (0..100).map(sample).collect();
    trace
}

#[test]
fn gc_heavy_fires_where_a_thread_collects_much_of_its_time() {
    let found = |share: u64| {
        let analysis = analyse_with(&collecting(share), &pool());
        analysis.findings.into_iter().find(|finding| finding.rule == "gc-heavy")
    };
    let heavy = found(40).expect("a finding");
    assert_eq!((heavy.cost_ns, heavy.subject.as_str()), (400, "collector of Pool"));
    assert!((heavy.gain.high - 0.4).abs() < 1e-9 && (heavy.gain.low - 0.2).abs() < 1e-9, "{:?}", heavy.gain);
    assert_eq!(heavy.advice[0], "POOL_HEAP=2G", "the descriptor knows what helps");
    // Less than a tenth of the time is what collections cost everywhere.
    assert!(found(9).is_none() && found(0).is_none());
}

#[test]
fn stopped_jit_compiler_threads_delay_no_thread() {
    let text = format!("{POOL}\n[[rule]]\nrole = \"jit-compile\"\non = \"cpu\"\nleaf = [\"work\"]\n");
    let compiles = Descriptors::none().with(&[text]).unwrap();
    let is_told = |descriptors: &Descriptors| {
        let analysis = analyse_with(&collecting(40), descriptors);
        analysis.findings.iter().any(|finding| finding.rule == "gc-heavy")
    };
    assert!(is_told(&pool()) && !is_told(&compiles));
}

#[test]
fn kernel_time_in_a_spin_loop_is_waiting() {
    let text = format!("{POOL}\n[[rule]]\nrole = \"spin\"\non = \"cpu\"\nleaf = [\"work\"]\n");
    let mut trace = collecting(50);
    trace.samples.iter_mut().for_each(|sample| sample.in_kernel = sample.at.0 % 20 == 0);
    let roles = Roles::derive(&trace, &Descriptors::none().with(&[text]).unwrap());
    let waits = |sample: &&SampleRow| roles.is_kernel_for_waiting(sample);
    // Every second one is in the kernel, and the later half of these in the loop. The collecting threads
    // work.
    let stacks: Vec<StackId> = trace.samples.iter().filter(waits).map(|sample| sample.stack).collect();
    assert_eq!(stacks, [StackId(4); 25]);
    // Without the rule it is work.
    let roles = Roles::derive(&trace, &pool());
    assert!(!trace.samples.iter().any(|sample| roles.is_kernel_for_waiting(sample)));
}

/// Two threads that take turns on one CPU. If `both`, some of the second's samples are in the pool's code.
fn crowded(both: bool) -> Trace {
    let mut trace = collecting(50);
    let second = Thread { tid: 2, ..trace.threads[0].clone() };
    trace.threads.push(second);
    trace.manifest.host = Host { cpus: 1, cpus_allowed: 1, ..Host::default() };
    let turns = |thread: u32| {
        (0..100).map(move |turn| SliceRow {
            thread: ThreadId(thread),
            start: Timestamp(turn * 10),
            state: if turn % 2 == u64::from(thread) { ThreadState::Running } else { ThreadState::Yielded },
            cpu: CpuId(0),
            ..SliceRow::default()
        })
    };
    trace.slices = Slices::freeze(&[turns(0).chain(turns(1)).collect()], vec![Timestamp(1000); 2]);
    trace.wakeups = Wakeups::freeze(Vec::new(), 2);
    let of_second = |sample: &SampleRow| SampleRow {
        thread: ThreadId(1),
        stack: if both { sample.stack } else { StackId(4) },
        ..*sample
    };
    let second: Vec<SampleRow> = trace.samples.iter().map(of_second).collect();
    trace.samples.extend(second);
    trace
}

#[test]
fn a_runtime_with_too_many_threads_is_named() {
    let found = |both: bool| {
        let analysis = analyse_with(&crowded(both), &pool());
        let finding = analysis.findings.into_iter().find(|finding| finding.rule == "oversubscription");
        finding.and_then(|finding| Some((finding.subject, finding.advice.first()?.clone())))
    };
    let said = |subject: &str, advice: &str| Some((subject.to_owned(), advice.to_owned()));
    assert_eq!(found(true), said("2 busy threads of Pool for 1 CPU", "POOL_THREADS=1"));
    // Half of them have unknown code.
    assert_eq!(found(false), said("2 busy threads for 1 CPU", "Use 1 thread or fewer"));
}

#[test]
fn a_broken_recording_is_no_harm() {
    let mut trace = trace("w", vec![blocked(0, 9, 70), blocked(10, 1, 5)], vec![wait(WaitReason::Lock, 1)]);
    trace.mappings[0].process = ProcessId(9);
    trace.processes[0].parent = Some(ProcessId(0));
    trace.wakeups = Wakeups::freeze(
        vec![Wakeup { wakee: ThreadId(0), context: WakeContext::Thread, ..Wakeup::default() }],
        1,
    );
    ledger(&trace, &pool());
    ledger(&trace, &Descriptors::built_in());
}

#[test]
fn an_invalid_descriptor_gives_the_reason() {
    let error = |text: &str| Descriptors::none().with(&[text.to_owned()]).unwrap_err().to_string();
    assert!(error("nonsense").contains("expected"), "{}", error("nonsense"));
    let head = "[runtime]\nname = \"x\"\ntitle = \"X\"\n";
    assert!(error(head).contains("which detect the runtime"));
    let marked = format!("{head}function = [\"f\"]\n");
    assert!(error(&format!("{marked}[[rule]]\nrole = \"spin\"\n")).contains("rule 1 matches nothing"));
    let work = format!("{marked}[[work]]\nany = [\"a::B<int>::f\"]\nwhat = \"w\"\nadvice = \"a\"\n");
    assert!(error(&work).contains("work: `a::B<int>::f` never matches: write `a::B::f`"), "{}", error(&work));
    assert!(
        error(&format!("{marked}[[rule]]\nrole = \"spin\"\nleaf = [\"f(int)\"]\n")).contains("write `f`")
    );
    assert!(error(&format!("{marked}[[rule]]\nrole = \"nap\"\nleaf = [\"f\"]\n")).contains("nap"));
    assert!(error(&marked.replace("\"x\"", "\"X y\"")).contains("lower-case letters"));
}

/// Two workers of a pool that sleep in turns of `sleep` and wait 50 for work, on a word that looks like a lock.
fn two_workers(sleep: u64, stack: u32) -> Trace {
    let rows = |thread: u32| {
        let turn = |n: u64| {
            let row =
                |start, wait, stack| SliceRow { thread: ThreadId(thread), ..blocked(start, wait, stack) };
            [row(n * (sleep + 50), 1, 4), row(n * (sleep + 50) + sleep, 2, stack)]
        };
        (0..10).flat_map(turn).collect::<Vec<_>>()
    };
    let slow = Wait { reason: WaitReason::Sleep, syscall: 230, ..Wait::default() };
    let mut trace = trace("w", rows(0), vec![slow, wait(WaitReason::Lock, 0x10)]);
    let end = Timestamp(10 * (sleep + 50));
    trace.manifest.end_ns = end.0;
    trace.threads = vec![Thread { end, ..trace.threads[0].clone() }; 2];
    trace.threads[1].tid = 1;
    trace.slices = Slices::freeze(&[rows(0), rows(1)], vec![end; 2]);
    trace.wakeups = Wakeups::freeze(Vec::new(), 2);
    trace
}

#[test]
fn a_pool_is_recognized_by_the_rule_of_its_word() {
    let starved = |trace: &Trace| {
        let analysis = analyse_with(trace, &pool());
        analysis.findings.iter().any(|finding| finding.rule == "pool-starved")
    };
    assert!(starved(&two_workers(950, 1)), "idle workers wait on a word with a lock's protocol");
    assert!(!starved(&two_workers(950, 2)), "the runtime says that it is a lock");
}

/// Code that resembles a waiting loop but rarely iterates is work, if its runtime's descriptor marks it.
#[test]
fn code_that_a_runtime_only_passes_through_is_no_waiting() {
    let spun = |function: &str| {
        let (_, trace) = trace_of_lanes(&format!(
            "@cpus 2\n@repeat 50\n@samples A 0..10 user main;{function}~word\nA  0000000000\n"
        ));
        analyse(&trace).derived.ledger.class_ns(Class::Spin)
    };
    assert_eq!(spun("stg_BLACKHOLE_info"), 0);
    assert!(spun("take_ticket") > 0);
}

/// A call in tokio's pool for blocking calls has its own wait. A thread of the pool is idle only in the
/// pool's own wait.
#[test]
fn a_blocking_call_that_waits_for_a_lock_is_not_without_a_call() {
    use holdup_findings::derive::class::Class;
    let waited = |what: &str| {
        let stack = format!("tokio::runtime::blocking::pool::Inner::run;{what}");
        let picture =
            format!("@cpus 2\n@c park\n@repeat 20\n@stack c {stack}\nA  0ccc\nB  1111  holds c 0..4\n");
        let (_, trace) = holdup_testkit::check::trace_of_lanes(&picture);
        let ledger = holdup_findings::analyse(&trace).derived.ledger;
        [Class::LockWait, Class::WorkWait].map(|class| ledger.class_ns(class) > 0)
    };
    assert_eq!(waited("app::store;std::sys::sync::mutex::futex::Mutex::lock_contended"), [true, false]);
    assert_eq!(waited("std::sys::sync::condvar::futex::Condvar::wait_optional_timeout"), [false, true]);
}
