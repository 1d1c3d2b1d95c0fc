//! Words on which threads wait in functions that serve as lock and as signal. The thread that ends the waits
//! shows which one it is.

use holdup_events::event::WakeContext;
use holdup_events::tables::*;
use holdup_events::{
    CpuId, FrameId, ObjectKind, ProcessId, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::ledger;
use holdup_findings::derive::locks::{self, LockUse};
use holdup_findings::derive::roles::Roles;
use holdup_findings::derive::timelines::Timelines;
use holdup_findings::descriptors::Descriptors;

const SEMAPHORES: &str = r#"
[runtime]
name = "semaphores"
title = "Semaphores"
function = ["take"]

[[rule]]
role = "lock"
on = "off"
lock = "semaphore"
handed_on = true
any = ["take"]

[[rule]]
role = "work-wait"
on = "off"
what = "semaphore"
any = ["take"]
"#;

/// A wait of `waiter` on a word, in units of 100 ns, that `waker` ends.
struct Waited {
    waiter: u32,
    from: u64,
    to: u64,
    waker: u32,
}

/// `threads` of one process, each on a CPU of its own, which wait on one word in the function `take`.
fn trace(threads: u32, waits: &[Waited]) -> Trace {
    let end = Timestamp(1000);
    let mut trace = Trace::default();
    trace.manifest.end_ns = end.0;
    trace.threads =
        (0..threads).map(|tid| Thread { tid: tid + 1, target: true, end, ..Thread::default() }).collect();
    trace.processes = vec![Process { name: "app".into(), target: true, ..Process::default() }];
    let frame = Frame {
        kind: FrameKind::User,
        function: "take".into(),
        module: "/bin/app".into(),
        ..Frame::default()
    };
    trace.frames = vec![frame];
    let stack = StackRow { frame: FrameId(0), end: StackEnd::Root, ..StackRow::default() };
    trace.stacks = Stacks::from_rows(vec![StackRow::default(), stack]);
    trace.mappings =
        vec![Mapping { path: "/bin/app".into(), start: 0x1000, end: 0x2000, ..Mapping::default() }];
    let word = Wait {
        reason: WaitReason::Park,
        object: 0x7000,
        object_kind: ObjectKind::Futex,
        syscall: 202,
        process: ProcessId(0),
        ..Wait::default()
    };
    trace.waits = vec![Wait::default(), word];
    let batches: Vec<Vec<SliceRow>> = (0..threads).map(|thread| slices(thread, waits)).collect();
    trace.slices = Slices::freeze(&batches, vec![end; threads as usize]);
    let wakeup = |waited: &Waited| Wakeup {
        at: Timestamp(waited.to * 100),
        wakee: ThreadId(waited.waiter),
        waker: ThreadId(waited.waker),
        cpu: CpuId(waited.waker as u16),
        context: WakeContext::Thread,
        stack: StackId::NONE,
        stack_every: 0,
        waker_object: 0x7000,
    };
    trace.wakeups = Wakeups::freeze(waits.iter().map(wakeup).collect(), threads as usize);
    trace
}

fn slices(thread: u32, waits: &[Waited]) -> Vec<SliceRow> {
    let running = |start: u64| SliceRow {
        thread: ThreadId(thread),
        start: Timestamp(start * 100),
        state: ThreadState::Running,
        cpu: CpuId(thread as u16),
        ..SliceRow::default()
    };
    let blocked = |start: u64| SliceRow {
        state: ThreadState::Blocked,
        cpu: CpuId::NONE,
        wait: WaitId(1),
        stack: StackId(1),
        stack_every: 1,
        ..running(start)
    };
    let own = waits.iter().filter(|waited| waited.waiter == thread);
    let both = own.flat_map(|waited| [blocked(waited.from), running(waited.to)]);
    std::iter::once(running(0)).chain(both).collect()
}

/// The locks, the time waited for locks, and that waited for work (ns).
fn locks_and_waits(trace: &Trace) -> (Vec<LockUse>, u64, u64) {
    let roles = Roles::derive(trace, &Descriptors::none().with(&[SEMAPHORES.to_owned()]).unwrap());
    let ledger = ledger::derive_with(trace, &Timelines::derive(trace), &roles);
    (locks::derive_with(trace, &roles), ledger.class_ns(Class::LockWait), ledger.class_ns(Class::WorkWait))
}

fn waited(waiter: u32, from: u64, to: u64, waker: u32) -> Waited {
    Waited { waiter, from, to, waker }
}

#[test]
fn what_threads_hand_to_each_other_is_a_lock_with_its_holder() {
    // The first holder never waited before. From then on each holder releases it for the next one.
    let waits = [waited(1, 1, 2, 0), waited(0, 3, 4, 1), waited(1, 5, 6, 0), waited(0, 7, 8, 1)];
    let (locks, lock_ns, work_ns) = locks_and_waits(&trace(2, &waits));
    assert_eq!((lock_ns, work_ns), (400, 0));
    assert_eq!(locks.len(), 1);
    assert_eq!((locks[0].waits, locks[0].waiters), (4, 2));
    assert_eq!(locks[0].name, "semaphore 0x7000 in app");
    assert_eq!(locks[0].releasers, [(ThreadId(0), 2), (ThreadId(1), 2)]);
}

#[test]
fn waits_ended_by_a_third_thread_are_work_waits() {
    // Two take turns to wait, and a third, which never waits, lets them go.
    let waits = [waited(1, 1, 2, 2), waited(0, 3, 4, 2), waited(1, 5, 6, 2), waited(0, 7, 8, 2)];
    let (locks, lock_ns, work_ns) = locks_and_waits(&trace(3, &waits));
    assert_eq!((locks.len(), lock_ns, work_ns), (0, 0, 400));
}

#[test]
fn every_second_handing_on_is_no_lock() {
    // As in a queue whose idle workers wake each other to look, and go to sleep again.
    let waits = [waited(1, 1, 2, 2), waited(0, 3, 4, 1), waited(1, 5, 6, 2), waited(0, 7, 8, 1)];
    let (locks, lock_ns, _) = locks_and_waits(&trace(3, &waits));
    assert_eq!((locks.len(), lock_ns), (0, 0));
}

/// Inside pthread_cond_wait a thread may wait for the mutex again. Without debug symbols the stack has only
/// this function's name. The futex word distinguishes the mutex from the condition variable.
#[test]
fn a_condition_variable_is_no_lock_but_its_mutex_is() {
    let classes = |letter: &str, stack: &str| {
        let (_, trace) = holdup_testkit::check::trace_of_lanes(&format!(
            "@cpus 2\n@c park\n@repeat 20\n@stack {letter} {stack}\n\
             A  0000{}  holds {letter} 0..4\nB  {}1111  holds {letter} 4..8\n",
            letter.repeat(4),
            letter.repeat(4),
        ));
        let classes = holdup_findings::analyse(&trace).derived.ledger.classes;
        [Class::LockWait, Class::WorkWait].map(|class| classes[class as usize] > 0)
    };
    let glibc = "__libc_start_call_main;worker;pthread_cond_wait";
    assert_eq!(classes("m", glibc), [true, false], "the mutex");
    assert_eq!(classes("c", glibc), [false, true], "the condition variable");
    // musl's word has the value of a lock's word.
    assert_eq!(classes("m", "main;worker;pthread_cond_wait;__timedwait_cp"), [false, true], "musl");
}

/// Zig's mutex waits with a value that identifies nothing, and its condition takes that mutex again.
#[test]
fn a_mutex_of_zig_is_a_lock_but_its_condition_is_none() {
    let lanes = "A  0000cccc  holds c 0..4\nB  cccc1111  holds c 4..8\n";
    let stack = |function: &str| {
        format!("Thread.LinuxThreadImpl.spawn__anon_3112.Instance.entryFn;mz.work;{function}")
    };
    let mutex = stack("Thread.Mutex.FutexImpl.lockSlow");
    let again = stack("Thread.Condition.FutexImpl.wait;Thread.Mutex.FutexImpl.lockSlow");
    for stack in [mutex, again] {
        let (names, work_ns) = locks("park", &stack, lanes);
        assert_eq!((names.len(), work_ns), (1, 0), "{stack}");
    }
    let (names, work_ns) = locks("park", &stack("Thread.Condition.FutexImpl.wait"), lanes);
    assert!(names.is_empty() && work_ns > 0, "{names:?}");
}

/// The names of the locks, and the time waited for work (ns), where threads wait for `c` with this stack. Functions called
/// `libc.so.6+…` are places in the C library without a name.
fn locks(reason: &str, stack: &str, lanes: &str) -> (Vec<String>, u64) {
    let (_, mut trace) = holdup_testkit::check::trace_of_lanes(&format!(
        "@cpus 2\n@c {reason}\n@repeat 20\n@stack c {stack}\n{lanes}"
    ));
    for frame in trace.frames.iter_mut().filter(|frame| frame.function.starts_with("libc.so.6+")) {
        (frame.function, frame.module) = (String::new(), "/lib/libc.so.6".into());
    }
    let libc =
        Mapping { path: "/lib/libc.so.6".into(), start: 0x9000, end: 0xa000, ..trace.mappings[0].clone() };
    trace.mappings.push(libc);
    let analysis = holdup_findings::analyse(&trace);
    let names = analysis.derived.locks.iter().map(|lock| lock.name.clone());
    (names.collect::<Vec<_>>(), analysis.derived.ledger.class_ns(Class::WorkWait))
}

/// Without debug symbols a wait for a semaphore has no name in its stack, only places in the C library.
#[test]
fn a_semaphore_without_symbols_is_a_lock_where_its_holders_release_it() {
    let holders = "A  0000cccc  holds c 0..4\nB  cccc1111  holds c 4..8\n";
    let nameless = "__libc_start_call_main;worker;libc.so.6+0x90d00;libc.so.6+0x85e50";
    let (names, work_ns) = locks("park", nameless, holders);
    assert_eq!((names.len(), work_ns), (1, 0), "{names:?}");
    assert!(names[0].contains("semaphore"), "{names:?}");
    // The program's own wait: its innermost function has a name.
    let (names, work_ns) = locks("park", "__libc_start_call_main;libc.so.6+0x88ef0;worker;syscall", holders);
    assert!(names.is_empty() && work_ns > 0, "{names:?}");
    // The word itself identifies a lock: a mutex whose functions have no name.
    let (names, _) = locks("lock", nameless, holders);
    assert!(names.len() == 1 && !names[0].contains("semaphore"), "{names:?}");
    // A thread that never waits releases it: a signal.
    let signal = "A  cccc0000\nB  11111111  holds c 0..4\n";
    let (names, work_ns) = locks("park", nameless, signal);
    assert!(names.is_empty() && work_ns > 0, "{names:?}");
}

/// The word of std::atomic::wait has the program's own value, here a locked lock's.
#[test]
fn a_wait_for_an_atomic_is_a_lock_only_where_its_holders_release_it() {
    let classes = |lanes: &str| {
        let (_, trace) = holdup_testkit::check::trace_of_lanes(&format!(
            "@cpus 2\n@c lock\n@repeat 20\n@stack c main;work;std::__atomic_base<int>::wait(int);syscall\n{lanes}"
        ));
        let classes = holdup_findings::analyse(&trace).derived.ledger.classes;
        [Class::LockWait, Class::WorkWait].map(|class| classes[class as usize] > 0)
    };
    assert_eq!(classes("A  cccc0000\nB  11111111  holds c 0..4\n"), [false, true], "a signal");
    assert_eq!(classes("A  0000cccc  holds c 0..4\nB  cccc1111  holds c 4..8\n"), [true, false], "a lock");
}
