//! Locks whose waiters each have their own word. The class whose function takes a lock identifies it.

use holdup_events::tables::*;
use holdup_events::{
    CpuId, FrameId, ObjectKind, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::derive::class::Class;
use holdup_findings::derive::locks::{self, LockIndex};
use holdup_findings::derive::roles::Roles;
use holdup_findings::descriptors::Descriptors;

/// Without a stack.
const NONE: u32 = 0;
/// A thread of a pool without a task.
const IDLE: u32 = 1;
/// Where `shop.Orders` and `shop.Stock` take a lock, and a method of the library does for itself.
const ORDERS: u32 = 2;
const STOCK: u32 = 3;
const LIBRARY: u32 = 4;
/// Where another method of `shop.Orders` does.
const ORDERS_TOO: u32 = 5;
/// Where a method of the library enters a monitor for `Events`, and where `shop.Stock` enters one of its own.
const MONITOR: u32 = 6;
const OWN_MONITOR: u32 = 7;

/// Leaf first.
const STACKS: [&[&str]; 7] = [
    &["Unsafe_Park", "java.util.concurrent.ThreadPoolExecutor.getTask"],
    &["Unsafe_Park", ACQUIRE, "java.util.concurrent.locks.ReentrantLock.lock", "shop.Orders.place"],
    &["Unsafe_Park", ACQUIRE, "java.util.concurrent.locks.ReentrantLock.lock", "shop.Stock$Row.take"],
    &["Unsafe_Park", ACQUIRE, "java.util.concurrent.LinkedBlockingQueue.take"],
    &["Unsafe_Park", ACQUIRE, "java.util.concurrent.locks.ReentrantLock.lock", "shop.Orders$$Lambda.run"],
    &[
        "ObjectMonitor::enter",
        "C2 Runtime complete_monitor_locking",
        "java.security.SecureRandom.nextBytes",
        "Events.next",
    ],
    &[
        "ObjectMonitor::enter",
        "C1 Runtime monitorenter_nofpu_blob",
        "shop.Stock$Row.count",
        "shop.Orders.place",
    ],
];
const ACQUIRE: &str = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire";

/// Each thread has the states of its row, 100 ns each, on its own word.
fn trace(threads: &[&[u32]]) -> Trace {
    let mut trace = Trace::default();
    let end = Timestamp(threads.iter().map(|rows| rows.len()).max().unwrap_or(0) as u64 * 100);
    trace.manifest.end_ns = end.0;
    trace.processes = vec![Process { name: "java".into(), target: true, ..Process::default() }];
    trace.waits.push(Wait::default());
    let mut slices = Vec::new();
    for (number, rows) in threads.iter().enumerate() {
        trace.threads.push(Thread { name: format!("pool-{number}"), target: true, end, ..Thread::default() });
        let object = 0x7f00_0000 + 0x40 * number as u64;
        let object_kind = ObjectKind::Futex;
        trace.waits.push(Wait {
            reason: WaitReason::Park,
            object,
            object_kind,
            syscall: 202,
            ..Wait::default()
        });
        let slice = |(at, stack): (usize, &u32)| SliceRow {
            thread: ThreadId(number as u32),
            start: Timestamp(at as u64 * 100),
            state: ThreadState::Blocked,
            cpu: CpuId::NONE,
            wait: WaitId(number as u32 + 1),
            stack: StackId(*stack),
            stack_every: 1,
        };
        slices.push(rows.iter().enumerate().map(slice).collect::<Vec<_>>());
    }
    trace.slices = Slices::freeze(&slices, vec![end; threads.len()]);
    trace.wakeups = Wakeups::freeze(Vec::new(), 1);
    with_stacks(&mut trace);
    let library = Mapping { path: "/jvm/libjvm.so".into(), start: 0x1000, end: 0x2000, ..Mapping::default() };
    trace.mappings = vec![library];
    trace
}

fn with_stacks(trace: &mut Trace) {
    let mut rows = vec![StackRow::default(); STACKS.len() + 1];
    for (number, functions) in STACKS.iter().enumerate() {
        let mut parent = StackId::NONE;
        for (depth, function) in functions.iter().enumerate().rev() {
            let module = if depth == 0 { "/jvm/libjvm.so" } else { GENERATED_MODULE };
            let (function, module) = ((*function).to_owned(), module.to_owned());
            let frame = FrameId(trace.frames.len() as u32);
            trace.frames.push(Frame { kind: FrameKind::User, function, module, ..Frame::default() });
            let end = if parent == StackId::NONE { StackEnd::Root } else { StackEnd::default() };
            let row = StackRow { frame, parent, end, ..StackRow::default() };
            if depth == 0 {
                rows[number + 1] = row;
            } else {
                parent = StackId(rows.len() as u32);
                rows.push(row);
            }
        }
    }
    trace.stacks = Stacks::from_rows(rows);
}

/// Name, waits and time (ns) of each lock, and the time that threads had nothing to do.
fn locks_and_idle_ns(trace: &Trace) -> (Vec<(String, u64, u64)>, u64) {
    let roles = Roles::derive(trace, &Descriptors::built_in());
    let locks = locks::derive_with(trace, &roles).into_iter();
    let mut locks: Vec<_> = locks.map(|lock| (lock.name, lock.waits, lock.wait_ns)).collect();
    locks.sort();
    let slices = trace.target_threads().flat_map(|thread| trace.slices.of_thread(thread));
    let idle = slices.filter(|slice| roles.class_of_wait(trace, slice) == Class::WorkWait);
    (locks, idle.map(|slice| slice.duration().0).sum())
}

fn lock(of: &str, waits: u64) -> (String, u64, u64) {
    (format!("java.util.concurrent lock of {of}java"), waits, waits * 100)
}

#[test]
fn each_class_that_takes_one_has_its_own() {
    let trace = trace(&[&[ORDERS, IDLE, STOCK], &[IDLE, ORDERS_TOO, ORDERS]]);
    let expected = vec![lock("shop.Orders in ", 3), lock("shop.Stock in ", 1)];
    assert_eq!(locks_and_idle_ns(&trace), (expected, 200));
    // The lock with the longest waits has the first number, and every wait has the lock of its own stack.
    let roles = Roles::derive(&trace, &Descriptors::built_in());
    let index = LockIndex::new(&trace, &roles);
    let of = |thread: u32| -> Vec<Option<u32>> {
        trace.slices.of_thread(ThreadId(thread)).map(|slice| index.waited((&trace, &roles), &slice)).collect()
    };
    assert_eq!((of(0), of(1)), (vec![Some(0), None, Some(1)], vec![None, Some(0), Some(0)]));
}

#[test]
fn a_lock_that_only_the_library_takes_has_the_librarys_class() {
    let trace = trace(&[&[LIBRARY, ORDERS], &[LIBRARY, IDLE]]);
    let expected = vec![lock("java.util.concurrent.LinkedBlockingQueue in ", 2), lock("shop.Orders in ", 1)];
    assert_eq!(locks_and_idle_ns(&trace), (expected, 100));
}

#[test]
fn a_monitor_has_the_class_of_the_method_that_enters_it() {
    let (locks, _) = locks_and_idle_ns(&trace(&[&[MONITOR, OWN_MONITOR], &[MONITOR, IDLE]]));
    let names: Vec<&str> = locks.iter().map(|(name, ..)| name.as_str()).collect();
    let expected = [
        "Java monitor of java.security.SecureRandom (in Events) in java",
        "Java monitor of shop.Stock in java",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_wait_without_a_stack_is_for_what_most_on_its_word_are() {
    let mostly = trace(&[&[ORDERS, ORDERS, ORDERS, STOCK, NONE], &[IDLE, IDLE, IDLE, IDLE, NONE]]);
    assert_eq!(
        locks_and_idle_ns(&mostly),
        (vec![lock("shop.Orders in ", 4), lock("shop.Stock in ", 1)], 500)
    );
    // These do not agree, so that nothing is known of the one.
    let either = trace(&[&[ORDERS, ORDERS, IDLE, IDLE, NONE]]);
    assert_eq!(locks_and_idle_ns(&either), (vec![lock("shop.Orders in ", 2)], 300));
}
