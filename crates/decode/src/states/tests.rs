//! The state machine, on events by hand and on any events at all.

use std::num::NonZeroU64;

use super::*;
use crate::assemble;
use holdup_events::event::{RawWait, Timeout};
use holdup_events::recording::Manifest;
use holdup_events::tables::{Slice, ThreadState};
use holdup_events::{Duration, Loss, ThreadId, Trace, WaitReason};
use proptest::prelude::*;

mod numbers;

const END: u64 = 1000;

fn trace(events: Vec<Event>) -> Trace {
    assemble(events, Manifest { start_ns: 0, end_ns: END, ..Manifest::default() })
}

fn switch(at: u64, prev: u32, next: u32, outcome: Outcome) -> Switch {
    Switch {
        at: Timestamp(at),
        prev_tid: prev,
        next_tid: next,
        prev_tgid: prev,
        outcome,
        ..Switch::default()
    }
}

fn blocked() -> Outcome {
    Outcome::Blocked(Box::new(RawWait { state: 1, syscall: 230, ..RawWait::default() }))
}

fn counted(switch: Switch, exec: u64, queue: u64) -> Event {
    Event::Switch(Switch { exec_ns: Some(exec), queue_ns: Some(queue), ..switch })
}

fn found(tid: u32, state: SnapshotState) -> Event {
    Event::Snapshot(Snapshot {
        at: Timestamp(0),
        tid,
        tgid: tid,
        parent_tgid: 0,
        name: format!("t{tid}"),
        target: true,
        state,
        exec_ns: Some(0),
        queue_ns: Some(0),
    })
}

fn waking(at: u64, wakee: u32) -> Event {
    Event::Waking(Waking { at: Timestamp(at), wakee_tid: wakee, waker_tid: 0, ..Waking::default() })
}

fn states(trace: &Trace, thread: u32) -> Vec<(ThreadState, u64, u64)> {
    trace
        .slices
        .of_thread(ThreadId(thread))
        .filter(|slice| slice.duration() > Duration::ZERO)
        .map(|slice| (slice.state, slice.start.0, slice.end.0))
        .collect()
}

#[test]
fn the_kernels_counter_gives_the_queueing_time() {
    use ThreadState::*;
    // Queued at 480 by the counter, though the waking was at 450 and the CPU came at 500.
    let trace = trace(vec![
        found(1, SnapshotState::Running(CpuId(0))),
        counted(switch(200, 1, 0, blocked()), 200, 0),
        waking(450, 1),
        Event::Switch(switch(500, 0, 1, Outcome::Untracked)),
        counted(switch(700, 1, 0, Outcome::Dead), 400, 20),
    ]);
    assert_eq!(
        states(&trace, 0),
        [(Running, 0, 200), (Blocked, 200, 480), (Runnable, 480, 500), (Running, 500, 700)]
    );
    assert_eq!(trace.threads[0].end, Timestamp(700));
    assert!(!trace.threads[0].alive_at_end);
}

#[test]
fn a_preempting_wakeup_counts_from_the_kernels_moment() {
    use ThreadState::*;
    // The thread's first switch to a CPU is at 100, and it loses its CPU at 500. The kernel stopped its
    // accounting at 460, when it woke thread 2. The thread then waited for 540, and 40 of these lie before
    // the switch.
    let trace = trace(vec![
        found(1, SnapshotState::Blocked(Box::default())),
        found(2, SnapshotState::Blocked(Box::default())),
        Event::Switch(switch(100, 0, 1, Outcome::Untracked)),
        waking(455, 2),
        counted(switch(500, 1, 2, Outcome::Preempted), 360, 0),
        counted(switch(900, 2, 1, blocked()), 440, 0),
        counted(switch(950, 1, 0, blocked()), 410, 440),
    ]);
    let of_1 = states(&trace, 0);
    assert_eq!(of_1[1..4], [(Running, 100, 460), (Preempted, 460, 900), (Running, 900, 950)]);
    assert_eq!(states(&trace, 1)[..2], [(Blocked, 0, 460), (Running, 460, 900)]);
}

#[test]
fn the_run_queue_clock_gives_the_end_of_a_run_despite_interrupts() {
    use ThreadState::*;
    // As above, but 30 of the run went to interrupt handlers: not accounted to the thread, and no waiting either.
    let ran_by_clock = |switch: Switch, ran, exec, queue| {
        counted(Switch { clock_ran_ns: NonZeroU64::new(ran), ..switch }, exec, queue)
    };
    let left_at = |clock_ran_ns, queued| {
        let trace = trace(vec![
            found(1, SnapshotState::Blocked(Box::default())),
            found(2, SnapshotState::Blocked(Box::default())),
            Event::Switch(switch(100, 0, 1, Outcome::Untracked)),
            ran_by_clock(switch(500, 1, 2, Outcome::Preempted), clock_ran_ns, 330, 0),
            ran_by_clock(switch(900, 2, 1, blocked()), 410, 410, 0),
            counted(switch(950, 1, 0, blocked()), 380, queued),
        ]);
        let left = states(&trace, 0)[2].1;
        let back = left + 410;
        assert_eq!(states(&trace, 0)[1..3], [(Running, 100, left), (Preempted, left, back)]);
        assert_eq!(states(&trace, 1)[1], (Running, left, back));
        left
    };
    assert_eq!(left_at(360, 410), 460, "and it is back 30 before that was seen");
    assert_eq!(left_at(420, 410), 520, "the tracepoint came quicker than when it arrived");
    assert_eq!(left_at(0, 470), 430, "no such clock: by the time that was accounted");
}

#[test]
fn a_thread_that_arrives_long_after_its_turn_began_has_left_when_it_was_seen_to() {
    use ThreadState::*;
    // Out of idle: 5 µs of what the run queue's clock counts lie before the arrival.
    let ran = Switch { clock_ran_ns: NonZeroU64::new(9_000), ..switch(14_000, 1, 0, blocked()) };
    let events = vec![
        found(1, SnapshotState::Blocked(Box::default())),
        counted(switch(1_000, 1, 0, blocked()), 0, 0),
        Event::Switch(switch(10_000, 0, 1, Outcome::Untracked)),
        counted(ran, 8_900, 0),
    ];
    let trace = assemble(events, Manifest { start_ns: 0, end_ns: 15_000, ..Manifest::default() });
    assert_eq!(states(&trace, 0)[2..], [(Running, 5_000, 14_000), (Blocked, 14_000, 15_000)]);
}

#[test]
fn a_new_threads_life_begins_when_the_kernel_lets_it_go() {
    use ThreadState::*;
    let forked = |tid| {
        let (change, name) = (LifecycleChange::Fork { parent_tid: 1 }, String::new());
        Event::Lifecycle(Lifecycle { at: Timestamp(100), change, tid, tgid: 1, name, target: true })
    };
    let of_new = |queued| {
        let trace = trace(vec![
            found(1, SnapshotState::Running(CpuId(1))),
            forked(2),
            Event::Switch(switch(300, 0, 2, Outcome::Untracked)),
            counted(switch(500, 2, 0, Outcome::Preempted), 200, queued),
            Event::Switch(switch(600, 0, 2, Outcome::Untracked)),
            counted(switch(700, 2, 0, Outcome::Dead), 300, queued + 100),
        ]);
        (trace.threads[1].start.0, states(&trace, 1))
    };
    let then = |first: (ThreadState, u64, u64)| {
        vec![first, (Running, 300, 500), (Preempted, 500, 600), (Running, 600, 700)]
    };
    assert_eq!(of_new(180), (120, then((Runnable, 120, 300))));
    // No earlier than the fork, whatever the counter is. The thread may also have run immediately.
    assert_eq!(of_new(400), (100, then((Runnable, 100, 300))));
    assert_eq!(of_new(0), (300, then((Runnable, 300, 300)).split_off(1)));
}

#[test]
fn a_late_switch_after_a_preempting_wakeup_is_queueing_up_to_the_counter() {
    use ThreadState::*;
    // By its account, the thread ran until 4 ms. Its CPU went to another thread at 9 ms, and it is back at 12
    // ms. By the counter, it waited for 6 ms, so for 3 of the 5 ms before the switch. The first 2 ms were
    // stolen.
    const MS: u64 = 1_000_000;
    let events = |queued| {
        vec![
            found(1, SnapshotState::Running(CpuId(0))),
            counted(switch(0, 1, 2, Outcome::Preempted), 0, 0),
            Event::Switch(switch(1, 2, 1, Outcome::Untracked)),
            counted(switch(9 * MS, 1, 2, Outcome::Preempted), 4 * MS, 0),
            Event::Switch(switch(12 * MS, 2, 1, Outcome::Untracked)),
            counted(switch(13 * MS, 1, 0, Outcome::Dead), 5 * MS, queued),
        ]
    };
    let manifest = || Manifest { start_ns: 0, end_ns: 13 * MS, ..Manifest::default() };
    let trace = assemble(events(6 * MS), manifest());
    let last = states(&trace, 0).split_off(2);
    assert_eq!(last, [(Preempted, 6 * MS, 12 * MS), (Running, 12 * MS, 13 * MS)]);
    let stolen: Vec<_> = trace.steals.iter().map(|steal| (steal.slice_start.0, steal.stolen.0)).collect();
    assert_eq!(stolen, [(1, 2 * MS - 1)]);
    // The counter is less than the wait between the switches. The switches are used.
    let trace = assemble(events(2 * MS), manifest());
    assert_eq!(states(&trace, 0)[2], (Preempted, 9 * MS, 12 * MS));
    assert_eq!(trace.steals[0].stolen.0, 5 * MS - 1);
}

#[test]
fn the_way_out_of_idle_is_the_threads_own_as_the_kernel_counts() {
    use ThreadState::*;
    let of = |ran: u64, prev: u32| {
        let trace = trace(vec![
            found(1, SnapshotState::Running(CpuId(0))),
            counted(switch(200, 1, 0, blocked()), 200, 0),
            waking(450, 1),
            Event::Switch(switch(500, prev, 1, Outcome::Untracked)),
            counted(switch(700, 1, 0, Outcome::Dead), 200 + ran, 0),
        ]);
        states(&trace, 0)
    };
    assert_eq!(of(203, 0), [(Running, 0, 200), (Blocked, 200, 497), (Running, 497, 700)]);
    assert_eq!(of(200, 0), [(Running, 0, 200), (Blocked, 200, 500), (Running, 500, 700)]);
    // The CPU was idle only since 200: no earlier.
    assert_eq!(of(550, 0), [(Running, 0, 200), (Running, 200, 700)]);
    // It took the CPU from another thread, which had it until then.
    assert_eq!(of(203, 9), [(Running, 0, 200), (Blocked, 200, 500), (Running, 500, 700)]);
}

#[test]
fn without_counters_queueing_starts_at_the_wakeup() {
    use ThreadState::*;
    let trace = trace(vec![
        found(1, SnapshotState::Running(CpuId(0))),
        Event::Switch(switch(200, 1, 0, blocked())),
        waking(450, 1),
        Event::Switch(switch(500, 0, 1, Outcome::Untracked)),
    ]);
    assert_eq!(
        states(&trace, 0),
        [(Running, 0, 200), (Blocked, 200, 450), (Runnable, 450, 500), (Running, 500, END)]
    );
}

#[test]
fn a_thread_woken_but_never_run_ends_runnable() {
    use ThreadState::*;
    let trace = trace(vec![
        found(1, SnapshotState::Running(CpuId(0))),
        Event::Switch(switch(200, 1, 0, blocked())),
        waking(900, 1),
    ]);
    assert_eq!(states(&trace, 0), [(Running, 0, 200), (Blocked, 200, 900), (Runnable, 900, END)]);
}

#[test]
fn time_that_was_not_accounted_is_stolen() {
    let ms = |ms: u64| ms * 1_000_000;
    let events = vec![
        found(1, SnapshotState::Blocked(Box::default())),
        Event::Switch(switch(ms(10), 0, 1, Outcome::Untracked)),
        counted(switch(ms(40), 1, 0, Outcome::Preempted), ms(5), 0),
    ];
    let trace = assemble(events, Manifest { end_ns: ms(50), ..Manifest::default() });
    assert_eq!(trace.steals.len(), 1);
    assert_eq!((trace.steals[0].slice_start.0, trace.steals[0].stolen.0), (ms(10), ms(25)));
}

#[test]
fn a_gap_makes_unknown_only_what_may_have_changed() {
    use ThreadState::*;
    let gap = |cpu: u16| {
        Event::Loss(Loss {
            source: "sched".to_owned(),
            reason: "ring-full".to_owned(),
            cpu: CpuId(cpu),
            start: Timestamp(300),
            end: Timestamp(600),
            events: 2,
        })
    };
    let run = |cpu: u16, exec: u64| {
        trace(vec![
            found(1, SnapshotState::Blocked(Box::default())),
            Event::Switch(switch(100, 0, 1, Outcome::Untracked)),
            gap(cpu),
            counted(switch(700, 1, 0, blocked()), exec, 0),
        ])
    };
    let whole = [(Blocked, 0, 100), (Running, 100, 700), (Blocked, 700, END)];
    assert_eq!(states(&run(0, 600), 0), whole, "accounted all the time: it never left");
    assert_eq!(states(&run(1, 100), 0), whole, "the gap was on another CPU");
    // The slack is 20 µs, longer than this whole trace, so use a long one.
    let us = |us: u64| us * 1000;
    let events = vec![
        found(1, SnapshotState::Blocked(Box::default())),
        Event::Switch(switch(us(100), 0, 1, Outcome::Untracked)),
        Event::Loss(Loss {
            source: "sched".to_owned(),
            reason: "ring-full".to_owned(),
            cpu: CpuId(0),
            start: Timestamp(us(300)),
            end: Timestamp(us(600)),
            events: 2,
        }),
        counted(switch(us(700), 1, 0, blocked()), us(300), 0),
    ];
    let trace = assemble(events, Manifest { end_ns: us(1000), ..Manifest::default() });
    assert_eq!(
        states(&trace, 0),
        [
            (Blocked, 0, us(100)),
            (Running, us(100), us(300)),
            (Unknown, us(300), us(700)),
            (Blocked, us(700), us(1000))
        ]
    );
}

#[test]
fn what_a_journal_lacks_is_unknown_until_the_next_record() {
    use ThreadState::*;
    let lacks = Event::Loss(Loss {
        source: "journal".to_owned(),
        reason: "checksum".to_owned(),
        cpu: CpuId::NONE,
        start: Timestamp(300),
        end: Timestamp(600),
        events: 0,
    });
    let blocked_before = |tid| found(tid, SnapshotState::Blocked(Box::default()));
    let mut events: Vec<Event> = (1..=4).map(blocked_before).collect();
    events.extend([
        found(5, SnapshotState::Running(CpuId(2))),
        Event::Switch(Switch { cpu: CpuId(3), ..switch(200, 0, 4, Outcome::Untracked) }),
        lacks,
        Event::Switch(switch(700, 0, 1, Outcome::Untracked)),
        waking(800, 2),
    ]);
    let trace = trace(events);
    let of = |tid: u32| states(&trace, tid - 1);
    assert_eq!(of(1), [(Blocked, 0, 300), (Unknown, 300, 700), (Running, 700, END)], "it came again");
    assert_eq!(of(2), [(Blocked, 0, 300), (Unknown, 300, 800), (Runnable, 800, END)], "it was woken");
    assert_eq!(of(3), [(Blocked, 0, 300), (Unknown, 300, END)], "nothing more is told of it");
    assert_eq!(of(4), [(Blocked, 0, 200), (Running, 200, 300), (Unknown, 300, END)]);
    assert_eq!(of(5), [(Running, 0, 300), (Unknown, 300, END)]);
}

#[test]
fn an_arrival_that_was_hidden_follows_from_the_counters() {
    use ThreadState::*;
    let us = |us: u64| us * 1000;
    let run = |exec: u64, queue: u64| {
        let events = vec![
            found(1, SnapshotState::Running(CpuId(0))),
            counted(switch(us(100), 1, 68, Outcome::Preempted), us(100), 0),
            // The switch from 68 back to 1 is not seen.
            counted(switch(us(1000), 1, 0, Outcome::Preempted), us(100 + exec), us(queue)),
        ];
        let trace = assemble(events, Manifest { end_ns: us(1000), ..Manifest::default() });
        let stolen: u64 = trace.steals.iter().map(|steal| steal.stolen.0).sum();
        (states(&trace, 0), states(&trace, 1), stolen)
    };
    let (target, foreign, stolen) = run(700, 200);
    assert_eq!(target, [(Running, 0, us(100)), (Preempted, us(100), us(300)), (Running, us(300), us(1000))]);
    assert_eq!(
        foreign,
        [(Untracked, 0, us(100)), (Running, us(100), us(300)), (Untracked, us(300), us(1000))]
    );
    assert_eq!(stolen, 0);
    let (target, _, stolen) = run(500, 200);
    assert_eq!(target, [(Running, 0, us(100)), (Preempted, us(100), us(300)), (Running, us(300), us(1000))]);
    assert_eq!(stolen, us(200), "what is neither run nor waiting was taken from the run");
    let (target, _, _) = run(300, 200);
    assert_eq!(target, [(Running, 0, us(100)), (Unknown, us(100), us(1000))], "the counters do not add up");
}

#[test]
fn impossible_counter_values_give_no_arrival() {
    let us = |us: u64| us * 1000;
    let events = vec![
        found(1, SnapshotState::Running(CpuId(0))),
        counted(switch(us(100), 1, 2, Outcome::Preempted), us(100), 0),
        counted(switch(us(1000), 1, 0, Outcome::Preempted), us(400), u64::MAX),
    ];
    let states = states(&assemble(events, Manifest { end_ns: us(1000), ..Manifest::default() }), 0);
    assert_eq!(states.last(), Some(&(ThreadState::Unknown, us(100), us(1000))), "{states:?}");
}

#[test]
fn a_hidden_arrival_may_end_a_wait_that_began_before_its_switch() {
    use ThreadState::*;
    let us = |us: u64| us * 1000;
    // 400 µs of the run up to 1 ms were not accounted. By the counter, 300 of them belong to the wait.
    let trace = assemble(
        vec![
            found(1, SnapshotState::Running(CpuId(0))),
            counted(switch(us(1), 1, 2, Outcome::Preempted), us(1), 0),
            Event::Switch(switch(us(2), 2, 1, Outcome::Untracked)),
            counted(switch(us(1002), 1, 68, Outcome::Preempted), us(601), us(1)),
            // The switch from 68 back to 1 is not seen.
            counted(switch(us(2002), 1, 0, Outcome::Dead), us(1301), us(601)),
        ],
        Manifest { end_ns: us(2002), ..Manifest::default() },
    );
    let last = states(&trace, 0).split_off(2);
    assert_eq!(
        last,
        [(Running, us(2), us(702)), (Preempted, us(702), us(1302)), (Running, us(1302), us(2002))]
    );
}

#[test]
fn a_later_poll_gives_the_reason_of_a_wait() {
    let unknown = Outcome::Blocked(Box::new(RawWait { syscall: i32::MIN, ..RawWait::default() }));
    let seen = SnapshotState::Blocked(Box::new(RawWait { state: 1, syscall: 230, ..RawWait::default() }));
    let Event::Snapshot(look) = found(1, seen) else { unreachable!() };
    let trace = trace(vec![
        found(1, SnapshotState::Running(CpuId(0))),
        Event::Switch(switch(200, 1, 0, unknown.clone())),
        Event::Snapshot(Snapshot { at: Timestamp(300), ..look }),
        Event::Switch(switch(500, 0, 1, Outcome::Untracked)),
        Event::Switch(switch(600, 1, 0, unknown)),
    ]);
    let blocked: Vec<WaitReason> = trace
        .slices
        .of_thread(ThreadId(0))
        .filter(|slice| slice.state == ThreadState::Blocked)
        .map(|slice| trace.waits[slice.wait.index()].reason)
        .collect();
    assert_eq!(blocked, [WaitReason::Sleep, WaitReason::Unknown], "the second wait was not looked at");
}

#[test]
fn a_reused_number_is_another_thread() {
    let fork = |at: u64| {
        Event::Lifecycle(Lifecycle {
            at: Timestamp(at),
            change: LifecycleChange::Fork { parent_tid: 9 },
            tid: 5,
            tgid: 5,
            name: "child".to_owned(),
            target: true,
        })
    };
    let trace = trace(vec![
        fork(100),
        Event::Switch(switch(120, 0, 5, Outcome::Untracked)),
        counted(switch(200, 5, 0, Outcome::Dead), 80, 20),
        fork(300),
        Event::Switch(switch(310, 0, 5, Outcome::Untracked)),
    ]);
    let lives: Vec<(u64, u64)> = trace
        .threads
        .iter()
        .filter(|thread| thread.tid == 5)
        .map(|thread| (thread.start.0, thread.end.0))
        .collect();
    assert_eq!(lives, [(100, 200), (300, END)]);
}

/// A poll of thread 1 by the backend `proc`.
fn poll(at: u64, state: SnapshotState, exec: u64, queue: u64) -> Event {
    Event::Snapshot(Snapshot {
        at: Timestamp(at),
        tid: 1,
        tgid: 1,
        parent_tgid: 0,
        name: "p".to_owned(),
        target: true,
        state,
        exec_ns: Some(exec),
        queue_ns: Some(queue),
    })
}

fn polled(events: Vec<Event>) -> Trace {
    assemble(
        events,
        Manifest { end_ns: 200, backend: holdup_events::recording::Backend::Proc, ..Manifest::default() },
    )
}

#[test]
fn polls_fill_the_time_between_by_the_counters() {
    use ThreadState::*;
    let events = vec![
        poll(0, SnapshotState::Running(CpuId(0)), 1000, 50),
        poll(100, SnapshotState::Blocked(Box::default()), 1060, 60),
        poll(200, SnapshotState::Blocked(Box::default()), 1060, 60),
    ];
    assert_eq!(
        states(&polled(events), 0),
        [(Running, 0, 60), (Runnable, 60, 70), (Blocked, 70, 100), (Blocked, 100, 200)]
    );
}

#[test]
fn a_run_queue_wait_over_many_polls_is_complete() {
    use ThreadState::*;
    let events = vec![
        poll(0, SnapshotState::Running(CpuId(0)), 0, 0),
        poll(50, SnapshotState::Runnable, 40, 0),
        poll(100, SnapshotState::Runnable, 40, 0),
        poll(150, SnapshotState::Runnable, 40, 0),
        poll(200, SnapshotState::Running(CpuId(0)), 60, 120),
    ];
    let mut sums = std::collections::BTreeMap::new();
    for (state, start, end) in states(&polled(events), 0) {
        *sums.entry(format!("{state:?}")).or_insert(0) += end - start;
    }
    // 100 of the 120 were seen before the counter included them. The unattributed part of the first step may
    // have been a wait.
    let expected =
        [(format!("{Blocked:?}"), 20), (format!("{Runnable:?}"), 120), (format!("{Running:?}"), 60)];
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), expected.map(|(state, ns)| (state, ns)));
}

#[test]
fn changes_during_missed_polls_are_unknown() {
    use ThreadState::*;
    let waits =
        |syscall| SnapshotState::Blocked(Box::new(RawWait { state: 1, syscall, ..RawWait::default() }));
    let late = |start, end| {
        let (source, reason) = ("proc".to_owned(), "late".to_owned());
        let (start, end) = (Timestamp(start), Timestamp(end));
        Event::Loss(Loss { source, reason, cpu: CpuId::NONE, start, end, events: 4 })
    };
    let events = vec![
        poll(0, waits(0), 0, 0),
        late(0, 50),
        poll(50, waits(0), 0, 0),
        late(50, 100),
        poll(101, waits(230), 10, 0),
        poll(110, waits(0), 10, 0),
        late(110, 180),
        poll(181, SnapshotState::Dead, 10, 0),
    ];
    // A journal that lacks a look is as good as nobody's looking.
    let of_journal = |event: &Event| match event {
        Event::Loss(loss) => Event::Loss(Loss { source: "journal".to_owned(), ..loss.clone() }),
        event => event.clone(),
    };
    let lacking: Vec<Event> = events.iter().map(of_journal).collect();
    assert_eq!(states(&polled(lacking), 0), states(&polled(events.clone()), 0));
    assert_eq!(
        states(&polled(events), 0),
        [(Blocked, 0, 50), (Running, 50, 60), (Unknown, 60, 101), (Blocked, 101, 110), (Unknown, 110, 181)]
    );
}

/// A wait that is over by itself after so long.
fn limited(ns: u64) -> Outcome {
    let timeout = Timeout::After(Duration(ns));
    Outcome::Blocked(Box::new(RawWait { state: 1, syscall: 230, timeout, ..RawWait::default() }))
}

#[test]
fn a_wait_that_began_before_the_recording_is_over_when_it_asked_to_be() {
    let events = vec![
        found(1, SnapshotState::Running(CpuId(0))),
        Event::Switch(switch(10, 1, 0, limited(20))),
        Event::Switch(switch(30, 0, 1, Outcome::Untracked)),
        Event::Switch(switch(80, 1, 0, limited(300))),
        Event::Switch(switch(380, 0, 1, Outcome::Untracked)),
    ];
    let trace = assemble(events, Manifest { start_ns: 100, end_ns: END, ..Manifest::default() });
    let told: Vec<(u64, u64)> = trace.deadlines.iter().map(|row| (row.slice_start.0, row.due.0)).collect();
    assert_eq!(told, [(100, 380)], "one, of the wait in which the recording began");
}

#[test]
fn a_wait_of_which_the_kernels_account_leaves_nothing_has_no_end_of_its_own() {
    let events = vec![
        Event::Switch(switch(0, 0, 4, Outcome::Untracked)),
        Event::Switch(switch(11, 4, 0, limited(1))),
        waking(231, 4),
        Event::Switch(switch(317, 0, 4, Outcome::Untracked)),
        Event::Switch(Switch { clock_ran_ns: NonZeroU64::new(1001), ..switch(317, 4, 0, blocked()) }),
    ];
    let trace = assemble(events, Manifest { end_ns: END, ..Manifest::default() });
    assert_eq!(trace.deadlines, []);
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Untracked),
        Just(Outcome::Preempted),
        Just(Outcome::Yielded),
        Just(Outcome::Throttled),
        Just(Outcome::Dead),
        Just(blocked()),
        (1..400u64).prop_map(limited),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let tid = 0..6u32;
    let counter = proptest::option::of(0..2000u64);
    let ran = (0..2000u64).prop_map(NonZeroU64::new);
    prop_oneof![
        6 => (0..END + 100, 0..3u16, (tid.clone(), tid.clone()), any_outcome(), (counter.clone(), counter), ran)
            .prop_map(|(at, cpu, (prev_tid, next_tid), outcome, (exec_ns, queue_ns), clock_ran_ns)| {
                Event::Switch(Switch {
                    at: Timestamp(at), cpu: CpuId(cpu), prev_tid, next_tid, prev_tgid: prev_tid, outcome,
                    exec_ns, queue_ns, clock_ran_ns,
                })
            }),
        2 => (0..END, tid.clone()).prop_map(|(at, tid)| waking(at, tid)),
        1 => (0..END, tid.clone()).prop_map(|(at, tid)| Event::Lifecycle(Lifecycle {
            at: Timestamp(at), change: LifecycleChange::Fork { parent_tid: 1 }, tid, tgid: tid,
            name: "f".to_owned(), target: true,
        })),
        1 => (0..END, 0..3u16, any::<bool>()).prop_map(|(at, cpu, sched)| Event::Loss(Loss {
            source: if sched { "sched" } else { "journal" }.to_owned(),
            reason: "ring-full".to_owned(), cpu: CpuId(cpu),
            start: Timestamp(at), end: Timestamp(at + 50), events: 1,
        })),
        1 => (tid, any::<bool>()).prop_map(|(tid, runs)| found(
            tid,
            if runs { SnapshotState::Running(CpuId(1)) } else { SnapshotState::Blocked(Box::default()) }
        )),
    ]
}

proptest! {
    /// For any events and any start of the recording, each timeout is emitted once and for a slice. The same
    /// holds for steal time.
    #[test]
    fn each_deadline_is_of_one_wait_and_each_steal_of_one_run(mut events in proptest::collection::vec(any_event(), 0..80), start in 0..END / 2) {
        events.sort_by_key(Event::at);
        let trace = assemble(events, Manifest { start_ns: start, end_ns: END, ..Manifest::default() });
        for pair in trace.deadlines.windows(2) {
            prop_assert!((pair[0].thread, pair[0].slice_start) < (pair[1].thread, pair[1].slice_start), "{:?}", pair);
        }
        for row in &trace.deadlines {
            let of_it = |slice: &Slice| slice.start == row.slice_start && slice.duration() > Duration::ZERO;
            let slice = trace.slices.of_thread(row.thread).find(of_it);
            prop_assert_eq!(slice.map(|slice| slice.state), Some(ThreadState::Blocked), "{:?}", row);
        }
        for row in &trace.steals {
            let of_it = |slice: &Slice| slice.start == row.slice_start && slice.duration() >= row.stolen;
            let slice = trace.slices.of_thread(row.thread).find(of_it);
            prop_assert_eq!(slice.map(|slice| slice.state), Some(ThreadState::Running), "{:?}", row);
        }
    }

    /// For any events, slices tile each life, and a CPU runs at most one thread.
    #[test]
    fn slices_tile_and_cpus_run_one_thread(mut events in proptest::collection::vec(any_event(), 0..80), sorted in any::<bool>()) {
        if sorted {
            events.sort_by_key(Event::at);
        }
        let trace = trace(events);
        let mut running: Vec<(u16, u64, u64)> = Vec::new();
        for (index, thread) in trace.threads.iter().enumerate() {
            let mut at = thread.start;
            for slice in trace.slices.of_thread(ThreadId(index as u32)) {
                prop_assert_eq!(slice.start, at, "thread {} {:?}", thread.tid, thread);
                at = slice.end;
                if slice.state == ThreadState::Running && slice.cpu != CpuId::NONE && thread.tid != 0 {
                    running.push((slice.cpu.0, slice.start.0, slice.end.0));
                }
            }
            prop_assert_eq!(at, thread.end, "thread {:?}", thread);
        }
        if sorted {
            running.retain(|(_, start, end)| start < end);
            running.sort_unstable();
            for pair in running.windows(2) {
                prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{:?}", pair);
            }
        }
    }
}
