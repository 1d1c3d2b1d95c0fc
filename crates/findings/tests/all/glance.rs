//! The glance equals the figures of the whole analysis.

use holdup_events::tables::*;
use holdup_events::{
    CpuId, FrameId, ObjectKind, StackId, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason,
};
use holdup_findings::analyse;
use holdup_findings::derive::class::Class;
use holdup_findings::descriptors::Descriptors;
use holdup_findings::glance::{Glance, LockGlance};
use holdup_testkit::{assemble, sim};

const ONLINE: [CpuId; 2] = [CpuId(0), CpuId(1)];

fn simulated(seed: u64) -> Trace {
    let run = sim::simulate(seed);
    assemble(run.events, run.manifest)
}

#[test]
fn the_glance_equals_the_report() {
    for seed in 0..20 {
        let trace = simulated(seed);
        let glance = Glance::derive(&trace, &Descriptors::built_in(), &ONLINE);
        let derived = analyse(&trace).derived;
        assert_eq!(
            (glance.total_ns, glance.classes),
            (derived.ledger.total_ns, derived.ledger.classes),
            "{seed}"
        );
        assert_eq!(glance.run_queue, derived.ledger.run_queue, "{seed}");
        assert_eq!(glance.threads.len(), derived.ledger.threads.len(), "{seed}");
        for (lock, known) in glance.locks.iter().zip(&derived.locks) {
            assert_eq!(
                (&lock.name, lock.wait_ns, lock.waits),
                (&known.name, known.wait_ns, known.waits),
                "{seed}"
            );
        }
        for used in &derived.cpus {
            let cpu = glance.cpus.iter().find(|cpu| cpu.cpu == used.cpu).expect("every CPU that was used");
            let own: u64 = cpu.classes.iter().sum();
            assert_eq!((own, cpu.others_ns), (used.target_ns + used.stolen_ns, used.others_ns), "{seed}");
        }
    }
}

#[test]
fn waits_sum_to_the_ledgers() {
    for seed in 0..20 {
        let trace = simulated(seed);
        let glance = Glance::derive(&trace, &Descriptors::built_in(), &ONLINE);
        assert!(glance.waits.len() < 32, "none is left out");
        for class in Class::ALL.into_iter().filter(|class| class.is_wait()) {
            let waited: u64 =
                glance.waits.iter().filter(|wait| wait.key.class == class).map(|wait| wait.wait_ns).sum();
            assert_eq!(waited, glance.class_ns(class), "{seed} {class:?}");
        }
    }
}

#[test]
fn a_cpu_that_ran_nothing_is_idle() {
    let trace = simulated(1);
    let glance = Glance::derive(&trace, &Descriptors::built_in(), &[CpuId(7)]);
    let idle = glance.cpus.iter().find(|cpu| cpu.cpu == CpuId(7)).expect("it is online");
    assert_eq!((idle.idle_ns, idle.classes.iter().sum::<u64>()), (trace.wall().0, 0));
}

/// A wait for a lock at an address, which is a variable if `symbol` is not empty.
fn lock_wait(reason: WaitReason, object: u64, symbol: &str) -> Wait {
    let object_kind = if reason == WaitReason::FileLock { ObjectKind::File } else { ObjectKind::Futex };
    Wait { reason, object, object_kind, symbol: symbol.to_owned(), ..Wait::default() }
}

/// A process `app`. Its thread n waits for the nth lock, for n + 1 µs, in a function of that name if it is not empty.
fn waiting(locks: &[(Wait, &str)]) -> Trace {
    let mut trace = Trace::default();
    trace.manifest.end_ns = locks.len() as u64 * 1_000 + 1_000;
    let end = trace.end();
    trace.processes = vec![Process { name: "app".into(), pid: 7, target: true, ..Process::default() }];
    trace.waits.push(Wait::default());
    let mut stacks = vec![StackRow::default()];
    let mut slices = Vec::new();
    for (number, (wait, function)) in locks.iter().enumerate() {
        trace.threads.push(Thread {
            name: format!("worker-{number}"),
            target: true,
            end,
            ..Thread::default()
        });
        trace.waits.push(wait.clone());
        let module = if function.is_empty() { "" } else { "/bin/app" };
        let (function, module) = ((*function).to_owned(), module.to_owned());
        trace.frames.push(Frame {
            kind: FrameKind::User,
            function,
            module,
            offset: 0x77,
            ..Frame::default()
        });
        let end = StackEnd::Root;
        stacks.push(StackRow { frame: FrameId(number as u32), end, ..StackRow::default() });
        let blocked = SliceRow {
            thread: ThreadId(number as u32),
            start: Timestamp(0),
            state: ThreadState::Blocked,
            cpu: CpuId::NONE,
            wait: WaitId(number as u32 + 1),
            stack: StackId(number as u32 + 1),
            stack_every: 1,
        };
        let start = Timestamp(number as u64 * 1_000 + 1_000);
        let (state, none) = (ThreadState::Unknown, StackId::NONE);
        slices.push(vec![blocked, SliceRow { start, state, wait: WaitId::NONE, stack: none, ..blocked }]);
    }
    trace.slices = Slices::freeze(&slices, vec![end; locks.len()]);
    trace.wakeups = Wakeups::freeze(Vec::new(), 1);
    trace.stacks = Stacks::from_rows(stacks);
    trace
}

#[test]
fn symbolic_names_of_locks_have_no_addresses() {
    let futex = |object, symbol| lock_wait(WaitReason::Lock, object, symbol);
    let locks = [
        (futex(0x7f00_1000, "queue_lock"), "work"),
        (futex(0x7f00_2000, ""), "work"),
        (futex(0x7f00_3000, ""), ""),
        (lock_wait(WaitReason::MmapLock, 0, ""), "work"),
        (lock_wait(WaitReason::FileLock, 0x1234, ""), "work"),
    ];
    let glance = Glance::derive(&waiting(&locks), &Descriptors::built_in(), &ONLINE);
    let name = |lock: &LockGlance| (lock.process.clone(), lock.symbolic.clone());
    let mut names: Vec<(String, String)> = glance.locks.iter().map(name).collect();
    names.sort();
    let expected = ["lock in work", "lock of an unnamed file", "mmap_lock", "queue_lock", "unnamed lock"];
    assert_eq!(names, expected.map(|name| ("app".to_owned(), name.to_owned())));
}

#[test]
fn locks_that_are_not_listed_count_together() {
    let lock = |number: u64| (lock_wait(WaitReason::Lock, 0x7f00_0000 + number * 0x40, ""), "work");
    let glance =
        Glance::derive(&waiting(&(0..40).map(lock).collect::<Vec<_>>()), &Descriptors::built_in(), &ONLINE);
    assert_eq!(glance.locks.len(), 32);
    let listed: u64 = glance.locks.iter().map(|lock| lock.wait_ns).sum();
    assert_eq!((glance.other_lock_waits, glance.other_lock_wait_ns), (8, (1..=8).map(|us| us * 1_000).sum()));
    assert_eq!(listed + glance.other_lock_wait_ns, glance.class_ns(Class::LockWait));
}
