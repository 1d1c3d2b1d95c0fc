//! Rings that drop segments, and their remaining content.

use super::*;
use crate::event::{CallSums, Outcome, RawStack, RawWait, Sample, Snapshot, SnapshotState, Switch};
use crate::recording::{JournalReader, JournalWriter, Manifest};
use crate::tables::CallPartKind;
use crate::{CpuId, Loss};

const MS: u64 = 1_000_000;

fn keep(time_ms: u64, bytes: u64) -> Keep {
    Keep { time: Duration(time_ms * MS), bytes }
}

fn written(cut: Cut<u32>, name: &str) -> Vec<Event> {
    let dir = std::env::temp_dir().join(format!("holdup-ring-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut journal = JournalWriter::create(&dir, &Manifest::default()).unwrap();
    cut.write(&mut journal);
    let events = JournalReader::open(&dir).unwrap().collect();
    std::fs::remove_dir_all(&dir).unwrap();
    events
}

/// Thread 7 blocks immediately with stack 3 and stays blocked. Thread 8 is switched in and out each
/// millisecond.
fn record(ring: &mut EventRing<u32>, from_ms: u64, to_ms: u64) {
    for ms in from_ms..to_ms {
        let at = Timestamp(ms * MS);
        let blocked = |stack| Outcome::Blocked(Box::new(RawWait { stack, ..RawWait::default() }));
        let base = Switch { at, cpu: CpuId(0), prev_tgid: 5, ..Switch::default() };
        if ms == 0 {
            ring.push(&Event::Stack(RawStack { id: 3, addresses: vec![1, 2], ..RawStack::default() }));
            ring.push(&Event::Switch(Switch { prev_tid: 7, outcome: blocked(3), ..base.clone() }));
        }
        let (prev_tid, next_tid) = if ms % 2 == 0 { (0, 8) } else { (8, 0) };
        let outcome = if prev_tid == 8 { blocked(4) } else { Outcome::Untracked };
        ring.push(&Event::Switch(Switch { prev_tid, next_tid, outcome, ..base }));
        if ring.is_due() && ring.begin_segment(ms as u32) {
            ring.restart_stacks();
        }
    }
}

#[test]
fn it_reaches_back_as_far_as_asked_and_not_much_further() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    record(&mut ring, 0, 10_000);
    let reach = Duration(9_999 * MS).0 - ring.begin().0;
    assert!((800 * MS..=1_000 * MS).contains(&reach), "{reach}");
    assert!(!ring.take_short());
}

#[test]
fn a_recording_begins_at_the_given_time() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    record(&mut ring, 0, 10);
    ring.begin_at(Timestamp(12 * MS), 7);
    record(&mut ring, 10, 20);
    let cut = ring.cut(Timestamp(19 * MS)).unwrap();
    assert_eq!((cut.start, cut.mark), (Timestamp(12 * MS), 7));
    let events = written(cut, "begins");
    let first = events.iter().find(|event| matches!(event, Event::Switch(_))).map(Event::at);
    assert_eq!(first, Some(Timestamp(12 * MS)), "the two before it are folded");
}

#[test]
fn earlier_state_is_emitted_at_the_start() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    record(&mut ring, 0, 5_000);
    let cut = ring.cut(Timestamp(4_900 * MS)).unwrap();
    let (start, mark) = (cut.start, cut.mark);
    assert_eq!(start.0, u64::from(mark) * MS + 1);
    let events = written(cut, "before");
    let waits = events.iter().find_map(|event| match event {
        Event::Snapshot(Snapshot { tid: 7, at, state: SnapshotState::Blocked(wait), .. }) => {
            Some((*at, wait.stack))
        }
        _ => None,
    });
    assert_eq!(waits, Some((start, 3)));
    assert!(events.iter().any(|event| matches!(event, Event::Stack(stack) if stack.addresses == [1, 2])));
    assert!(events.is_sorted_by_key(Event::at));
    let switches: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Switch(switch) => Some(switch.at.0 / MS),
            _ => None,
        })
        .collect();
    assert_eq!(switches, (u64::from(mark) + 1..=4_900).collect::<Vec<_>>(), "each once, in order");
}

#[test]
fn a_loss_before_the_start_is_clipped() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    record(&mut ring, 0, 5_000);
    let start = ring.begin();
    for (from, to, events) in [(5, 1, 1), (5, 0, 2), (0, 3, 3)] {
        let reason = "ring-full".to_owned();
        let (from, to) = (
            start - Duration(from * MS),
            if to == 0 { start - Duration(1) } else { start + Duration(to * MS) },
        );
        let source = "sched".to_owned();
        ring.push(&Event::Loss(Loss { source, reason, cpu: CpuId(0), start: from, end: to, events }));
    }
    let events = written(ring.cut(Timestamp(5_000 * MS)).unwrap(), "reaches");
    let told: Vec<(u64, Timestamp, Timestamp)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Loss(loss) => Some((loss.events, loss.start, loss.end)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(1, start, start + Duration(MS)), (3, start, start + Duration(3 * MS))]);
}

#[test]
fn what_comes_late_and_what_began_before_is_not_in_it() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    record(&mut ring, 0, 5_000);
    let start = ring.begin();
    // Delayed by its CPU until after the segment began. It determines the initial state of thread 9.
    let late = Switch {
        at: start - Duration(10),
        cpu: CpuId(3),
        prev_tid: 9,
        prev_tgid: 5,
        outcome: Outcome::Preempted,
        ..Switch::default()
    };
    ring.push(&Event::Switch(late));
    let loss = Loss {
        source: "sched".to_owned(),
        reason: "ring-full".to_owned(),
        cpu: CpuId(9),
        start: Timestamp(4_990 * MS),
        end: Timestamp(4_995 * MS),
        events: 3,
    };
    ring.push(&Event::Loss(loss));
    for (at, tid) in [(start.0 - 5, 1), (start.0 + 5, 2), (0, 7), (0, 11)] {
        ring.push(&Event::Counted(crate::event::Counted {
            at: Timestamp(at),
            until: Timestamp(4_999 * MS),
            tid,
            ..Default::default()
        }));
    }
    let events = written(ring.cut(Timestamp(5_000 * MS)).unwrap(), "late");
    assert!(events.iter().all(|event| event.at() >= start || matches!(event, Event::Stack(_))));
    let state = events.iter().find_map(|event| match event {
        Event::Snapshot(snapshot) if snapshot.tid == 9 => Some(snapshot.state.clone()),
        _ => None,
    });
    assert_eq!(state, Some(SnapshotState::Runnable));
    let counted: Vec<u32> = events
        .iter()
        .filter_map(|event| match event {
            Event::Counted(counted) => Some(counted.tid),
            _ => None,
        })
        .collect();
    assert_eq!(counted, [2, 11], "7 was there before, 11 was born since");
    assert!(events.iter().any(|event| matches!(event, Event::Loss(_))));
}

#[test]
fn a_full_ring_is_reported_and_stays_bounded() {
    let mut ring = EventRing::new(keep(60_000, 4_000), 0);
    for round in 0..50 {
        // None of these bytes is predictable.
        for number in 0..100u64 {
            let ip = (round << 16 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ring.push(&Event::Sample(Sample { at: Timestamp(round * 1000 * MS), ip, ..Sample::default() }));
        }
        record(&mut ring, round * 1000, (round + 1) * 1000);
        assert!(ring.bytes() < 20_000, "{}", ring.bytes());
    }
    assert!(ring.take_short());
    assert!(!ring.take_short());
    assert!(ring.begin() > Timestamp(1000 * MS));
}

/// However many stacks come, and one that a thread still waits with is never forgotten.
#[test]
fn redefined_stacks_replace_the_old_ones() {
    let mut ring = EventRing::new(keep(800, 200_000), 0);
    record(&mut ring, 0, 100);
    let mut most = 0;
    for round in 1..100u64 {
        for id in 0..500 {
            let addresses: Vec<u64> = (0..20u64)
                .map(|frame| (round * 977 + id * 31 + frame).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .collect();
            ring.push(&Event::Stack(RawStack {
                id: round << 32 | id,
                at: Timestamp(round * 1000 * MS),
                addresses,
                ..RawStack::default()
            }));
        }
        record(&mut ring, round * 1000, round * 1000 + 1000);
        most = most.max(ring.bytes());
    }
    assert!(most < 1_500_000, "of 8 MB that came: {most}");
    let events = written(ring.cut(Timestamp(u64::MAX)).unwrap(), "anew");
    assert!(events.iter().any(|event| matches!(event, Event::Stack(stack) if stack.id == 3)));
}

/// Definitions are kept for as long as there is room: a recording has those that it names.
#[test]
fn stacks_that_nothing_names_stay_out_of_a_recording() {
    let mut ring = EventRing::new(keep(800, 1 << 20), 0);
    let stack = |id: u64| Event::Stack(RawStack { id, at: Timestamp(id), ..RawStack::default() });
    // A switch refers to stacks 3 and 4 (see `record`), a sample to 5, a syscall's sums to 6. Stack 7 is
    // unused.
    (4..=7).for_each(|id| ring.push(&stack(id)));
    record(&mut ring, 0, 5_000);
    let at = Timestamp(5_000 * MS);
    ring.push(&Event::Sample(Sample { at, stack: 5, ..Sample::default() }));
    let parts = vec![(CallPartKind::Stack, 6, 1), (CallPartKind::Error, 7, 1)];
    ring.push(&Event::Calls(Box::new(CallSums { at, until: at, parts, ..CallSums::default() })));
    let events = written(ring.cut(at).unwrap(), "named");
    let ids: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Stack(stack) => Some(stack.id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [3, 4, 5, 6]);
}

/// Samples always have new stacks, and the remaining segments refer to few of them. The definitions stay far
/// below the limit.
#[test]
fn stacks_that_nothing_names_any_more_make_room() {
    let mut ring = EventRing::new(keep(800, 256 << 20), 0);
    let (mut anew, mut most) = (0, 0);
    for round in 0..100u64 {
        for id in 0..1_500 {
            let address = |frame: u64| (round * 1_501 + id).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame;
            let at = Timestamp(round * 1000 * MS);
            let addresses = (0..20).map(address).collect();
            ring.push(&Event::Stack(RawStack { id: round << 32 | id, at, addresses, ..RawStack::default() }));
        }
        for ms in round * 1000..(round + 1) * 1000 {
            ring.push(&Event::Sample(Sample { at: Timestamp(ms * MS), ..Sample::default() }));
            if ring.is_due() && ring.begin_segment(0) {
                ring.restart_stacks();
                anew += 1;
            }
        }
        most = most.max(ring.bytes());
    }
    assert!(most < 4 << 20, "of what 150,000 take: {most}");
    assert!((2..=50).contains(&anew), "{anew}");
}

/// If the same stacks recur in each generation, redefinition is wasted, so it must be rare.
#[test]
fn stacks_in_constant_use_are_rarely_redefined() {
    let mut ring = EventRing::new(keep(800, 256 << 20), 0);
    let mut anew = 0;
    let tell = |ring: &mut EventRing<u32>, generation: u64, ms: u64| {
        for id in 0..15_000u64 {
            let addresses = (0..20).map(|frame| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame).collect();
            let (id, at) = (generation << 32 | id, Timestamp(ms * MS));
            ring.push(&Event::Stack(RawStack { id, at, addresses, ..RawStack::default() }));
        }
    };
    tell(&mut ring, 0, 0);
    for ms in 1..100_000 {
        ring.push(&Event::Sample(Sample { at: Timestamp(ms * MS), ..Sample::default() }));
        if ring.is_due() && ring.begin_segment(0) {
            ring.restart_stacks();
            anew += 1;
            tell(&mut ring, anew, ms);
        }
    }
    assert!(anew <= 1, "{anew}");
}
