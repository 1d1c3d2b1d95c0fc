//! Records by hand, gaps in their numbers, and records that are none.

use std::num::NonZeroU64;

use holdup_events::event::{Affinity, Timeout, WakeContext};
use holdup_events::tables::FrameVia;
use holdup_events::{CpuId, Duration};
use proptest::prelude::*;

use super::*;
use crate::interpreted::{Interpreted, Standing};

fn record(kind: u8, cpu: u16, seq: u32, at_ns: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0u8; length];
    bytes[..8].copy_from_slice(&at_ns.to_le_bytes());
    bytes[8..12].copy_from_slice(&seq.to_le_bytes());
    bytes[12..14].copy_from_slice(&cpu.to_le_bytes());
    bytes[14] = kind;
    bytes
}

fn decode_all(records: &[Vec<u8>]) -> Vec<Event> {
    let (mut decoder, mut events) = (WireDecoder::default(), Vec::new());
    for record in records {
        let _ = decoder.decode(record, &mut |event| events.push(event));
    }
    events
}

#[test]
fn a_gap_in_the_numbers_is_a_loss_between_its_neighbours() {
    let events = decode_all(&[
        record(1, 0, 0, 100, size::SWITCH_FOREIGN),
        record(1, 1, 0, 150, size::SWITCH_FOREIGN),
        record(1, 0, 9, 200, size::SWITCH_FOREIGN),
    ]);
    let short: Vec<Vec<u8>> =
        (0..9u32).filter(|seq| *seq != 2).map(|seq| record(1, 0, seq, 10, size::SWITCH_FOREIGN)).collect();
    let lost_one = decode_all(&short).iter().filter(|event| matches!(event, Event::Loss(_))).count();
    assert_eq!(lost_one, 1, "a short gap that does not fill");
    let losses: Vec<&Loss> = events
        .iter()
        .filter_map(|event| if let Event::Loss(loss) = event { Some(loss) } else { None })
        .collect();
    assert_eq!(losses.len(), 1);
    assert_eq!((losses[0].events, losses[0].start, losses[0].end), (8, Timestamp(100), Timestamp(200)));
    assert_eq!(losses[0].cpu, CpuId(0));
}

#[test]
fn the_first_records_may_be_the_lost_ones() {
    let events = decode_all(&[record(4, 3, 7, 900, 48)]);
    assert!(matches!(&events[0], Event::Loss(loss) if loss.events == 7 && loss.source == "sched"));
}

#[test]
fn gaps_after_the_last_record_of_a_cpu_are_losses() {
    let mut decoder = WireDecoder::default();
    for (cpu, seq, at) in [(0, 0, 100), (0, 1, 150), (1, 0, 120), (1, 3, 300), (3, 0, 400)] {
        decoder.decode(&record(1, cpu, seq, at, size::SWITCH_FOREIGN), &mut |_| ()).unwrap();
    }
    let mut losses = Vec::new();
    // Nothing came of CPU 2. A short gap of CPU 1 was not sure yet.
    decoder.emit_last_gaps(&[5, 4, 7, 1], (Timestamp(50), Timestamp(900)), &mut |event| match event {
        Event::Loss(loss) => losses.push((loss.cpu.0, loss.events, loss.start.0, loss.end.0)),
        other => panic!("{other:?}"),
    });
    assert_eq!(losses, [(0, 3, 150, 900), (1, 2, 120, 900), (2, 7, 50, 900)]);
    assert_eq!(decoder.lost()[0], 12);
}

/// Samples use two rings, and one is read completely before the other.
#[test]
fn samples_with_and_without_registers_are_numbered_apart() {
    let with = |seq, at| record(14, 0, seq, at, 176);
    let without = |seq, at| record(5, 0, seq, at, 48);
    let events =
        decode_all(&[with(0, 10), with(1, 40), with(2, 70), without(0, 20), without(1, 50), without(2, 60)]);
    assert_eq!(events.len(), 6, "{events:?}");
    let events = decode_all(&[with(1, 40), without(2, 60)]);
    let losses = events.iter().filter_map(|event| match event {
        Event::Loss(loss) => Some((loss.source.as_str(), loss.events)),
        _ => None,
    });
    assert_eq!(losses.collect::<Vec<_>>(), [("cpu-samples", 1), ("cpu-samples", 2)]);
}

#[test]
fn an_interrupting_record_is_no_loss() {
    // 5 was numbered, then an interrupt's program numbered and sent 6 before 5 was sent.
    let events = decode_all(&[
        record(4, 0, 0, 100, 48),
        record(4, 0, 2, 130, 48),
        record(4, 0, 1, 120, 48),
        record(4, 0, 3, 140, 48),
    ]);
    let lost: u64 =
        events.iter().map(|event| if let Event::Loss(loss) = event { loss.events } else { 0 }).sum();
    assert_eq!(lost, 0, "{events:?}");
}

#[test]
fn the_outcome_of_a_switch() {
    let outcome = |kind: u8, state: u32, flags: u8| {
        let mut bytes = record(kind, 0, 0, 1, size::SWITCH_BLOCKED);
        bytes[24..28].copy_from_slice(&state.to_le_bytes());
        bytes[15] = flags;
        match decode_all(&[bytes]).remove(0) {
            Event::Switch(switch) => switch.outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(outcome(1, 1, 0), Outcome::Untracked);
    assert_eq!(outcome(2, 0, 0), Outcome::Preempted);
    assert_eq!(outcome(2, 0, FLAG_YIELD), Outcome::Yielded);
    assert_eq!(outcome(2, 0, FLAG_YIELD | FLAG_PREEMPT), Outcome::Preempted);
    assert_eq!(outcome(2, 0, FLAG_THROTTLED), Outcome::Throttled);
    assert_eq!(outcome(2, 0x80, 0), Outcome::Dead);
    assert!(matches!(outcome(3, 0x2001, 0), Outcome::Blocked(wait) if wait.state == 0x2001));
}

#[test]
fn the_run_queue_clock_is_decoded_if_present() {
    let clock_ran = |kind: u8, place: usize, ran: u8| {
        let mut bytes = record(kind, 0, 0, 1, size::SWITCH_BLOCKED);
        bytes[place - 8] = ran;
        match decode_all(&[bytes]).remove(0) {
            Event::Switch(switch) => switch.clock_ran_ns.map(NonZeroU64::get),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(clock_ran(2, size::SWITCH_OUT, 200), Some(200));
    assert_eq!(clock_ran(3, size::SWITCH_OUT, 201), Some(201));
    assert_eq!(clock_ran(1, size::SWITCH_FOREIGN, 202), Some(202));
    assert_eq!(clock_ran(2, size::SWITCH_OUT, 0), None);
}

#[test]
fn a_time_out_has_its_meaning_in_its_highest_bits() {
    let timeout = |raw: u64| {
        let mut bytes = record(3, 0, 0, 1, size::SWITCH_BLOCKED);
        bytes[24] = 1;
        bytes[size::SWITCH_BLOCKED - 8..].copy_from_slice(&raw.to_le_bytes());
        match decode_all(&[bytes]).remove(0) {
            Event::Switch(Switch { outcome: Outcome::Blocked(wait), .. }) => wait.timeout,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(timeout(0), Timeout::None);
    assert_eq!(timeout(1 << 62 | 1_000_000), Timeout::After(Duration(1_000_000)));
    assert_eq!(timeout(2 << 62 | 5), Timeout::Until(Timestamp(5)));
    assert_eq!(timeout(u64::MAX), Timeout::UntilDate(u64::MAX >> 2));
}

#[test]
fn the_exit_of_a_program_thread_gives_its_affinity() {
    let mut bytes = record(10, 0, 0, 1, size::THREAD);
    (bytes[16], bytes[28], bytes[48]) = (7, 1, 2);
    let affinity = Event::Affinity(Affinity { at: Timestamp(1), tid: 7, cpus: 2 });
    assert_eq!(decode_all(&[bytes.clone()])[1..], [affinity]);
    bytes[28] = 0;
    assert_eq!(decode_all(&[bytes]).len(), 1, "others' threads do not matter");
}

#[test]
fn short_and_unknown_records_are_errors() {
    let mut decoder = WireDecoder::default();
    for length in 0..200 {
        for kind in 0..=255u8 {
            let mut bytes = record(kind, 0, 0, 1, length.max(16));
            bytes.truncate(length);
            let _ = decoder.decode(&bytes, &mut |_| ());
        }
    }
    assert_eq!(decoder.decode(&record(1, 0, 0, 1, 39), &mut |_| ()), Err(WireError { kind: 1, length: 39 }));
    assert_eq!(
        decoder.decode(&record(99, 0, 0, 1, 64), &mut |_| ()),
        Err(WireError { kind: 99, length: 64 })
    );
}

/// Waits are put where the last one was: nothing of it may be left.
#[test]
fn borrowed_and_owned_events_are_equal() {
    let mut random = 1u64;
    let mut records = Vec::new();
    for seq in 0..400u32 {
        let (kind, length) =
            [(3, 104), (1, 40), (4, 48), (3, 104), (2, 56), (3, 100), (5, 48)][seq as usize % 7];
        let mut bytes = record(kind, 0, seq + seq / 50, u64::from(seq) * 10, length);
        for byte in bytes.iter_mut().skip(15) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (random >> 60) as u8;
        }
        records.push(bytes);
    }
    let (mut decoder, mut seen, mut errors) = (WireDecoder::default(), Vec::new(), 0);
    for record in &records {
        errors += usize::from(decoder.decode_seen(record, &mut |event| seen.push(event.clone())).is_err());
    }
    assert_eq!(seen, decode_all(&records));
    assert!(seen.iter().any(|event| matches!(event, Event::Loss(_))));
    assert_eq!(errors, records.iter().filter(|record| record.len() == 100).count(), "records that are cut");
}

#[test]
fn a_stack_needs_all_its_addresses() {
    let mut bytes = record(6, 0, 0, 1, 32 + 16);
    bytes[28] = 1;
    bytes[30] = 2;
    let mut decoder = WireDecoder::default();
    assert!(decoder.decode(&bytes, &mut |_| ()).is_err());
    bytes[30] = 1;
    assert!(decoder.decode(&bytes, &mut |_| ()).is_ok());
}

#[test]
fn what_an_interpreter_runs_stands_behind_the_addresses() {
    let mut bytes = record(6, 0, 0, 1, 32 + 24);
    bytes[30] = 3;
    let word = |at: usize| 32 + at * 8..40 + at * 8;
    bytes[word(0)].copy_from_slice(&0x7f00_1234_5678u64.to_le_bytes());
    bytes[word(1)].copy_from_slice(&(1 << 56 | 0x7f00_1234_0000u64).to_le_bytes());
    let standing = Standing::Behind { begins: true };
    let place = Interpreted { code: 0x7f00_0000_1230, identity: 0x7f, units: Some(9), standing };
    bytes[word(2)].copy_from_slice(&place.address().to_le_bytes());
    let events = decode_all(&[bytes]);
    let Some(Event::Stack(stack)) = events.first() else { panic!("{events:?}") };
    assert_eq!(stack.vias, [FrameVia::Registers, FrameVia::Table, FrameVia::Interpreted]);
    assert_eq!(stack.addresses, [0x7f00_1234_5678, 0x7f00_1234_0000, place.address()]);
}

#[test]
fn a_waking_has_its_wakers_stack_with_its_probability() {
    let mut bytes = record(4, 1, 0, 100, 48);
    for (at, word) in [(16, 7u32), (20, 8), (24, 202), (28, 16)] {
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes[40..48].copy_from_slice(&9u64.to_le_bytes());
    let [Event::Waking(waking)] = &decode_all(&[bytes])[..] else { panic!("one waking") };
    assert_eq!((waking.wakee_tid, waking.waker_tid, waking.waker_syscall), (7, 8, 202));
    assert_eq!((waking.stack, waking.stack_every), (9, 16));
}

#[test]
fn a_local_sender_or_receiver_is_the_waker_of_its_peer() {
    let waking = |context: u8, syscall: i32| {
        let mut bytes = record(4, 1, 0, 100, 48);
        bytes[15] = context;
        bytes[20..24].copy_from_slice(&8u32.to_le_bytes());
        bytes[24..28].copy_from_slice(&syscall.to_le_bytes());
        bytes[28] = 3;
        bytes[40] = 9;
        let [Event::Waking(waking)] = &decode_all(&[bytes])[..] else { panic!("one waking") };
        (waking.context, waking.waker_syscall, waking.stack, waking.stack_every)
    };
    let (sendto, recvfrom, exit_group, nanosleep) = (44, 45, 231, 35);
    for call in [sendto, recvfrom, exit_group] {
        assert_eq!(waking(2, call), (WakeContext::Thread, call, 9, 3));
    }
    // A soft interrupt during another activity of the thread, which is not recorded.
    assert_eq!(waking(2, nanosleep), (WakeContext::SoftIrq, -1, 0, 0));
    assert_eq!(waking(2, -1), (WakeContext::SoftIrq, -1, 0, 0));
    assert_eq!(waking(1, sendto).0, WakeContext::Timer);
}

#[test]
fn drawn_allocations_and_their_ends_have_a_stream_of_their_own() {
    let mut allocated = record(15, 0, 0, 10, size::ALLOCATED);
    for (at, value) in [(24, 0x1000u64), (32, 48), (40, 512), (48, 7)] {
        allocated[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    allocated[16..20].copy_from_slice(&5u32.to_le_bytes());
    let mut freed = record(16, 0, 1, 20, size::FREED);
    freed[24..32].copy_from_slice(&0x1000u64.to_le_bytes());
    let events = decode_all(&[allocated.clone(), freed, record(1, 0, 0, 30, size::SWITCH_FOREIGN)]);
    assert_eq!(events.len(), 3, "{events:?}");
    let Event::Allocated(told) = events[0] else { panic!("{events:?}") };
    assert_eq!((told.tid, told.address, told.bytes, told.every_bytes, told.stack), (5, 0x1000, 48, 512, 7));
    assert!(matches!(events[1], Event::Freed(told) if told.address == 0x1000 && told.at == Timestamp(20)));
    let lost = decode_all(&[record(16, 0, 9, 20, size::FREED)]);
    assert!(matches!(&lost[0], Event::Loss(loss) if loss.source == "allocations" && loss.events == 9));
    assert!(decode_all(&[allocated[..size::ALLOCATED - 1].to_vec()]).is_empty());
}

/// A thread's counts are emitted as increases, and only its last record has a number. Faults keep the number
/// that they represent.
#[test]
fn faults_and_counts_of_threads() {
    let counts = |flags: u8, seq: u32, minor: u64| {
        let mut bytes = record(17, 0, seq, 10 + minor, size::THREAD_COUNTS);
        bytes[15] = flags;
        bytes[16..20].copy_from_slice(&5u32.to_le_bytes());
        bytes[32..40].copy_from_slice(&minor.to_le_bytes());
        bytes
    };
    let mut fault = record(18, 0, 0, 12, size::FAULT);
    fault[15] = 3;
    fault[32..40].copy_from_slice(&77u64.to_le_bytes());
    let events = decode_all(&[counts(0, 9, 4), fault.clone(), counts(1, 1, 6)]);
    assert_eq!(events.len(), 3, "no loss: {events:?}");
    let grown = |event: &Event| match event {
        Event::Counted(counted) => (counted.tid, counted.at.0, counted.until.0, counted.count),
        other => panic!("{other:?}"),
    };
    assert_eq!((grown(&events[0]), grown(&events[2])), ((5, 0, 14, 4), (5, 14, 16, 2)));
    let Event::Fault(told) = &events[1] else { panic!("{events:?}") };
    assert!(told.major && told.in_kernel && told.stands_for == 77, "{told:?}");
    assert!(decode_all(&[fault[..size::FAULT - 1].to_vec(), counts(1, 0, 1)[..40].to_vec()]).is_empty());
}

#[test]
fn span_places_have_their_registered_meaning() {
    let mut place = record(19, 0, 0, 10, size::PLACE);
    place[16..20].copy_from_slice(&5u32.to_le_bytes());
    place[20..24].copy_from_slice(&4u32.to_le_bytes());
    place[24..28].copy_from_slice(&3u32.to_le_bytes());
    let (mut decoder, mut events) = (WireDecoder::default(), Vec::new());
    let (runtime, name) = ("go".into(), "stop".into());
    let kind = holdup_events::tables::SpanKind::StopsAll;
    let span = decoder.probed().know(crate::probed::Meaning {
        runtime,
        name,
        kind,
        is_mark: false,
        of_process: true,
    });
    decoder.probed().know_place(3, vec![crate::probed::Act { span, ends: false }]);
    decoder.decode(&place, &mut |event| events.push(event)).unwrap();
    assert!(
        matches!(&events[1], Event::Runtime(tell) if (tell.tid, tell.tgid, tell.lane) == (5, 4, 5)),
        "{events:?}"
    );
    // Numbers are missing: open spans may have ended.
    place[8..12].copy_from_slice(&9u32.to_le_bytes());
    events.clear();
    decoder.decode(&place, &mut |event| events.push(event)).unwrap();
    assert!(
        matches!(&events[1], Event::Loss(loss) if loss.source == "runtime-probes" && loss.events == 8),
        "{events:?}"
    );
    assert!(decoder.decode(&place[..size::PLACE - 1], &mut |_| panic!("too short")).is_err());
    // Hits of an unknown probe are ignored.
    assert!(decode_all(&[record(19, 0, 0, 10, size::PLACE)]).is_empty());
}

#[test]
fn task_waits_are_emitted_until_their_window_closes() {
    let mut wait = record(21, 0, 0, 90, size::TASK_WAIT);
    for (at, number) in [(16, 5), (20, 4), (24, 40), (32, 0xc000), (40, 77), (48, 78)] {
        wait[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
    }
    wait[56..60].copy_from_slice(&6u32.to_le_bytes());
    let mut closed = record(21, 0, 1, 95, size::TASK_WAIT);
    closed[20..24].copy_from_slice(&4u32.to_le_bytes());
    closed[15] = 1;
    let (mut decoder, mut events) = (WireDecoder::default(), Vec::new());
    for record in [&wait, &closed] {
        decoder.decode(record, &mut |event| events.push(event)).unwrap();
    }
    let told = TaskWait {
        at: Timestamp(90),
        since: Timestamp(40),
        tid: 6,
        tgid: 4,
        object: 0xc000,
        stack: 77,
        waker_tid: 5,
        waker_stack: 78,
        channel: None,
    };
    let window = TaskWindow { at: Timestamp(95), tgid: 4, opens: false };
    assert_eq!(events, [Event::TaskWait(told), Event::TaskWindow(window)]);
    assert_eq!((decoder.take_closed(), decoder.take_closed()), (vec![(4, Timestamp(95))], vec![]));
    assert_eq!(decoder.task_waits(), 1);
    assert!(decoder.decode(&wait[..size::TASK_WAIT - 1], &mut |_| panic!("too short")).is_err());
}

#[test]
fn a_task_wait_at_a_channel_has_both_tasks_and_the_channels_size() {
    let mut wait = record(21, 0, 0, 90, size::TASK_WAIT);
    for (at, number) in [(64, 0xa0), (72, 0xb0), (80, 4), (84, 16)] {
        wait[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
    }
    let of = |ended: u8| {
        let mut wait = wait.clone();
        wait[60] = ended;
        let mut events = Vec::new();
        WireDecoder::default().decode(&wait, &mut |event| events.push(event)).unwrap();
        match events[..] {
            [Event::TaskWait(wait)] => wait.channel,
            _ => panic!("{events:?}"),
        }
    };
    let sends = ChannelWait { sends: true, task: 0xa0, waker_task: 0xb0, slots: 4, item_bytes: 16 };
    assert_eq!([0, 1, 2].map(of), [None, Some(sends), Some(ChannelWait { sends: false, ..sends })]);
}

#[test]
fn hardware_counters_are_emitted_for_their_thread() {
    let mut counters = record(20, 0, 0, 10, size::COUNTERS);
    counters[16..20].copy_from_slice(&5u32.to_le_bytes());
    counters[20..24].copy_from_slice(&4u32.to_le_bytes());
    for (place, value) in [(24, 2_000_000u64), (32, 6_000_000), (40, 9_000_000), (48, 1), (56, 2)] {
        counters[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    let (mut decoder, mut told) = (WireDecoder::default(), Vec::new());
    decoder.hardware().know(&["cycles", "instructions"]);
    let mut take = |record: &[u8]| {
        decoder.decode(record, &mut |event| match event {
            Event::Runtime(tell) => told.push((tell.tid, tell.name.to_string(), tell.what)),
            other => panic!("{other:?}"),
        })
    };
    take(&counters).unwrap();
    assert!(take(&counters[..size::COUNTERS - 1]).is_err());
    let counter =
        |name: &str, value| (5, name.to_owned(), holdup_events::event::RuntimeEventKind::Counter(value));
    let expected =
        [counter("counted_ns", 2_000_000), counter("cycles", 6_000_000), counter("instructions", 9_000_000)];
    assert_eq!(told, expected);
}

proptest! {
    /// Records in order, missing, late or repeated: the fast path gives the same result as the usual one.
    #[test]
    fn the_fast_path_for_switches_and_wakeups_is_equivalent(
        records in proptest::collection::vec(
            (prop_oneof![8 => 1..5u8, 1 => any::<u8>()], 0..3u16, prop_oneof![6 => Just(1u32), 1 => 0..9u32, 1 => any::<u32>()],
             proptest::collection::vec(any::<u8>(), 110), 0..130usize),
            0..60,
        )
    ) {
        let mut numbers = [0u32; 3];
        let (mut usual, mut short) = (WireDecoder::default(), WireDecoder::default());
        for (kind, cpu, ahead, noise, length) in records {
            let number = &mut numbers[usize::from(cpu)];
            let mut bytes = record(kind, cpu, *number, u64::from(noise[0]), 16);
            *number = number.wrapping_add(ahead);
            bytes.extend(noise);
            bytes.truncate(length);
            let (mut told, mut seen) = (Vec::new(), Vec::new());
            let is_taken = usual.decode(&bytes, &mut |event| told.push(event));
            prop_assert_eq!(is_taken, short.decode_seen(&bytes, &mut |event| seen.push(event.clone())));
            prop_assert_eq!(told, seen);
        }
        prop_assert_eq!(usual.lost(), short.lost());
    }
}

/// A record of a thread of process 70.
fn thread_record(kind: u8, tid: u8, inner: u8, length: usize) -> Vec<u8> {
    let mut bytes = record(kind, 0, 0, 1, length);
    (bytes[16], bytes[20], bytes[28], bytes[52]) = (tid, 70, 1, inner);
    bytes
}

/// Thread 71 of process 70 waits at a futex.
fn futex_record(op: u32, value: u8, owner: u8) -> Vec<u8> {
    let mut bytes = record(3, 0, 0, 2, size::SWITCH_BLOCKED);
    (bytes[16], bytes[24], bytes[28]) = (71, 1, 70);
    let wait = &mut bytes[size::SWITCH_OUT..];
    (wait[0], wait[20], wait[24]) = (202, value, owner);
    wait[16..20].copy_from_slice(&op.to_le_bytes());
    bytes
}

fn waits_of(events: &[Event]) -> Vec<(u32, u32)> {
    let wait = |event: &Event| match event {
        Event::Switch(Switch { outcome: Outcome::Blocked(wait), .. }) => Some((wait.value, wait.owner_tid)),
        _ => None,
    };
    events.iter().filter_map(wait).collect()
}

#[test]
fn owners_and_joined_threads_have_machine_tids() {
    const PRIVATE_WAIT: u32 = 128;
    const JOIN: u32 = 265;
    let mut records = vec![thread_record(11, 70, 1, size::SNAPSHOT)];
    records.extend([(71, 2), (72, 3)].map(|(tid, inner)| thread_record(7, tid, inner, size::THREAD)));
    // A thread's end may be reported before an earlier wait.
    records.push(thread_record(10, 72, 3, size::THREAD));
    let numbered = |waits: &[Vec<u8>]| waits_of(&decode_all(&[records.as_slice(), waits].concat()));
    assert_eq!(numbered(&[futex_record(PRIVATE_WAIT, 2, 3), futex_record(JOIN, 3, 0)]), [(2, 72), (72, 0)]);
    // The waiter's own tid, and an unknown tid: these are counters shared between processes.
    assert_eq!(numbered(&[futex_record(JOIN, 2, 0), futex_record(JOIN, 9, 0)]), [(2, 0), (9, 0)]);
    // The tid refers to its current thread.
    records.push(thread_record(7, 99, 3, size::THREAD));
    assert_eq!(waits_of(&decode_all(&[records.as_slice(), &[futex_record(JOIN, 3, 0)]].concat())), [(99, 0)]);
}

#[test]
fn a_waiter_may_be_listed_before_its_joined_thread() {
    let mut waiter = thread_record(11, 70, 1, size::SNAPSHOT);
    waiter[80] = 1; // blocked
    waiter[88] = 202;
    waiter[104..108].copy_from_slice(&265u32.to_le_bytes());
    waiter[108] = 3;
    let mut decoder = WireDecoder::default();
    let mut events = Vec::new();
    for record in [waiter, thread_record(11, 72, 3, size::SNAPSHOT)] {
        decoder.decode(&record, &mut |event| events.push(event)).unwrap();
    }
    let Event::Snapshot(snapshot) = decoder.with_outer_tids(events.remove(0)) else { panic!("a snapshot") };
    let holdup_events::event::SnapshotState::Blocked(wait) = snapshot.state else { panic!("{snapshot:?}") };
    assert_eq!((wait.syscall, wait.value), (202, 72));
}

#[test]
fn of_threads_that_ended_the_latest_are_remembered() {
    let mut decoder = WireDecoder::default();
    for nth in 0..10_000u32 {
        let mut bytes = thread_record(10, 0, 0, size::THREAD);
        bytes[16..20].copy_from_slice(&(1000 + nth).to_le_bytes());
        bytes[52..56].copy_from_slice(&(1 + nth).to_le_bytes());
        decoder.decode(&bytes, &mut |_| ()).unwrap();
    }
    assert_eq!(decoder.inner_tids.known(), 4096);
}
