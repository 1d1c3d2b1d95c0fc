//! Arbitrary events survive encoding and decoding. Arbitrary bytes are decoded without a panic.

use std::num::NonZeroU64;

use super::*;
use crate::event::*;
use crate::tables::{CallPartKind, ChannelWait, CountKind, FrameVia, SpanKind, StackEnd};
use crate::{CpuId, Duration, Loss, ObjectKind, Timestamp};
use proptest::prelude::*;

fn wait() -> impl Strategy<Value = RawWait> {
    let few = || prop_oneof![4 => Just(0u32), 1 => any::<u32>()];
    let ids = (few().prop_map(u64::from), any::<u64>(), few(), few(), few(), few());
    let timeout = prop_oneof![
        Just(Timeout::None),
        any::<u64>().prop_map(|ns| Timeout::After(Duration(ns))),
        time().prop_map(Timeout::Until),
        any::<u64>().prop_map(Timeout::UntilDate),
    ];
    (0..3u32, any::<[bool; 2]>(), -1..2i32, 0..14u8, ids, timeout).prop_map(
        |(state, [in_iowait, mmap_lock], syscall, kind, ids, timeout)| {
            let (object, stack, op, value, owner_tid, stack_every) = ids;
            RawWait {
                state,
                in_iowait,
                mmap_lock,
                syscall,
                object_kind: ObjectKind::from_code(kind).unwrap_or_default(),
                object,
                op,
                value,
                owner_tid,
                stack,
                stack_every,
                timeout,
            }
        },
    )
}

/// Mostly few tids, so that predictions are correct.
fn tid() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4u32, 1 => 255..258u32, 1 => any::<u32>()]
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn switch() -> impl Strategy<Value = Event> {
    let outcome = prop_oneof![
        Just(Outcome::Untracked),
        Just(Outcome::Preempted),
        Just(Outcome::Yielded),
        Just(Outcome::Throttled),
        Just(Outcome::Dead),
        wait().prop_map(|wait| Outcome::Blocked(Box::new(wait))),
    ];
    let counters = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<NonZeroU64>>());
    (time(), 0..70u16, (tid(), tid(), tid()), outcome, counters).prop_map(
        |(at, cpu, (prev_tid, next_tid, prev_tgid), outcome, (exec_ns, queue_ns, clock_ran_ns))| {
            Event::Switch(Switch {
                at,
                cpu: CpuId(cpu),
                prev_tid,
                next_tid,
                prev_tgid,
                clock_ran_ns,
                outcome,
                exec_ns,
                queue_ns,
            })
        },
    )
}

fn snapshot() -> impl Strategy<Value = Event> {
    let state = prop_oneof![
        any::<u16>().prop_map(|cpu| SnapshotState::Running(CpuId(cpu))),
        Just(SnapshotState::Runnable),
        wait().prop_map(|wait| SnapshotState::Blocked(Box::new(wait))),
        Just(SnapshotState::Dead),
        Just(SnapshotState::Untracked),
    ];
    (time(), any::<[u32; 3]>(), ".{0,20}", any::<bool>(), state, any::<Option<u64>>(), any::<Option<u64>>())
        .prop_map(|(at, [tid, tgid, parent_tgid], name, target, state, exec_ns, queue_ns)| {
            Event::Snapshot(Snapshot { at, tid, tgid, parent_tgid, name, target, state, exec_ns, queue_ns })
        })
}

fn lifecycle() -> impl Strategy<Value = Event> {
    let change = prop_oneof![
        any::<u32>().prop_map(|parent_tid| LifecycleChange::Fork { parent_tid }),
        any::<u32>().prop_map(|old_tid| LifecycleChange::Exec { old_tid }),
        Just(LifecycleChange::Rename),
        Just(LifecycleChange::Exit),
    ];
    (time(), change, any::<u32>(), any::<u32>(), ".{0,20}", any::<bool>()).prop_map(
        |(at, change, tid, tgid, name, target)| {
            Event::Lifecycle(Lifecycle { at, change, tid, tgid, name, target })
        },
    )
}

fn syscall_count() -> impl Strategy<Value = Event> {
    (time(), time(), any::<[u32; 2]>(), any::<i32>(), any::<u64>()).prop_map(
        |(at, until, [tgid, cost_ns], syscall, count)| {
            Event::SyscallCount(SyscallCount { at, until, tgid, syscall, count, cost_ns })
        },
    )
}

fn calls() -> impl Strategy<Value = Event> {
    let parts = proptest::collection::vec((0..5u8, any::<u64>(), any::<u64>()), 0..5);
    let ids = (any::<[u32; 3]>(), any::<i32>(), 0..14u8);
    (time(), time(), ids, any::<[u64; 7]>(), parts).prop_map(|(at, until, ids, numbers, parts)| {
        let ([tid, tgid, op], syscall, kind) = ids;
        let [object, count, errors, returned, time_ns, time_max_ns, timed] = numbers;
        let part = |(what, key, count)| (CallPartKind::from_code(what).unwrap_or_default(), key, count);
        Event::Calls(Box::new(CallSums {
            at,
            until,
            tid,
            tgid,
            syscall,
            op,
            object_kind: ObjectKind::from_code(kind).unwrap_or_default(),
            object,
            count,
            errors,
            returned,
            time_ns,
            time_max_ns,
            timed,
            parts: parts.into_iter().map(part).collect(),
        }))
    })
}

fn object_name() -> impl Strategy<Value = Event> {
    (time(), 0..14u8, any::<u64>(), ".{0,20}").prop_map(|(at, kind, object, name)| {
        let kind = ObjectKind::from_code(kind).unwrap_or_default();
        Event::ObjectName(ObjectName { at, kind, object, name })
    })
}

fn runtime_event() -> impl Strategy<Value = Event> {
    let what = prop_oneof![
        Just(RuntimeEventKind::LaneStart),
        Just(RuntimeEventKind::LaneEnd),
        Just(RuntimeEventKind::Gap),
        (0..5u8).prop_map(|kind| RuntimeEventKind::Begin(SpanKind::from_code(kind).unwrap_or_default())),
        Just(RuntimeEventKind::End),
        any::<u64>().prop_map(RuntimeEventKind::Counter),
        (any::<u64>(), "[a-c]{0,2}")
            .prop_map(|(value, text)| RuntimeEventKind::Mark { value, text: text.into() }),
    ];
    (time(), any::<[u32; 3]>(), what, "[a-c]{0,2}").prop_map(|(at, [tgid, tid, lane], what, name)| {
        Event::Runtime(RuntimeEvent { at, tgid, tid, lane, what, name: name.into() })
    })
}

fn allocated() -> impl Strategy<Value = Event> {
    (time(), tid(), tid(), any::<[u64; 5]>()).prop_map(|(at, tid, tgid, numbers)| {
        let [address, bytes, every_bytes, own_bytes, stack] = numbers;
        Event::Allocated(Allocated { at, tid, tgid, address, bytes, every_bytes, own_bytes, stack })
    })
}

fn freed() -> impl Strategy<Value = Event> {
    (time(), tid(), tid(), any::<u64>())
        .prop_map(|(at, tid, tgid, address)| Event::Freed(Freed { at, tid, tgid, address }))
}

fn counted() -> impl Strategy<Value = Event> {
    (time(), time(), tid(), tid(), (any::<u16>(), 0..15u8, -1..400i32), any::<u64>()).prop_map(
        |(at, until, tid, tgid, (cpu, what, syscall), count)| {
            let what = CountKind::from_code(what).unwrap_or_default();
            Event::Counted(Counted { at, until, tid, tgid, cpu: CpuId(cpu), what, syscall, count })
        },
    )
}

fn fault() -> impl Strategy<Value = Event> {
    (time(), tid(), tid(), any::<[bool; 2]>(), any::<[u64; 3]>()).prop_map(
        |(at, tid, tgid, [major, in_kernel], [address, stands_for, stack])| {
            Event::Fault(FaultSample { at, tid, tgid, address, stands_for, major, in_kernel, stack })
        },
    )
}

fn watched() -> impl Strategy<Value = Event> {
    (time(), time(), tid(), tid(), any::<u32>(), any::<[u64; 3]>()).prop_map(
        |(at, until, tid, tgid, bytes, [address, hits, ran_ns])| {
            Event::Watched(Watched { at, until, tid, tgid, address, bytes, hits, ran_ns })
        },
    )
}

fn task_wait() -> impl Strategy<Value = Event> {
    let channel = (any::<bool>(), any::<[u64; 2]>(), any::<[u32; 2]>()).prop_map(
        |(sends, [task, waker_task], [slots, item_bytes])| ChannelWait {
            sends,
            task,
            waker_task,
            slots,
            item_bytes,
        },
    );
    let channel = proptest::option::of(channel);
    (time(), time(), [tid(), tid(), tid()], any::<[u64; 3]>(), channel).prop_map(
        |(at, since, [tid, tgid, waker_tid], [object, stack, waker_stack], channel)| {
            Event::TaskWait(TaskWait { at, since, tid, tgid, object, stack, waker_tid, waker_stack, channel })
        },
    )
}

fn task_window() -> impl Strategy<Value = Event> {
    let window = |(at, tgid, opens)| Event::TaskWindow(TaskWindow { at, tgid, opens });
    (time(), tid(), any::<bool>()).prop_map(window)
}

/// Events that carry the kernel's own counts.
fn kernels() -> impl Strategy<Value = Event> {
    prop_oneof![counted(), fault(), watched(), task_wait(), task_window()]
}

fn loss() -> impl Strategy<Value = Event> {
    (time(), time(), any::<u16>(), any::<u64>(), "[a-z-]{0,9}", "[a-z-]{0,9}").prop_map(
        |(start, end, cpu, events, source, reason)| {
            Event::Loss(Loss { source, reason, cpu: CpuId(cpu), start, end, events })
        },
    )
}

fn stack() -> impl Strategy<Value = Event> {
    (time(), any::<u64>(), any::<u32>(), any::<u16>(), proptest::collection::vec(any::<u64>(), 0..40))
        .prop_map(|(at, id, tgid, kernel_frames, addresses)| {
            Event::Stack(RawStack {
                at,
                id,
                tgid,
                kernel_frames,
                vias: addresses.iter().map(|a| FrameVia::ALL[(*a % 5) as usize]).collect(),
                end: StackEnd::ALL[(id % 9) as usize],
                raw: (id % 2 == 0).then(|| {
                    Box::new(RawMemory {
                        ip: id,
                        sp: id >> 7,
                        bp: id >> 9,
                        bx: id >> 3,
                        bytes: id.to_le_bytes().repeat((tgid % 9) as usize),
                    })
                }),
                addresses,
            })
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        switch(),
        allocated(),
        freed(),
        kernels(),
        snapshot(),
        lifecycle(),
        (time(), any::<[u32; 2]>()).prop_map(|(at, [tid, cpus])| Event::Affinity(Affinity { at, tid, cpus })),
        (time(), (tid(), tid(), tid()), 0..4u8, -1..2i32, any::<[u64; 2]>()).prop_map(
            |(at, (wakee_tid, waker_tid, every), context, waker_syscall, [waker_object, stack])| {
                Event::Waking(Waking {
                    at,
                    cpu: CpuId(3),
                    wakee_tid,
                    waker_tid,
                    context: WakeContext::from_code(context).unwrap_or_default(),
                    waker_syscall,
                    waker_object,
                    stack,
                    stack_every: if every % 2 == 0 { 0 } else { every },
                })
            }
        ),
        (time(), any::<[u32; 2]>(), any::<bool>(), any::<i32>(), any::<[u64; 2]>()).prop_map(
            |(at, [tid, tgid], in_kernel, syscall, [ip, stack])| Event::Sample(Sample {
                at,
                cpu: CpuId(1),
                tid,
                tgid,
                ip,
                in_kernel,
                syscall,
                stack,
                registers: (ip % 2 == 0).then(|| Box::new(std::array::from_fn(|k| ip.rotate_left(k as u32)))),
            })
        ),
        stack(),
        (time(), any::<u32>(), any::<[u64; 3]>(), ".{0,30}", proptest::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(at, tgid, [start, end, file_offset], path, build_id)| Event::Mapping(RawMapping {
                at,
                tgid,
                start,
                end,
                file_offset,
                path,
                build_id
            })),
        syscall_count(),
        calls(),
        object_name(),
        runtime_event(),
        loss(),
    ]
}

/// All events about one block, of a thread that sleeps a thousand times a second and is woken by a timer.
fn a_block(number: u64) -> [Event; 3] {
    let (tid, at) = (30_000 + (number % 50) as u32, 5_000_000_000 + number * 20_000);
    let wait = RawWait {
        state: 1,
        syscall: 230,
        op: 1,
        stack_every: 3,
        timeout: Timeout::Until(Timestamp(at + 1_000_000)),
        ..RawWait::default()
    };
    let timed = |more| Timestamp(at + more);
    let switch = |at, prev_tid, next_tid, outcome| {
        let known = prev_tid != 0;
        let prev_tgid = if known { 30_000 } else { 0 };
        let exec_ns = known.then_some(number * 180);
        Event::Switch(Switch {
            at,
            cpu: CpuId(1),
            prev_tid,
            next_tid,
            prev_tgid,
            outcome,
            exec_ns,
            queue_ns: known.then_some(77),
            clock_ran_ns: NonZeroU64::new(50 * 180).filter(|_| known),
        })
    };
    [
        Event::Waking(Waking {
            at: timed(0),
            cpu: CpuId(1),
            wakee_tid: tid,
            context: WakeContext::Timer,
            waker_syscall: -1,
            ..Waking::default()
        }),
        switch(timed(2_000), 0, tid, Outcome::Untracked),
        switch(timed(9_000), tid, 0, Outcome::Blocked(Box::new(wait))),
    ]
}

#[test]
fn a_block_takes_few_bytes() {
    let events: Vec<Event> = (0..2_000).flat_map(a_block).collect();
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    events.iter().for_each(|event| encoder.encode(event, &mut bytes));
    let decoded: Result<Vec<Event>, CodecError> = Decoder::new(&bytes).collect();
    assert_eq!(decoded.unwrap(), events);
    assert!(bytes.len() <= 2_000 * 27, "{}", bytes.len() as f64 / 2_000.0);
}

#[test]
fn texts_are_compared_by_content_and_not_by_address() {
    let tell = |name: &str| {
        let name = name.into();
        Event::Runtime(RuntimeEvent {
            at: Timestamp(1),
            tgid: 1,
            tid: 0,
            lane: 0,
            what: RuntimeEventKind::End,
            name,
        })
    };
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    // Each text is freed before the next is made, so that one may reuse the address of another.
    let names = ["minor", "minor", "major", "minor", "", "minor", "", "sweep", "major"].repeat(50);
    names.iter().for_each(|name| encoder.encode(&tell(name), &mut bytes));
    let decoded: Result<Vec<Event>, CodecError> = Decoder::new(&bytes).collect();
    assert_eq!(decoded.unwrap(), names.iter().map(|name| tell(name)).collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(events in proptest::collection::vec(event(), 0..30)) {
        let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
        events.iter().for_each(|event| encoder.encode(event, &mut bytes));
        let decoded: Result<Vec<Event>, CodecError> = Decoder::new(&bytes).collect();
        prop_assert_eq!(decoded.unwrap(), events);
    }

    #[test]
    fn any_bytes_are_events_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Decoder::new(&bytes).count();
    }
}
