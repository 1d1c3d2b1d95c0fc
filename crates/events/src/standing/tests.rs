//! State after events in order and out of order.

use super::*;
use crate::event::{
    Lifecycle, LifecycleChange, Outcome, RawWait, RuntimeEvent, RuntimeEventKind, Snapshot, SnapshotState,
    Switch, Waking,
};
use crate::tables::SpanKind;
use crate::{CpuId, Loss};

const CPU: CpuId = CpuId(1);

fn switch(at: u64, prev_tid: u32, outcome: Outcome, next_tid: u32) -> Event {
    let at = Timestamp(at);
    let (prev_tgid, exec_ns) = (if prev_tid == 0 { 0 } else { 5 }, (prev_tid != 0).then_some(at.0));
    Event::Switch(Switch {
        at,
        cpu: CPU,
        prev_tid,
        next_tid,
        prev_tgid,
        outcome,
        exec_ns,
        ..Switch::default()
    })
}

fn blocked(stack: u64) -> Outcome {
    Outcome::Blocked(Box::new(RawWait { syscall: 202, stack, ..RawWait::default() }))
}

fn waking(at: u64, wakee_tid: u32) -> Event {
    Event::Waking(Waking { at: Timestamp(at), cpu: CPU, wakee_tid, ..Waking::default() })
}

fn emitted(events: &[Event]) -> Vec<Event> {
    let mut standing = Standing::default();
    events.iter().for_each(|event| standing.fold(event));
    let mut all = Vec::new();
    standing.emit(Timestamp(1000), &mut |event| all.push(event));
    all
}

fn state_of(tid: u32, events: &[Event]) -> Option<(SnapshotState, Option<u64>)> {
    emitted(events).into_iter().find_map(|event| match event {
        Event::Snapshot(Snapshot { tid: of, state, exec_ns, .. }) if of == tid => Some((state, exec_ns)),
        _ => None,
    })
}

#[test]
fn the_last_event_of_a_thread_gives_its_state() {
    let events = [
        switch(10, 0, Outcome::Untracked, 7),
        switch(20, 7, blocked(3), 8),
        waking(30, 7),
        switch(40, 8, blocked(4), 7),
    ];
    let state = |count: usize| state_of(7, &events[..count]).unwrap();
    assert_eq!(state(1).0, SnapshotState::Running(CPU));
    assert!(matches!(state(2), (SnapshotState::Blocked(wait), Some(20)) if wait.stack == 3));
    assert_eq!(state(3).0, SnapshotState::Runnable);
    assert_eq!(state(4), (SnapshotState::Running(CPU), Some(20)), "counters are those of its last switch");
}

#[test]
fn what_comes_late_does_not_undo_what_is_later() {
    let mut events = vec![
        switch(10, 0, Outcome::Untracked, 7),
        switch(20, 7, blocked(3), 8),
        waking(30, 7),
        switch(40, 8, Outcome::Preempted, 7),
    ];
    let in_order = emitted(&events);
    events.swap(1, 3);
    assert_eq!(emitted(&events), in_order);
    events.reverse();
    assert_eq!(emitted(&events), in_order);
}

#[test]
fn dead_threads_are_omitted_and_a_reused_tid_starts_fresh() {
    let fork = |at| {
        Event::Lifecycle(Lifecycle {
            at: Timestamp(at),
            change: LifecycleChange::Fork { parent_tid: 5 },
            tid: 7,
            tgid: 5,
            name: "worker".to_owned(),
            target: true,
        })
    };
    let life = [fork(5), switch(10, 0, Outcome::Untracked, 7), switch(20, 7, Outcome::Dead, 0)];
    assert_eq!(state_of(7, &life), None);
    let again = [&life[..], &[fork(30)]].concat();
    assert_eq!(state_of(7, &again), Some((SnapshotState::Runnable, Some(0))));
}

#[test]
fn states_after_lost_switches_are_unknown() {
    let loss = Event::Loss(Loss {
        source: "sched".to_owned(),
        reason: "ring-full".to_owned(),
        cpu: CPU,
        start: Timestamp(21),
        end: Timestamp(25),
        events: 3,
    });
    let events = [switch(20, 7, blocked(3), 8), loss, switch(30, 0, Outcome::Untracked, 9)];
    assert_eq!(state_of(7, &events).unwrap().0, SnapshotState::Untracked);
    assert_eq!(state_of(9, &events).unwrap().0, SnapshotState::Running(CPU), "was seen since");
}

#[test]
fn mappings_and_open_spans_are_emitted_again() {
    let map = |at, start, end, path: &str| {
        Event::Mapping(RawMapping {
            at: Timestamp(at),
            tgid: 5,
            start,
            end,
            path: path.to_owned(),
            ..RawMapping::default()
        })
    };
    let tell = |at, what, name: &str| {
        Event::Runtime(RuntimeEvent { at: Timestamp(at), tgid: 5, tid: 7, lane: 0, what, name: name.into() })
    };
    let events = [
        switch(1, 7, blocked(0), 0),
        map(1, 100, 200, "/old"),
        map(2, 300, 400, "/other"),
        map(3, 100, 200, "/new"),
        tell(1, RuntimeEventKind::LaneStart, "ocaml 5.3"),
        tell(2, RuntimeEventKind::Begin(SpanKind::GcWork), "minor"),
        tell(3, RuntimeEventKind::Begin(SpanKind::GcWork), "major"),
        tell(4, RuntimeEventKind::End, "major"),
    ];
    let told = emitted(&events);
    let paths: Vec<&str> = told
        .iter()
        .filter_map(|event| match event {
            Event::Mapping(mapping) => Some(mapping.path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(paths, ["/other", "/new"]);
    let names: Vec<(&str, u64)> = told
        .iter()
        .filter_map(|event| match event {
            Event::Runtime(tell) => Some((&*tell.name, tell.at.0)),
            _ => None,
        })
        .collect();
    assert_eq!(names, [("ocaml 5.3", 1000), ("minor", 1000)]);
}

/// A recording that begins in the middle begins with the windows that are open.
#[test]
fn windows_that_are_open_stand() {
    let window = |at, tgid, opens| Event::TaskWindow(TaskWindow { at: Timestamp(at), tgid, opens });
    // The first process' come out of order.
    let events = [
        window(10, 5, true),
        window(30, 5, true),
        window(20, 5, false),
        window(10, 6, true),
        window(40, 6, false),
    ];
    assert_eq!(emitted(&events), [window(1000, 5, true)]);
}

/// The end of a probed thread's lane is never reported. A runtime's lane may outlive the thread that reported
/// its start.
#[test]
fn lanes_of_exited_threads_are_forgotten() {
    let start = |tgid, tid, lane| {
        let (what, name) = (RuntimeEventKind::LaneStart, format!("lane {lane}").as_str().into());
        Event::Runtime(RuntimeEvent { at: Timestamp(20), tgid, tid, lane, what, name })
    };
    let begin = |tgid, tid, lane| {
        let (what, name) = (RuntimeEventKind::Begin(SpanKind::User), format!("span {lane}").as_str().into());
        Event::Runtime(RuntimeEvent { at: Timestamp(20), tgid, tid, lane, what, name })
    };
    let fork = |at, tid, tgid| {
        let change = LifecycleChange::Fork { parent_tid: 5 };
        let name = "worker".to_owned();
        Event::Lifecycle(Lifecycle { at: Timestamp(at), change, tid, tgid, name, target: true })
    };
    let late = DEAD_KEPT.0 + 100;
    let events = [
        fork(1, 5, 5),
        fork(1, 7, 5),
        fork(1, 8, 5),
        fork(1, 9, 5),
        fork(1, 10, 5),
        // Lanes of a live thread, of no thread, and of an unknown thread.
        start(5, 5, 5),
        start(5, 0, 0),
        start(5, 6, 6),
        // Lanes of a thread that dies, of one that dies within a span of an unknown lane, and of two whose
        // tid is reused.
        start(5, 7, 7),
        begin(5, 8, 8),
        start(5, 9, 9),
        start(5, 10, 10),
        switch(30, 7, Outcome::Dead, 8),
        switch(30, 8, Outcome::Dead, 0),
        fork(40, 9, 6),
        fork(40, 10, 5),
        switch(late, 0, Outcome::Untracked, 5),
    ];
    let mut standing = Standing::default();
    events.iter().for_each(|event| standing.fold(event));
    let lanes = |standing: &Standing| {
        let mut lanes = Vec::new();
        standing.emit(Timestamp(late), &mut |event| {
            if let Event::Runtime(tell) = event {
                lanes.push(tell.lane);
            }
        });
        lanes
    };
    assert_eq!(lanes(&standing), [0, 5, 6, 7, 8, 9, 10]);
    standing.purge();
    assert_eq!(lanes(&standing), [0, 5, 6, 10]);
}
