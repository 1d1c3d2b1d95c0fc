//! Tests of the ledger on tables made by hand.

use holdup_events::event::WakeContext;
use holdup_events::tables::*;
use holdup_events::{CpuId, Duration, ThreadId, Timestamp, Trace, Wait, WaitId, WaitReason};

use super::class::Class;
use super::ledger::{self, RunQueueSplit};

fn row(thread: u32, start: u64, state: ThreadState, cpu: u16, wait: u32) -> SliceRow {
    SliceRow {
        thread: ThreadId(thread),
        start: Timestamp(start),
        state,
        cpu: CpuId(cpu),
        wait: WaitId(wait),
        ..SliceRow::default()
    }
}

fn trace(rows: Vec<SliceRow>, targets: &[bool], end: u64) -> Trace {
    let mut trace = Trace::default();
    trace.manifest.end_ns = end;
    trace.manifest.host.cpus_allowed = 2;
    let thread = |target: &bool| Thread { target: *target, end: Timestamp(end), ..Thread::default() };
    trace.threads = targets.iter().map(thread).collect();
    trace.processes = vec![Process { name: "app".into(), target: true, ..Process::default() }];
    trace.slices = Slices::freeze(&[rows], vec![Timestamp(end); targets.len()]);
    trace.wakeups = Wakeups::freeze(Vec::new(), targets.len());
    let wait = |reason| Wait { reason, object: 0x10, ..Wait::default() };
    trace.waits = vec![Wait::default(), wait(WaitReason::Lock), wait(WaitReason::Multiplex)];
    trace
}

#[test]
fn run_queue_time_is_charged_to_the_thread_on_the_cpu() {
    use ThreadState::*;
    let rows = vec![
        row(0, 0, Running, 0, 0),
        row(0, 10, Preempted, 0, 0),
        row(0, 40, Running, 0, 0),
        row(0, 50, Throttled, 0, 0),
        row(1, 0, Blocked, u16::MAX, 1),
        row(1, 12, Running, 0, 0),
        row(1, 20, Blocked, u16::MAX, 1),
        row(2, 20, Running, 0, 0),
        row(2, 35, Untracked, 0, 0),
    ];
    let ledger = ledger::derive(&trace(rows, &[true, true, false], 100));
    let split = RunQueueSplit { own_ns: 8, others_ns: 15, throttled_ns: 50, idle_ns: 7 };
    assert_eq!(ledger.run_queue, split);
    assert_eq!(ledger.total_ns, 200);
    assert_eq!(ledger.classes.iter().sum::<u64>(), 200);
    assert_eq!(ledger.class_ns(Class::RunQueue), 80);
    assert_eq!(ledger.class_ns(Class::LockWait), 92);
    assert_eq!(ledger.class_ns(Class::Useful), 28);
    assert!(!ledger.split_known);
    assert_eq!(ledger.split_error_ns, [28; Class::ON_CPU.len()]);
}

#[test]
fn a_poll_that_its_timer_ended_is_a_sleep() {
    use ThreadState::*;
    let rows = vec![
        row(0, 0, Blocked, u16::MAX, 2),
        row(0, 10, Running, 0, 0),
        row(0, 20, Blocked, u16::MAX, 2),
        row(0, 50, Running, 0, 0),
    ];
    let mut trace = trace(rows, &[true], 60);
    let wakeup = |at, context| Wakeup { at: Timestamp(at), context, ..Wakeup::default() };
    trace.wakeups = Wakeups::freeze(vec![wakeup(10, WakeContext::Timer), wakeup(50, WakeContext::Thread)], 1);
    let ledger = ledger::derive(&trace);
    assert_eq!((ledger.class_ns(Class::Sleep), ledger.class_ns(Class::WorkWait)), (10, 30));
    // A runtime that reports no work until then is idle.
    trace.names = vec![TellName { kind: SpanKind::Idle, text: "eio.suspend_domain".into() }];
    trace.lanes = vec![Lane { events: 1, matched: 1, ..Lane::default() }];
    trace.spans = Spans::freeze(vec![SpanRow { end: Timestamp(12), ..SpanRow::default() }]);
    let ledger = ledger::derive(&trace);
    assert_eq!((ledger.class_ns(Class::Sleep), ledger.class_ns(Class::WorkWait)), (0, 40));
}

#[test]
fn stolen_time_and_samples_split_the_running_time() {
    use ThreadState::*;
    let mut trace = trace(vec![row(0, 0, Running, 0, 0)], &[true], 1000);
    trace.steals = vec![Steal { thread: ThreadId(0), slice_start: Timestamp(0), stolen: Duration(200) }];
    trace.samples = (0..100)
        .map(|at| SampleRow {
            at: Timestamp(at * 10),
            in_kernel: at < 25,
            syscall: -1,
            ..SampleRow::default()
        })
        .collect();
    let ledger = ledger::derive(&trace);
    assert_eq!(
        (ledger.class_ns(Class::Stolen), ledger.class_ns(Class::Kernel), ledger.class_ns(Class::Useful)),
        (200, 200, 600)
    );
    assert!(ledger.split_known && (40..120).contains(&ledger.error_ns(Class::Kernel)));
    assert_eq!(ledger.error_ns(Class::Stolen), 0);
}

#[test]
fn what_slices_leave_open_is_unknown() {
    let trace = trace(vec![row(0, 40, ThreadState::Running, 0, 0)], &[true], 100);
    let ledger = ledger::derive(&trace);
    assert_eq!((ledger.class_ns(Class::Unknown), ledger.class_ns(Class::Useful)), (40, 60));
}
